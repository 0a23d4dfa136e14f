// Package pebbleshard is the embedded shard: a Store on Pebble, in a directory
// that exactly one process has open.
//
// Every Apply is one Pebble batch: the rows, the journal entry and the lane's
// position, written to the WAL and synced before Apply returns. Lanes decide one
// after the other against rows decoded in memory, and wait for their syncs
// together, so that one sync serves many lanes:
//
//	lock; view := rows(ReadSet(ops)); Decide; write the batch; unlock
//	wait for the sync; answer
//
// A decision may read rows whose sync is still under way. Their batch is before
// its own in the WAL, so its own sync is theirs too; an Apply that changes
// nothing, and every reader, waits for the last batch it could have seen. So
// nothing that a Store has shown is ever lost.
//
// A failed sync leaves the disk's state unknown: what was in flight ends as
// OUTCOME_UNKNOWN, everything later as CELL_UNAVAILABLE, until the store is
// opened again. The same holds when Pebble itself cannot go on (its manifest cannot
// be written) and when it meets a damaged file (DamagedError), on whichever
// goroutine: the store never panics for it, and its owner ends the process.
//
// Decisions are written beside that without waiting for a sync:
// who decides on claims never waits for them, and their batches are whole or not
// there. Their indexes hash what they name, so a reader checks the row.
//
// On disk are the rows, their tombstones and the journal; the indexes of live
// claims are made from the rows at Open and kept in memory. Memory is that of
// all hosts and live claims.
//
// Nothing acknowledged is ever missing in silence: each commit has a number and a
// checksum of the rows after it, MARK has the newest number that was acknowledged, and
// Open compares them before it writes. mark.go says which commits a power cut may still take.
//
//	FORMAT   the format version, the cell's name and uuid
//	MARK     the newest acknowledged commit
//	HOLDER   who has it open, for the message to a second opener
//	LOCK     held while open
//	pebble/  Pebble's own files
//
// Rows given to Apply belong to the store: do not change them afterwards.
package pebbleshard
