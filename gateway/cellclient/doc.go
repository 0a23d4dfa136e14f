// Package cellclient calls the schedulers of cells. It knows their addresses, and little of the calls' contents.
//
// A Cell has one or more Replicas. A call goes to the replica that owns its key, within a budget, and to another one
// if that is safe (replica.go, hedge.go, retry.go). Each replica has a breaker, which only the prober closes again
// (breaker.go, probe.go, docs/adr/0008). Queries, operations and searches for claims that queue during a call share
// the next call (batcher.go, propose.go, committer.go, finder.go). The prober keeps each cell's summary
// (directory.go). AskAll, Search and Pages ask several cells.
//
//	I7  a sick cell costs its own answer only    TestI7_… of package gateway
package cellclient
