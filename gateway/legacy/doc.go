// Package legacy has a gateway's part for a cell that still runs on Nova's own tables, from
// its first day until every agent of the cell reports.
//
//	novadb       reads Nova's databases: hosts, aggregates, services, instances
//	gatewatch    reports the services in the tables to the cell; the cell moves its gate
//	importer     writes the rows into the cell's shard, as reports of an agent
//	try          cellgate try: a trial of cellgate with a cloud, read-only
//	scratch      a database server for dumps, while cellgate try runs
//	legacytest   Nova's databases for tests, on a real MariaDB or PostgreSQL
//
// No request of a caller passes through here: a cell answers from its shard in every state of
// its gate (docs/adr/0016).
package legacy
