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
// commit. It is the one retry loop. cockroach-go counts the tries and knows CockroachDB's errors. The pauses and the
// classification of PostgreSQL's errors are here.
func (s *Store) retry(ctx context.Context, once func(ctx context.Context) error) error {
	tries, losses := 0, 0
	return crdb.ExecuteCtx(crdb.WithMaxRetries(ctx, maxTries), func(ctx context.Context, _ ...any) error {
		if tries++; tries > 1 {
			if err := pause(ctx, tries); err != nil {
				return err
			}
		}
		err := once(ctx)
		if err == nil || ctx.Err() != nil {
			return final{err}.orNil()
		}
		if known, sure := (*fault.Error)(nil), (final{}); errors.As(err, &known) || errors.As(err, &sure) {
			return final{err}
		}
		switch meaning(err) {
		case race:
			s.count.races.Add(1)
			return retryable{err}
		case lost:
			// The pool's other connections are probably broken too.
			s.count.lost.Add(1)
			s.pool.Reset()
			if dumb := (silence{}); errors.As(err, &dumb) {
				s.opts.Log.Warn("a connection to the shard's database is given up", "err", dumb)
			}
			if losses++; losses < maxLost {
				return retryable{err}
			}
		case slow:
			s.count.slow.Add(1)
		case full:
			s.count.noRoom.Add(1)
			if losses++; losses < maxLost {
				return retryable{err}
			}
		case broken:
			s.count.refused.Add(1)
		}
		return final{err}
	})
}

// final hides an error's SQLSTATE, so that it is not retried.
type final struct{ error }

func (f final) orNil() error {
	if f.error == nil {
		return nil
	}
	return f
}

func (final) SQLState() string { return "" }

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
