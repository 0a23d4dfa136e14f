package shard

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ApplyLimit is how long a caller waits for one transaction.
const ApplyLimit = 10 * time.Second

// Store is one cell's shard.
//
// Errors are *fault.Error: CellUnavailable when the backend cannot be reached
// or is closed, OutcomeUnknown when a commit's fate is not known. Context ends
// come back as the context's error. Implementations are safe for concurrent use.
type Store interface {
	// Now is the store's time. It never goes back, also not over restarts.
	Now(ctx context.Context) (time.Time, error)
	// OpenLane starts a lane: one incarnation of one replica.
	OpenLane(ctx context.Context, replica string) (Lane, error)
	Synchronizer
	Reader
	Decisions
	// Trim drops journal entries and tombstones older than the given store time, but no tombstone younger than
	// TombstoneTTL. A store that bounds the bytes of tombstones also drops the oldest beyond the bound, but none
	// younger than MinTombstoneTTL. A store may drop fenced lanes without entries.
	Trim(ctx context.Context, before time.Time) error
	// Close releases the store. Later calls fail with CellUnavailable.
	Close() error
}

// ErrBroken is in the error chain of a store that failed to write, or lost what it wrote, and cannot go on: it must be
// opened again.
var ErrBroken = errors.New("the store is broken")

// ErrFenced is in the error chain of a lane that a newer incarnation of its replica or a step of the schema ended.
// Nothing can be written through it any more.
var ErrFenced = errors.New("the replica was fenced")

// Synchronizer gives every scheduler of a cell the states of hosts and the claims on them: all rows as of one point,
// and the changes after it. A Store reads its rows and its journal. A scheduler needs no more than this interface, so
// another source that receives every entry can implement it too.
type Synchronizer interface {
	// Load visits the gate, every host, usage, live claim, pin, namespace, admin state and custom name, in this
	// order, as of one point. It gives the journal position of that point: Tail from there gives exactly the later
	// changes. An error of visit ends it.
	Load(ctx context.Context, visit func(Change) error) (Cursor, error)
	// Tail gives at most limit entries after the cursor, and the cursor after them; no entries if there are none. It
	// includes everything acknowledged before the call. Entries of one lane come in order and without gaps; there is
	// no order between lanes. Changes are absolute rows, so the newest wins: the higher Generation (hosts, usage,
	// namespaces, admin states), the later UpdatedAt (claims), the later Entry.At (pins, names) or the higher
	// Revision (the gate).
	//
	// A cursor behind the trimmed floor, or of another journal, is a Gone fault: Load again. The new cursor replaces
	// the old one whole, without lanes that were dropped. A Store fails with ErrFenced if the lane that it opened
	// last was fenced, and with ErrBroken, too, if it lost an entry that the cursor names: rows of the caller may
	// then be newer than those of Load.
	Tail(ctx context.Context, after Cursor, limit int) ([]Entry, Cursor, error)
}

// Reader reads rows outside of claims.
type Reader interface {
	// FindClaims lists claims by ascending ClaimID.
	FindClaims(ctx context.Context, q ClaimQuery) (ClaimPage, error)
	// Due lists at most limit PENDING claims whose lease is over in store
	// time, the longest overdue first.
	Due(ctx context.Context, limit int) ([]ClaimRef, error)
}

// Lane is the writer of a replica. One Apply runs at a time: concurrent calls wait for each other.
type Lane interface {
	ID() LaneID
	// Apply runs the operations in order, as one serializable transaction, and gives each an outcome. After a nil
	// error the result is durable. After OutcomeUnknown the lane finds out what happened before its next Apply. After
	// any other error nothing was written. The store owns what ops point to from the call on.
	Apply(ctx context.Context, ops []Op) (Applied, error)
}

// LaneID names a lane: the replica and its incarnation, a number that increases.
type LaneID struct {
	Replica     string
	Incarnation uint64
}

// Applied is the result of one Apply.
type Applied struct {
	// Outcomes has one for each operation, in order.
	Outcomes []Outcome
	// Entry is the journal entry; Seq 0 if nothing changed.
	Entry Entry
}

// Entry is one transaction's journal row.
type Entry struct {
	Lane LaneID
	// Seq counts a lane's entries from 1, without gaps.
	Seq uint64
	At  time.Time
	// Changes are absolute rows.
	Changes []Change
}

// Cursor is a position in the journal: the last Seq seen of each lane. A lane that is not in it was not seen, or is
// dropped. Nil is the beginning. The store defines the meaning of a lane without a Replica.
type Cursor map[LaneID]uint64

// ClaimQuery narrows FindClaims; zero fields do not.
type ClaimQuery struct {
	ConsumerUUIDs []string
	ClaimIDs      []string
	HostUUID      string
	ProjectID     string
	// Ended includes tombstones.
	Ended bool
	// After: only claims with a higher ClaimID.
	After string
	// Limit is the page's size; 0 means 1,000.
	Limit int
}

// Matches reports whether the query asks for a claim, the limit aside.
func (q *ClaimQuery) Matches(c *Claim) bool {
	return c.ClaimID > q.After &&
		(len(q.ClaimIDs) == 0 || slices.Contains(q.ClaimIDs, c.ClaimID)) &&
		(len(q.ConsumerUUIDs) == 0 || slices.Contains(q.ConsumerUUIDs, c.ConsumerUUID)) &&
		(q.HostUUID == "" || c.HostUUID == q.HostUUID) &&
		(q.ProjectID == "" || c.ProjectID == q.ProjectID) &&
		(q.Ended || c.State.Live())
}

// ClaimPage is a page of FindClaims.
type ClaimPage struct {
	Claims []*Claim
	More   bool
}
