// Package pebbleshard is the embedded shard: a Store on Pebble, in a directory that exactly one process has open.
//
// Every Apply is one Pebble batch: the rows, the journal entry and the lane's
// position, written to the WAL and synced before Apply returns. Lanes decide one
// after the other against rows decoded in memory, and wait for their syncs
// together, so that one sync serves many lanes:
//
//	lock; view := rows(ReadSet(ops)); Decide; write the batch; unlock
//	wait for the sync; answer
//
// A decision may read rows whose sync is not finished. Their batch is before its own in the WAL, so its own sync
// includes theirs. An Apply that changes nothing, and every reader, waits for the last batch that it may have read.
// So nothing that a Store has shown is ever lost.
//
// After a failed sync the state of the disk is unknown. Running calls end with OUTCOME_UNKNOWN, all later ones with
// CELL_UNAVAILABLE, until the store is opened again. The same holds if Pebble itself cannot go on (it cannot write
// its manifest), fails to write a table, or finds a damaged file (DamagedError) on any goroutine. The store never
// panics for this; its owner ends the process.
//
// Decisions are written separately, without waiting for a sync. Decisions on claims never wait for them, and each of
// their batches is written whole or not at all. Their indexes hash terms, so a reader checks the row.
//
// The disk has the rows, their tombstones and the journal. Open builds the indexes of live claims from the rows, and
// keeps them in memory. The memory needed is that of all hosts and live claims.
//
// No acknowledged commit is ever missing silently. Each commit has a number and a checksum of the rows after it. MARK
// has the newest acknowledged number. Open compares them before it writes. mark.go says which commits a power cut may
// still take.
//
//	FORMAT   the format version, the cell's name and uuid
//	MARK     the newest acknowledged commit
//	LOCK     held while open
//	pebble/  Pebble's own files
//
// Rows given to Apply belong to the store: do not change them afterwards.
package pebbleshard
