// Package gateway is the public API: it chooses hosts over all cells and claims
// them.
//
// It keeps nothing but caches. Cells are reached only through proto/cellgate/cell/v1;
// the order of hosts is decided by schedule.Plan, and what is claimed is decided
// by the cells' shards. What remains here is the life of one request (select.go):
// admit, translate, route, propose and merge, claim, answer.
//
// What it promises, and the tests that hold it:
//
//	I5  the merged order is a single scheduler's      TestI5_…
//	I7  a sick cell costs its own answer only         TestI7_…
//	I9  hard affinity holds over cells                TestI9_…
//	    all instances or none                         TestAllOrNone…
//	    the same request gives the same answer        TestRepeat…
//	    unavailable and full are never the same error TestUnavailable…
//
// A cell under upgrade answers by Nova's rows until its gate is NATIVE: a gateway imports them, and tells
// the cell what services there are: gates.go, package legacy/gatewatch and docs/adr/0016. No request
// waits for that.
//
// A consumer's earlier claims are seen in the enabled cells that answer; by a move
// in the disabled ones too (docs/adr/0005, docs/how-to/runbook.md).
package gateway
