package bench

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gate answers as a gateway would, in process, each call after its time.
type gate struct {
	takes time.Duration

	mu             sync.Mutex
	at, most       int
	live, released int
	fail           func(n int) error
	n              int
}

func (g *gate) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	panic("not a stream")
}

func (g *gate) Invoke(_ context.Context, method string, in, out any, _ ...grpc.CallOption) error {
	if method == cellgatev1.Claims_ReleaseClaim_FullMethodName {
		time.Sleep(g.takes / 2)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.live--
		g.released++
		return nil
	}
	req := in.(*cellgatev1.SelectDestinationsRequest)
	g.mu.Lock()
	g.n++
	n := g.n
	g.at++
	g.most = max(g.most, g.at)
	g.mu.Unlock()
	time.Sleep(g.takes)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at--
	if g.fail != nil {
		if err := g.fail(n); err != nil {
			return err
		}
	}
	resp := out.(*cellgatev1.SelectDestinationsResponse)
	resp.Exact = true
	for _, id := range req.GetInstanceUuids() {
		g.live++
		resp.Destinations = append(resp.Destinations, &cellgatev1.Destinations{
			InstanceUuid: id, Selected: &cellgatev1.Selection{Cell: "cell1", ClaimId: id, Claimed: true},
		})
	}
	return nil
}

func load(callers int, release Release) Load {
	return Load{Callers: callers, Warmup: time.Second, Duration: 10 * time.Second, Shape: Same, Release: release, CallWithin: time.Second}
}

func TestRunCountsTheMeasuredTimeOnly(t *testing.T) {
	for release, perCaller := range map[Release]int{
		ReleaseEnd:  100, // 10 s of 100 ms each
		ReleaseEach: 67,  // each followed by a release of 50 ms
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{takes: 100 * time.Millisecond}
			began, ended := 0, 0
			l := load(3, release)
			l.Begin, l.End = func() { began++ }, func() { ended++ }
			r := Run(t.Context(), []grpc.ClientConnInterface{g}, l)
			if diff := r.Selections - 3*perCaller; diff < -3 || diff > 3 {
				t.Errorf("%s: %d selections, want about %d", release, r.Selections, 3*perCaller)
			}
			if g.most != 3 || began != 1 || ended != 1 || r.Seconds != 10 || r.Latency.P50 != 100 || r.Latency.Max != 100 {
				t.Errorf("%s: %d at once, began %d, ended %d, %+v", release, g.most, began, ended, r)
			}
			if g.live > 0 || r.Release == nil || r.Release.Latency.P99 != 50 {
				t.Errorf("%s: releases %+v", release, r.Release)
			}
		})
	}
}

func TestRunCountsErrorsByKindAndWaitsAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{takes: 100 * time.Millisecond, fail: func(n int) error {
			switch n % 4 {
			case 0:
				e := fault.New(fault.Overloaded, "busy")
				e.RetryAfter = time.Second
				return e
			case 2:
				return fault.New(fault.NoValidHost, "none")
			}
			return nil
		}}
		r := Run(t.Context(), []grpc.ClientConnInterface{g}, load(1, ReleaseEnd))
		// Four calls take 0.4 s, and the one that was refused 1 s more.
		if n := r.Errors[string(fault.Overloaded)]; n < 6 || n > 8 {
			t.Errorf("%d refused as overloaded, want about 7", n)
		}
		if r.Errors[string(fault.NoValidHost)] < 6 || r.Failed() != r.Errors[string(fault.Overloaded)]+r.Errors[string(fault.NoValidHost)] {
			t.Errorf("errors = %v, failed %d", r.Errors, r.Failed())
		}
	})
}

func TestRunEndsWithItsContextAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{takes: 100 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		l := load(2, ReleaseEnd)
		l.Begin = func() { t.Error("began to measure") }
		began := time.Now()
		Run(ctx, []grpc.ClientConnInterface{g}, l)
		if took := time.Since(began); took > time.Second || g.live != 0 || g.released == 0 {
			t.Errorf("took %v, %d claims left, %d released", took, g.live, g.released)
		}
	})
}

func TestQuantilesAreOfTheSortedDurations(t *testing.T) {
	var d []time.Duration
	for i := 200; i > 0; i-- {
		d = append(d, time.Duration(i)*time.Millisecond)
	}
	if got, want := QuantilesOf(d), (Quantiles{P50: 100, P95: 190, P99: 198, Max: 200}); got != want {
		t.Errorf("quantiles = %+v, want %+v", got, want)
	}
	if got, want := QuantilesOf([]time.Duration{time.Millisecond}), (Quantiles{1, 1, 1, 1}); got != want {
		t.Errorf("quantiles of one = %+v, want %+v", got, want)
	}
	if got := QuantilesOf(nil); got != (Quantiles{}) {
		t.Errorf("quantiles of none = %+v", got)
	}
}
