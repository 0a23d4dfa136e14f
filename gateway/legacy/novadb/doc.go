// Package novadb reads Nova's own cell database: compute_nodes and services of a
// cell, and from the API database the cell's aggregates and host mappings, on
// MySQL, MariaDB and PostgreSQL. Rows become hosts of package schedule through
// schedule/nova, as those of the golden cases do.
//
// It only reads: sessions are read-only, every load is one read-only transaction
// in each database, and a user with SELECT on the tables is enough. It decides
// nothing: who speaks for a host is the cell's gate to say.
//
// # How changes are found
//
// compute_nodes has no index by time, so "rows changed since" makes the server
// read the whole table, and it is wrong besides: a soft delete sets deleted_at
// and not updated_at, a row that was never updated has NULL there, an
// archived row leaves nothing, commits arrive after later ones, and the times are
// of the clocks of whoever wrote. So Refresh compares no time with another. It
// reads the stamps of all live rows (id, created_at, updated_at) and then the rows
// whose stamp is not the one it knows:
//
//	a row that is gone, soft or hard    its stamp is missing
//	a row that is new or back           its stamp is not known
//	a commit that came late             its stamp differs, however old it is
//	two writes in one second            the stamp is the same: a row is read again
//	                                    until its stamp is known for Config.Overlap
//
// What leaves no trace is a write that touches neither created_at, updated_at nor
// deleted: SQL by hand, a same-second write whose commit came later than Overlap,
// and on a fresh Load a same-second write of a clock that is more than a minute
// behind. Load finds those. Whoever polls calls it now and then, at moments that
// differ from gateway to gateway.
//
// services moves with every heartbeat: it is read whole each time. What the API database
// has of the cell hardly ever moves: its server makes digests of all that is read of
// host_mappings and of the aggregates, and what has another one is read whole. The two
// databases are read one after the other; they have no moment in common.
//
// # What is left out
//
// A row that cannot be a host is left out and listed with its reason; the others
// are there all the same (Nova fails the whole request). With
// Config.KeepUnreadable such rows stay hosts whose Facts say what cannot be read,
// for comparing with Nova. A load that did not read everything gives an error and
// no snapshot: see Trouble.
//
// Tests that hold this: TestTraps…, TestRefreshIsLoad, TestFaults…, TestTroubles, and TestGoldenFromDatabases of
// schedule/nova.
package novadb
