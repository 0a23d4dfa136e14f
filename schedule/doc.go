// Package schedule is the core: it decides which hosts can hold an instance, and in which order a scheduler prefers
// them.
//
// It is pure. It imports only the standard library, internal/python and schedule/hardware, reads no clock, draws no
// random number, logs nothing and starts no goroutine: time and seeds are inputs. The same inputs give the same answer
// on every machine. Sums of products are written float64(a*b) + c so that no platform fuses them.
//
// The pieces, in the order a request meets them:
//
//	Request, Rules        what is asked, and what to decide by
//	Table                 the hosts, immutable; an Edit gives the next version
//	Table.Propose(Query)  filter, weigh, rank: one cell's answer
//
// Package schedule/merge joins the cells' answers into the order of one scheduler over all hosts.
//
// Invariants held here: a table's part of I6 (a database's filter finds the same hosts), and, with schedule/merge, I5
// (merged order = single-scheduler order, for several instances too). The tests that hold them compare with a naive
// oracle in the test files. Those of I5 are in package schedule_test, which imports both packages.
package schedule
