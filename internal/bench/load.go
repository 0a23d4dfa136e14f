package bench

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Release says when claims are released.
type Release string

const (
	// ReleaseEach: the caller releases its claims before its next selection.
	ReleaseEach Release = "each"
	// ReleaseEnd: all claims are released after the measured time.
	ReleaseEnd Release = "end"
)

// Load is a load to make.
type Load struct {
	// Callers at once, each with one request on its way.
	Callers int
	// Warmup comes before Duration and is not measured.
	Warmup, Duration time.Duration
	Shape            Shape
	Release          Release
	// Seed determines the requests.
	Seed uint64
	// CallWithin bounds one call.
	CallWithin time.Duration
	// Begin and End, if set, are called when the measured time begins and ends. They are not called if
	// the load ends before it begins. They must not block.
	Begin, End func()
}

// Run generates the load over the connections and returns the result. It ends early, without an error,
// when ctx does; the claims made are still released.
func Run(ctx context.Context, conns []grpc.ClientConnInterface, l Load) Result {
	began := time.Now()
	measure := window{from: began.Add(l.Warmup), to: began.Add(l.Warmup + l.Duration)}
	loading, cancel := context.WithDeadline(ctx, measure.to)
	defer cancel()
	callers := make([]*caller, l.Callers)
	var all sync.WaitGroup
	for i := range callers {
		conn := conns[i%len(conns)]
		c := &caller{
			scheduler: cellgatev1.NewSchedulerClient(conn), claims: cellgatev1.NewClaimsClient(conn),
			maker:   maker{shape: l.Shape, dice: rand.New(rand.NewPCG(l.Seed, uint64(i)))},
			release: l.Release, within: l.CallWithin, window: measure, tally: newTally(),
		}
		callers[i] = c
		all.Go(func() { c.run(loading) })
	}
	pause(loading, time.Until(measure.from))
	begun := loading.Err() == nil
	if begun && l.Begin != nil {
		l.Begin()
	}
	<-loading.Done()
	took := min(time.Since(measure.from), l.Duration)
	if begun && l.End != nil {
		l.End()
	}
	all.Wait()
	sum := newTally()
	for _, c := range callers {
		sum.add(c.tally)
	}
	r := sum.result(l, took)
	if l.Release == ReleaseEnd {
		r.Release = releaseAll(ctx, callers)
	}
	return r
}

// window is the measured time. A call counts at the moment of its answer.
type window struct{ from, to time.Time }

func (w window) has(t time.Time) bool { return !t.Before(w.from) && t.Before(w.to) }

// caller is one caller. One goroutine uses it at a time.
type caller struct {
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	maker     maker
	release   Release
	within    time.Duration
	window    window
	tally     *tally
	kept      []*cellgatev1.ReleaseClaimRequest
}

// run selects until ctx ends. It finishes a call under way.
func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		req, impossible := c.maker.next()
		began := time.Now()
		resp, err := c.selectDestinations(ctx, req)
		ended := time.Now()
		if c.window.has(ended) {
			c.tally.selection(resp, err, impossible, ended.Sub(began))
		}
		if err != nil {
			if wait := retryAfter(err); wait > 0 {
				pause(ctx, wait)
			}
			continue
		}
		for _, d := range resp.GetDestinations() {
			s := d.GetSelected()
			c.kept = append(c.kept, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: s.GetClaimId(), Cell: s.GetCell()})
		}
		if c.release == ReleaseEach {
			c.giveBack(ctx, func(d time.Duration, err error) {
				if c.window.has(time.Now()) {
					c.tally.releases.took(d, err)
				}
			})
		}
	}
}

func (c *caller) selectDestinations(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.within)
	defer cancel()
	return c.scheduler.SelectDestinations(ctx, req)
}

// giveBack releases the caller's claims and reports how long each release took.
func (c *caller) giveBack(ctx context.Context, took func(time.Duration, error)) {
	for _, ref := range c.kept {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.within)
		began := time.Now()
		_, err := c.claims.ReleaseClaim(bounded, ref)
		cancel()
		took(time.Since(began), err)
	}
	c.kept = c.kept[:0]
}

// releaseAll releases the claims of all callers concurrently.
func releaseAll(ctx context.Context, callers []*caller) *Calls {
	began := time.Now()
	each := make([]calls, len(callers))
	var all sync.WaitGroup
	for i, c := range callers {
		all.Go(func() { c.giveBack(ctx, each[i].took) })
	}
	all.Wait()
	var sum calls
	for i := range each {
		sum.add(&each[i])
	}
	return sum.result(time.Since(began))
}

// retryAfter is how long an error asks its caller to wait.
func retryAfter(err error) time.Duration {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
