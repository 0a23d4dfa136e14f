// Package gateway is the public API: it chooses hosts over all cells and claims them.
//
// It keeps only caches. Its packages: cellclient calls the cells, selection serves a request for destinations, claims
// serves existing claims, decisions records decisions, rules compiles the configured filters and weighers. The
// services here admit callers (admit.go), and serve cells and hosts.
//
// A cell under upgrade answers by Nova's rows until its gate is NATIVE: a gateway imports the rows, and reports to
// the cell which services they list (gates.go, package legacy/gatewatch, docs/adr/0016). No request waits for that.
//
// A selection sees a consumer's earlier claims in the enabled cells that answer; a move also sees those in disabled
// cells (docs/adr/0005, docs/how-to/runbook.md).
package gateway
