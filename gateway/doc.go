// Package gateway is the public API: it chooses hosts over all cells and claims them.
//
// It keeps nothing but caches, and joins its rooms: cellclient calls the cells, selection serves a request for
// destinations, claims what happens to claims later, decisions keeps what was decided, rules is what to decide by. The
// services here check who is admitted (admit.go), and serve cells and hosts.
//
// A cell under upgrade answers by Nova's rows until its gate is NATIVE: a gateway imports them, and tells the cell what
// services there are (gates.go, package legacy/gatewatch, docs/adr/0016). No request waits for that.
//
// A consumer's earlier claims are seen in the enabled cells that answer; by a move in the disabled ones too
// (docs/adr/0005, docs/how-to/runbook.md).
package gateway
