// Package replica keeps one replica's knowledge of its shard: the rows, and the table built from them.
// It commits through the replica's lane, and follows the other lanes.
//
//	queue.go ► pipeline.go ► lane
//	               │ changes
//	               ▼
//	follow.go ► writer.go ► versions of the table
//
// Rules:
//
//   - One goroutine, the writer, makes new versions of the table; readers load one pointer. A
//     scan never waits for a claim.
//   - A claim is acknowledged after the table shows it: the next proposal of this replica
//     counts it.
//   - Claims have priority over registrations: while claims wait, registrations get at most a 32nd of
//     a transaction.
//   - While the table is being loaded, queries are answered from small tables of the hosts that the
//     store finds (cold.go, hostquery.go), with the same results as from the whole table.
//   - When a proposal is made, the table is at most MaxBehind behind other replicas
//     (Journal.AwaitFresh). A replica whose lane was fenced ends.
//   - A lease ends once, in store time.
//   - In the table an instance that is being moved is on both its hosts. A transferred claim belongs
//     to its instance there, not to its consumer.
package replica
