package cellclient

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// A call that began before a change of the breaker's state does not count after it.
func TestLateNewsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerConfig{Failures: 1, OpenFor: time.Second}, func(change) {})
		enter := func() *pass {
			p, err := b.enter(asks)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		old, older := enter(), enter()
		enter().leave(failed, fault.New(fault.Internal, "broken"))
		if _, err := b.enter(asks); !errors.Is(err, ErrNotSent) || fault.KindOf(err) != fault.CellUnavailable {
			t.Fatalf("open: %v", err)
		}
		if _, err := b.enterProbe(); err == nil {
			t.Error("a probe within the open time")
		}
		time.Sleep(time.Second + expiryMargin) // virtual
		old.leave(failed, fault.New(fault.Internal, "from before"))
		probe, err := b.enterProbe()
		if err != nil {
			t.Fatal(err)
		}
		if s, _, _ := b.view(); s != gobreaker.StateHalfOpen {
			t.Fatalf("after the open time: %v", s)
		}
		if _, err := b.enter(asks); err == nil {
			t.Error("a user's call is the probe")
		}
		probe.leave(served, nil)
		older.leave(failed, fault.New(fault.Internal, "from before"))
		if s, _, _ := b.view(); s != gobreaker.StateClosed {
			t.Errorf("after the probe: %v", s)
		}
		enter().leave(served, nil)
	})
}

// TestBlame checks which errors count against a replica, in cases that virtual time does not show: this process was
// stopped, or the server's clock is a little ahead.
func TestBlame(t *testing.T) {
	slow := fault.Wrap(fault.CellUnavailable, context.DeadlineExceeded, "did not answer")
	ahead := rpc.FromStatus(status.Error(codes.DeadlineExceeded, "context deadline exceeded"))
	const budget = 250 * time.Millisecond
	for name, c := range map[string]struct {
		err         error
		took, given time.Duration
		want        outcome
	}{
		"late":                         {slow, budget, budget, failed},
		"late on a busy machine":       {slow, budget + 80*time.Millisecond, budget, failed},
		"this process was stopped":     {slow, 10 * time.Second, budget, excused},
		"the caller had less time":     {slow, budget, budget - time.Millisecond, excused},
		"the server's clock, all time": {ahead, budget - time.Microsecond, budget, failed},
		"the server's clock, less":     {ahead, time.Millisecond, 2 * time.Millisecond, excused},
		"no":                           {fault.New(fault.NoValidHost, "no"), time.Millisecond, budget, served},
	} {
		if got := judge(c.err, timing{took: c.took, budget: budget, fair: budget, given: c.given}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A call that waited unsent does not count against a replica that answered other calls meanwhile. It counts
// against one that answered none.
func TestBlameForWhatWasNotSent(t *testing.T) {
	notSent := fmt.Errorf("%w: %w", ErrNotSent, context.DeadlineExceeded)
	late := timing{took: time.Second, budget: time.Second, fair: time.Second, given: time.Second}
	for err, want := range map[error]outcome{
		notSent:                                failed,
		fmt.Errorf("%w: %w", errBusy, notSent): excused,
		fault.Wrap(fault.Overloaded, ErrNotSent, "too much waits"): excused,
	} {
		tm := late
		if fault.KindOf(err) == fault.Overloaded {
			tm.took = 0
		}
		if got := judge(err, tm); got != want {
			t.Errorf("%v: outcome %d, want %d", err, got, want)
		}
	}
}

// A streak of failed probes or writes does not end with calls of another kind that are
// served, nor with a refused write.
func TestStreaksAreOfTheirOwn(t *testing.T) {
	broken := fault.New(fault.Internal, "broken")
	const failures = 3
	for name, c := range map[string]struct {
		enter   func(b *breaker) (*pass, error)
		between func(b *breaker) (*pass, error)
		err     error
		want    gobreaker.State
	}{
		"probes, users served":  {(*breaker).enterProbe, entering(commits), nil, gobreaker.StateOpen},
		"writes, users served":  {entering(commits), entering(asks), nil, gobreaker.StateOpen},
		"writes, probes served": {entering(commits), (*breaker).enterProbe, nil, gobreaker.StateOpen},
		"writes, one refused":   {entering(commits), entering(commits), fault.New(fault.Overloaded, "full"), gobreaker.StateOpen},
		"writes, one served":    {entering(commits), entering(commits), nil, gobreaker.StateClosed},
		"reads, probes served":  {entering(asks), (*breaker).enterProbe, nil, gobreaker.StateOpen},
		"reads, others served":  {entering(asks), entering(asks), nil, gobreaker.StateClosed},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBreaker(BreakerConfig{Failures: failures, OpenFor: time.Minute}, func(change) {})
			for range failures {
				if s, _, _ := b.view(); s != gobreaker.StateClosed {
					t.Fatalf("%v too early", s)
				}
				for _, step := range []struct {
					enter func(*breaker) (*pass, error)
					v     outcome
					err   error
				}{{c.between, served, c.err}, {c.enter, failed, broken}} {
					p, err := step.enter(b)
					if err != nil {
						t.Fatal(err)
					}
					p.leave(step.v, step.err)
				}
			}
			if s, _, _ := b.view(); s != c.want {
				t.Errorf("the breaker is %v", s)
			}
		})
	}
}

func entering(k callKind) func(*breaker) (*pass, error) {
	return func(b *breaker) (*pass, error) { return b.enter(k) }
}

// Cells keep decisions without the disk, so that a stored decision does not show that the disk works.
func TestOnlyClaimsCommit(t *testing.T) {
	if kindOf(&cellv1.ClaimBatchRequest{}) != commits || kindOf(&cellv1.PutDecisionsRequest{}) != asks || kindOf(&cellv1.ListClaimsRequest{}) != asks {
		t.Error("wrong kinds")
	}
}
