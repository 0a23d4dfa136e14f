// Package cellclient calls the schedulers of cells: it knows their addresses, and nothing of what is asked.
//
// A Cell has one or more Replicas. A call goes to the replica that owns its key, within a budget, and to another one if
// that is safe (replica.go, hedge.go, retry.go). Each replica has a breaker, which only the prober closes again
// (breaker.go, probe.go, docs/adr/0008). Queries, operations and claims to find that queue during a call share the next one
// (batcher.go, propose.go, committer.go, finder.go). The prober keeps each cell's summary (directory.go). AskAll, Search and Pages
// ask several cells.
//
//	I7  a sick cell costs its own answer only    TestI7_… of package gateway
package cellclient
