// Package novadb reads a cell's rows of compute_nodes, services and instances from Nova's cell database, and the
// cell's aggregates and host mappings from the API database, on MySQL, MariaDB and PostgreSQL. Rows become hosts of
// package schedule through schedule/nova, as those of the golden cases do.
//
// It only reads: sessions are read-only, every load is one read-only transaction in each database, and a user with
// SELECT on the tables is enough. It decides nothing: the cell's gate decides whether rows or agents count for a
// host.
//
// # How changes are found
//
// compute_nodes has no index by time, so a query for rows changed since a time makes the server read the whole table.
// It would also be wrong: a soft delete sets deleted_at and not updated_at, a row that was never updated has NULL
// there, an archived row leaves no trace, commits become visible out of order, and the times come from the clocks of
// the writers. So Refresh does not compare times. It reads the stamps of all live rows (id, created_at, updated_at),
// and then the rows whose stamps it does not know:
//
//	a row that is gone, soft or hard    its stamp is missing
//	a row that is new or back           its stamp is not known
//	a commit that came late             its stamp differs, however old it is
//	two writes in one second            the stamp is the same: a row is read again
//	                                    until its stamp is known for Config.Overlap
//
// Refresh does not see a write that changes none of created_at, updated_at and deleted: SQL by hand; a write in the
// same second that is committed later than Overlap; and, on a fresh Load, a same-second write by a clock that is more
// than a minute behind. Load finds those. A caller that polls should call Load now and then, at times that differ
// between gateways.
//
// services changes with every heartbeat, so it is read whole each time. So is the cell's part of the API database, which
// is small. The two databases are read one after the other, so their rows are of different moments.
//
// # What is left out
//
// A row that cannot be a host is left out and listed with its reason; the other hosts are still there (Nova fails the
// whole request). With Config.KeepUnreadable such rows stay hosts whose Facts name what cannot be read, for
// comparisons with Nova. A load that did not read everything gives an error and no snapshot: see Trouble.
//
// Tests: TestTraps…, TestRefreshIsLoad, TestFaults…, TestTroubles, and TestGoldenFromDatabases of schedule/nova.
package novadb
