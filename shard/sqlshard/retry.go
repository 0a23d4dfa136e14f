package sqlshard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/cockroach-go/v2/crdb"

	"cellgate/internal/fault"
)

const (
	// maxTries bounds the tries of a transaction that loses races.
	maxTries = 40
	// maxLost bounds the tries of a transaction whose connection breaks or is refused.
	maxLost = 4
)

// retry runs a whole transaction again while it loses races, and a few times if its connection breaks before it could
// commit. It is the one retry loop. cockroach-go counts the tries; the pauses and the classification of errors are here.
func (s *Store) retry(ctx context.Context, once func(ctx context.Context) error) error {
	tries, losses := 0, 0
	var last error
	err := crdb.ExecuteCtx(crdb.WithMaxRetries(ctx, maxTries), func(ctx context.Context, _ ...any) error {
		if tries++; tries > 1 {
			if last = pause(ctx, tries); last != nil {
				return nil
			}
		}
		if last = once(ctx); last != nil && ctx.Err() == nil && s.mayRepeat(last, &losses) {
			return retryable{last}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return last
}

// mayRepeat counts an error, and reports whether another try may succeed. losses are those of the connection so far.
func (s *Store) mayRepeat(err error, losses *int) bool {
	if known, sure := (*fault.Error)(nil), (final{}); errors.As(err, &known) || errors.As(err, &sure) {
		return false
	}
	switch meaning(err) {
	case race:
		s.count.races.Add(1)
		return true
	case lost:
		// The pool's other connections are probably broken too.
		s.count.lost.Add(1)
		s.pool.Reset()
		if dumb := (silence{}); errors.As(err, &dumb) {
			s.opts.Log.Warn("a connection to the shard's database is given up", "err", dumb)
		}
	case full:
		s.count.noRoom.Add(1)
	case slow:
		s.count.slow.Add(1)
		return false
	default:
		s.count.refused.Add(1)
		return false
	}
	*losses++
	return *losses < maxLost
}

// final marks an error that another try does not change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// pause waits before try n, from 2 on: about a millisecond at first, about 100 at most.
func pause(ctx context.Context, n int) error {
	most := min(100*time.Millisecond, time.Millisecond<<min(n-2, 10))
	t := time.NewTimer(most/2 + rand.N(most))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
