// Package sqlshard is the shard on CockroachDB or PostgreSQL: a Store on one
// database, that several replicas have open.
//
// Every Apply is one transaction of two trips to the server:
//
//	BEGIN; lock and read rows(ReadSet(ops))       one trip
//	shard.Decide
//	write the rows, the journal entry and the lane's position; COMMIT    one trip
//
// A row has the columns that SQL searches, locks or sorts by, and a body that
// rowcodec encodes (docs/adr/0013).
//
// What a transaction locks makes it serializable on either server, at every
// isolation level: each set of rows that a decision depends on has one row that
// stands for it, which is locked before the set is read, or inserted when it is
// not there.
//
//	host_usages    a host, what is used of it, the claims on it, its namespaces, and its admin state
//	consumers      which live claims a consumer has
//	server_groups  which live claims a group has
//	pins           a pin
//	lanes          whether a newer incarnation has fenced the lane
//	gate           the gate, for who moves it
//
// States of hosts read the gate without locking it, after their locks: one that is put while
// the gate moves counts as put before.
//
// Locks are taken in one order, so transactions wait for each other instead of
// failing. CockroachDB checks serializability as well: there no rows stand for consumers and
// groups, and no transaction writes a row that the lane's next one reads. PostgreSQL can check
// it (Options.Isolation); docs/adr/0010 has why it does not by default.
//
// A commit whose outcome is unknown is looked up: whoever has locked the lane's row
// after it, or on CockroachDB written it, sees whether its journal entry is there.
//
// What differs between the servers is in dialect.go. Every transaction that may be
// repeated runs in Store.retry, the one retry loop; faults.go says which errors mean
// what.
//
// Rows given to Apply belong to the store: do not change them afterwards.
package sqlshard
