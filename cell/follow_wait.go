package cell

import (
	"context"
	"time"

	"cellgate/internal/fault"
)

// caughtUp waits until the table is not older than maxBehind, as to other lanes. A
// replica that stood still, stopped by its machine or its store, would answer from
// what was then, and say that a cell is full which is not. It fails when the journal
// cannot be read.
func (f *follower) caughtUp(ctx context.Context) error {
	for asked := false; ; asked = true {
		f.mu.Lock()
		behind, reading, failed := time.Since(f.atEnd), f.reading, f.failed
		f.mu.Unlock()
		switch {
		case behind <= maxBehind:
			return nil
		case asked && failed != nil:
			return fault.Wrap(fault.CellUnavailable, failed, "the replica is %v behind its shard, whose journal cannot be read", behind.Round(time.Millisecond))
		}
		f.now()
		select {
		case <-reading:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readSince waits until the journal was read to its end, and shown, by a reading that
// began after a time. It fails when the journal cannot be read.
func (f *follower) readSince(ctx context.Context, at time.Time) error {
	for asked := false; ; asked = true {
		f.mu.Lock()
		done, reading, failed := f.atEnd.After(at), f.reading, f.failed
		f.mu.Unlock()
		switch {
		case done:
			return nil
		case asked && failed != nil:
			return failed
		}
		select {
		case <-reading:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// upToNow waits until the table has what was acknowledged before the call, whatever
// replica did it, and learned has heard of it. Those who wait share readings: who comes
// while one is under way, which may have missed what was done last, waits for the next. It
// fails when the journal cannot be read.
func (f *follower) upToNow(ctx context.Context) error {
	f.mu.Lock()
	want := f.begun + 1
	f.mu.Unlock()
	for {
		f.mu.Lock()
		read, tried, reading, failed := f.read, f.tried, f.reading, f.failed
		f.mu.Unlock()
		switch {
		case read >= want:
			return nil
		case tried >= want:
			return failed
		}
		select {
		case f.asked <- struct{}{}:
		default:
		}
		select {
		case <-reading:
		case <-f.over:
			return errStopping()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
