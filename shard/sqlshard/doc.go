// Package sqlshard is the shard on CockroachDB or PostgreSQL: a Store on one database that several replicas have
// open.
//
// Every Apply is one transaction of two trips to the server:
//
//	BEGIN; lock and read rows(ReadSet(ops))       one trip
//	shard.Decide
//	write the rows and the journal entry; COMMIT  one trip
//
// A further trip reads rows of hosts that are not cached, and claims transferred from instances that a state lacks.
//
// A row has the columns that SQL searches, locks or sorts by, and a body that
// rowcodec encodes (docs/adr/0013).
//
// Locks make a transaction serializable on either server, at every isolation level. Each set of rows that a decision
// depends on is guarded by one row. A transaction locks the guard row before it reads the set, or inserts it if it
// does not exist.
//
//	host_usages    a host, what is used of it, the claims on it, its namespaces, and its admin state
//	consumers      which live claims a consumer has, and which of its claims were released before they were made
//	server_groups  which live claims a group has
//	pins           a pin
//	lanes          whether a newer incarnation has fenced the lane
//	gate           the gate, for who moves it
//
// A PutHost reads the gate without a lock, after its locks: a state that is put while the gate moves counts as put
// before.
//
// Locks are taken in one order, so transactions wait for each other instead of failing. CockroachDB also checks
// serializability itself. There, no rows guard consumers and groups, and no transaction writes a row that the lane's
// next one reads. PostgreSQL can check it too (Options.Isolation); docs/adr/0010 says why it does not by default.
//
// A commit whose outcome is unknown is looked up. A later transaction that locked the lane's row, or on CockroachDB
// wrote it, sees whether the journal entry exists.
//
// The differences between the servers are in dialect.go. Every transaction that may be repeated runs in Store.retry,
// the one retry loop. faults.go classifies errors.
//
// Rows given to Apply belong to the store: do not change them afterwards.
package sqlshard
