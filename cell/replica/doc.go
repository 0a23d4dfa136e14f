// Package replica keeps what one replica of a cell knows of its shard: rows, and the table that
// is made of them. It commits through the replica's lane, and follows the other lanes.
//
//	queue.go ► pipeline.go ► lane
//	               │ changes
//	               ▼
//	follow.go ► writer.go ► versions of the table
//
// What holds:
//
//   - One goroutine, the writer, makes new versions of the table; readers load one pointer. A
//     scan never waits for a claim.
//   - A claim is acknowledged after the table shows it: the next proposal of this replica
//     counts it.
//   - Claims go before registrations: at most a 32nd of a transaction is registrations while
//     claims wait.
//   - While the table is loaded, queries are answered from small ones, of hosts that the store
//     finds itself (cold.go, hostquery.go), as they would be from the whole.
//   - The table is at most MaxBehind behind what other replicas did when it is proposed from
//     (Journal.AwaitFresh). A replica whose lane was fenced ends.
//   - A lease ends once, in store time.
//   - An instance that is moved is on both its hosts in the table, and a transferred claim is
//     its instance's there.
package replica
