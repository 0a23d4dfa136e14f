package pebbleshard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Options describe the shard to open.
type Options struct {
	// Cell and CellUUID are recorded in a new shard, and checked in an existing one.
	Cell     string
	CellUUID string
	// MaxClockJump is how far the machine's clock may be ahead of the shard's last time. If it is further ahead, Open
	// refuses, since store time never goes back. 0 is no bound.
	MaxClockJump time.Duration
	// Clock is the machine's time; nil means a clock that steps of the wall clock do not move (steady).
	Clock func() time.Time
	// MaxDecisionBytes bounds the bodies of decisions, before Pebble compresses them: TrimDecisions drops the oldest
	// beyond it. 0 is no bound.
	MaxDecisionBytes int64
	// MaxJournalBytes and MaxEndedBytes bound the journal and the tombstones: Trim drops the oldest beyond them. 0 is
	// no bound.
	MaxJournalBytes, MaxEndedBytes int64
	// MemTable is the size of a memtable in bytes; there are two. Large ones save CPU time, small ones memory. 0
	// means 8 MiB.
	MemTable uint64
	// Log receives Pebble's messages; nil means slog.Default().
	Log *slog.Logger
}

// Store is a shard.Store on Pebble.
type Store struct {
	opts Options
	dir  *directory
	db   *pebble.DB

	// mu serializes decisions on claims. It is not held during waits for syncs.
	mu              sync.Mutex
	rows            *cache
	sum             *rowSum
	sizes           sizes
	clock           clock
	lanes           map[uint64]*laneState
	lastIncarnation uint64
	// last is the newest batch: no row that a reader has seen is newer.
	last   *commit
	closed bool

	// using is read-locked while Pebble is read without mu, and locked by Close.
	using     sync.RWMutex
	syncer    syncer
	mark      *mark
	ends      ends
	decisions decisions
}

// laneState is a lane's position: its entries are those in (floor, last].
type laneState struct {
	id    shard.LaneID
	floor uint64
	last  uint64
}

var _ shard.Store = (*Store)(nil)

// Now is store time. A reading beyond the reservation waits for a sync, about once a second.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return time.Time{}, err
	}
	now := s.clock.tick()
	if _, need := s.clock.reservation(); need {
		b := s.db.NewBatch()
		if _, err := s.commit(b); err != nil {
			s.mu.Unlock()
			return time.Time{}, err
		}
	}
	seen := s.last
	s.mu.Unlock()
	if err := s.durable(ctx, seen); err != nil {
		return time.Time{}, err
	}
	return now, nil
}

// usable says why the store cannot be used; nil if it can. The caller holds s.mu.
func (s *Store) usable() error {
	if s.closed {
		return fault.New(fault.CellUnavailable, "the shard of cell %s is closed", s.opts.Cell)
	}
	return s.broken()
}

// broken says that the store has ended; nil if it has not.
func (s *Store) broken() error {
	err := s.ends.reason()
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.CellUnavailable, errors.Join(shard.ErrBroken, err), "the shard of cell %s cannot go on and must be opened again", s.opts.Cell)
}

// Close waits for running commits and releases the directory. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	if s.broken() == nil && s.clock.reserved.After(s.clock.last) {
		// A clean stop: the next start continues from the last reading, not from the reservation.
		s.clock.closing = true
		_, _ = s.commit(s.db.NewBatch()) // its failure is reported below
	}
	s.mu.Unlock()

	s.syncer.close()
	failure := s.broken()
	s.using.Lock()
	defer s.using.Unlock()
	err := s.mark.close()
	if s.ends.hasLostGoroutine() {
		// Closing Pebble would wait for the goroutine that ended.
		return errors.Join(failure, err, s.dir.release())
	}
	err = errors.Join(err, s.db.Close())
	if rerr := s.dir.release(); err == nil {
		err = rerr
	}
	if failure != nil {
		return failure
	}
	if err != nil {
		return fault.Wrap(fault.CellUnavailable, err, "the shard of cell %s did not close in order", s.opts.Cell)
	}
	return nil
}
