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
	// Now is the store's time. It never goes back over restarts.
	Now(ctx context.Context) (time.Time, error)
	// OpenLane starts a lane: one incarnation of one replica.
	OpenLane(ctx context.Context, replica string) (Lane, error)
	Synchronizer
	Reader
	Journal
	Decisions
	// Close releases the store. Later calls fail with CellUnavailable.
	Close() error
}

// ErrBroken is in the chain of the errors of a store that failed to write and
// cannot go on: it has to be opened again.
var ErrBroken = errors.New("the store is broken")

// ErrFenced is in the chain of the errors of a lane that was ended, by a newer incarnation of its
// replica or by a step of the schema: nothing can be written through it any more.
var ErrFenced = errors.New("the replica was fenced")

// Synchronizer is how the states of hosts, and the claims on them, reach every
// scheduler of a cell: all there is as of one point, and what changed after it. A
// Store's is its rows and its journal; a scheduler asks for no more of what stands
// behind it, so it can be something else that receives every entry.
type Synchronizer interface {
	// Load visits the gate, every host, every usage, every live claim, every pin, every namespace,
	// every admin state and every custom name, in this order, as of one point, and gives the journal position of that point: Tail from
	// there gives exactly the later changes. An error of visit ends it.
	Load(ctx context.Context, visit func(Change) error) (Cursor, error)
	// Tail gives at most limit entries after the cursor and the cursor after
	// them; none when there are none. In one lane entries come in order and
	// without gaps; between lanes there is no order: rows are absolute, the
	// higher Generation (hosts, usage, namespaces, admin states), later UpdatedAt (claims), later
	// Entry.At (pins, names) or higher Revision (the gate) wins. What was acknowledged before it was called is there. A cursor
	// behind the trimmed floor, or one that this journal did not give, is a Gone fault:
	// Load again. The new cursor takes the place of the old one whole: it does not name
	// lanes that were dropped. A Store fails with ErrFenced when the lane that it opened
	// last was fenced.
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

// Journal keeps what Tail gives.
type Journal interface {
	// Trim drops journal entries and tombstones older than the given store
	// time. Tombstones younger than TombstoneTTL are kept. A store that bounds their
	// bytes drops the oldest beyond as well, but no tombstone younger than
	// MinTombstoneTTL. A store may drop lanes that were fenced and have no entries left.
	Trim(ctx context.Context, before time.Time) error
}

// Lane is how a replica writes. One Apply at a time: concurrent calls wait for
// each other.
type Lane interface {
	ID() LaneID
	// Apply runs the operations in order, as one serializable transaction, and
	// answers each. When it returns a nil error the result is durable. With
	// OutcomeUnknown the lane finds out what happened before its next Apply;
	// on any other error nothing was written. What ops point to belongs to the
	// store from then on.
	Apply(ctx context.Context, ops []Op) (Applied, error)
}

// LaneID names a lane: the replica and its incarnation, which counts up.
type LaneID struct {
	Replica     string
	Incarnation uint64
}

// Applied is the result of one Apply.
type Applied struct {
	// Outcomes has one for each operation, in order.
	Outcomes []Outcome
	// Entry is what was journaled; Seq 0 when nothing changed.
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

// Cursor is a position in the journal: the last Seq seen of each lane. A lane
// not named was not seen, or is dropped. Nil is the beginning. What a lane without a
// Replica stands for is the store's business.
type Cursor map[LaneID]uint64

// ClaimQuery narrows FindClaims; zero fields do not.
type ClaimQuery struct {
	ConsumerUUIDs []string
	ClaimIDs      []string
	HostUUID      string
	ProjectID     string
	// Ended includes tombstones.
	Ended bool
	// After is the ClaimID after which to go on.
	After string
	// Limit is the page's size; 0 means 1,000.
	Limit int
}

// Matches reports whether a claim is one that the query asks for, but for the limit.
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
