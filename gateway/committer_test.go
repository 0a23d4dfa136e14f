package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// commitsOf has the sizes of the calls of ClaimBatch that begin, each of which waits for
// gate; refuse says why some are refused.
type commitsOf struct {
	*world
	sizes  []int
	gate   chan struct{}
	refuse func(*cellv1.ClaimBatchRequest) error
}

func watchCommits(w *world) *commitsOf {
	c := &commitsOf{world: w, gate: make(chan struct{}), refuse: func(*cellv1.ClaimBatchRequest) error { return nil }}
	w.cells[0].hook(func(ctx context.Context, _ string, req any) error {
		b, ok := req.(*cellv1.ClaimBatchRequest)
		if !ok {
			return nil
		}
		w.cells[0].mu.Lock()
		c.sizes = append(c.sizes, len(b.GetOps()))
		w.cells[0].mu.Unlock()
		select {
		case <-c.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		return c.refuse(b)
	}, nil)
	return c
}

func (c *commitsOf) called(want ...int) {
	c.t.Helper()
	synctest.Wait()
	c.cells[0].mu.Lock()
	defer c.cells[0].mu.Unlock()
	if !slices.Equal(c.sizes, want) {
		c.t.Errorf("calls of %v operations, want %v", c.sizes, want)
	}
}

// ask selects for instances from on, one request each, one after the other.
func (c *commitsOf) ask(ctx context.Context, from, n int) <-chan error {
	errs := make(chan error, n)
	for i := range n {
		go func() {
			resp, err := c.scheduler.SelectDestinations(ctx, ask(from+i, 1))
			if err == nil {
				err = c.owns(testUUID(1, from+i), resp.GetDestinations()[0].GetSelected().GetClaimId())
			}
			errs <- err
		}()
		synctest.Wait()
	}
	return errs
}

// owns reports that the claim of an id is not the instance's.
func (c *commitsOf) owns(instance, id string) error {
	for _, claim := range c.cells[0].live() {
		if claim.GetClaimId() == id && claim.GetConsumerUuid() == instance {
			return nil
		}
	}
	return fault.New(fault.Internal, "instance %s was answered claim %q", instance, id)
}

// Operations that come while a call is under way go as one when it ends, or when it is
// slow, and each caller has its own answer.
func TestOperationsOfSeveralRequestsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchCommits(start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute }))
		first := c.ask(t.Context(), 0, 4)
		c.called(1)
		time.Sleep(slowLeast)
		c.called(1, 3)
		more := c.ask(t.Context(), 10, 5)
		time.Sleep(slowLeast)
		c.called(1, 3, 5)
		close(c.gate)
		for range 4 {
			if err := <-first; err != nil {
				t.Error(err)
			}
		}
		for range 5 {
			if err := <-more; err != nil {
				t.Error(err)
			}
		}
		if got := len(c.cells[0].live()); got != 9 {
			t.Errorf("%d claims live, want 9", got)
		}
	})
}

// Whoever gives up while its operation waits is not sent, and those beside it are.
func TestWhoGaveUpIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchCommits(start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute }))
		first := c.ask(t.Context(), 0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.ask(ctx, 10, 1)
		rest := c.ask(t.Context(), 20, 2)
		cancel()
		if err := <-gone; err == nil {
			t.Error("the caller that gave up was answered")
		}
		time.Sleep(slowLeast)
		close(c.gate)
		for _, errs := range []<-chan error{first, rest, rest} {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		for _, claim := range c.cells[0].live() {
			if claim.GetConsumerUuid() == testUUID(1, 10) {
				t.Errorf("claim of the caller that gave up: %v", claim)
			}
		}
		if got := len(c.cells[0].live()); got != 3 {
			t.Errorf("%d claims live, want 3", got)
		}
	})
}

// A call that fails for one of its operations is taken apart: who is not to blame has
// its claim.
func TestAnOperationThatFailsBlamesItsCallerAlone(t *testing.T) {
	for _, kind := range []fault.Kind{fault.InvalidRequest, fault.Internal} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := watchCommits(start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute }))
				bad := testUUID(1, 7)
				c.refuse = func(b *cellv1.ClaimBatchRequest) error {
					for _, op := range b.GetOps() {
						if op.GetClaim().GetConsumerUuid() == bad {
							return fault.New(kind, "not like this")
						}
					}
					return nil
				}
				first := c.ask(t.Context(), 0, 1)
				good, blamed, more := c.ask(t.Context(), 1, 6), c.ask(t.Context(), 7, 1), c.ask(t.Context(), 8, 1)
				time.Sleep(slowLeast)
				close(c.gate)
				for range 6 {
					if err := <-good; err != nil {
						t.Error(err)
					}
				}
				for _, errs := range []<-chan error{first, more} {
					if err := <-errs; err != nil {
						t.Error(err)
					}
				}
				if err := <-blamed; err == nil {
					t.Error("the one to blame was answered")
				}
				synctest.Wait()
				if got := len(c.cells[0].live()); got != 8 {
					t.Errorf("%d claims live, want 8", got)
				}
			})
		})
	}
}

// What a call did before it failed with a defect is not done twice when it is taken apart.
func TestACallThatWasDoneAndFailedIsAnsweredAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchCommits(start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute }))
		f := c.cells[0]
		f.mu.Lock()
		f.after = func(_ string, req any) error {
			if b, ok := req.(*cellv1.ClaimBatchRequest); ok && len(b.GetOps()) > 1 {
				return fault.New(fault.Internal, "a defect after it was done")
			}
			return nil
		}
		f.mu.Unlock()
		errs := c.ask(t.Context(), 0, 5)
		time.Sleep(slowLeast)
		close(c.gate)
		for range 5 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		c.called(1, 4, 2, 1, 1, 2, 1, 1)
		if got := len(f.live()); got != 5 {
			t.Errorf("%d claims live, want 5", got)
		}
	})
}

// A swap of a call that failed with a defect may have been done, and others may have moved the
// claim on since: it is not sent again, and its caller hears that nobody knows.
func TestASwapIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, threeHosts(), func(c *Config) { c.ClaimBudget = time.Minute })
		_, first := withAlternates(w)
		id, hosts := first.GetSelected().GetClaimId(), first.GetAlternates()
		c := watchCommits(w)
		f := c.cells[0]
		f.mu.Lock()
		f.after = func(_ string, req any) error {
			b, ok := req.(*cellv1.ClaimBatchRequest)
			if !ok || len(b.GetOps()) < 2 {
				return nil
			}
			// Another gateway's caller takes the next alternate.
			swap := proto.CloneOf(opsIn(req, (*cellv1.ClaimOp).GetSwap)[0])
			swap.HostUuid = hosts[1].GetComputeNodeUuid()
			for _, a := range swap.GetAllocations() {
				a.ProviderUuid = swap.GetHostUuid()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.swap(swap)
			return fault.New(fault.Internal, "a defect after it was done")
		}
		f.mu.Unlock()
		begun := c.ask(t.Context(), 10, 1)
		swapped := make(chan error, 1)
		go func() {
			_, err := w.alternate(id, hosts[0].GetComputeNodeUuid())
			swapped <- err
		}()
		synctest.Wait()
		beside := c.ask(t.Context(), 11, 2)
		time.Sleep(slowLeast)
		close(c.gate)
		if err := <-swapped; fault.KindOf(err) != fault.OutcomeUnknown {
			t.Errorf("%v, want OUTCOME_UNKNOWN", err)
		}
		for _, errs := range []<-chan error{begun, beside, beside} {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for _, claim := range f.live() {
			if claim.GetClaimId() == id && claim.GetHostUuid() != hosts[1].GetComputeNodeUuid() {
				t.Errorf("the claim is on %s, want the alternate %s that was taken last", claim.GetHostUuid(), hosts[1].GetComputeNodeUuid())
			}
		}
	})
}

// A replica with a defect for all is not asked for each: once its breaker is open the
// rest of a call is not taken apart.
func TestACallIsTakenApartNoFurtherThanTheBreakerAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watchCommits(start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute }))
		c.refuse = func(*cellv1.ClaimBatchRequest) error { return fault.New(fault.Internal, "a defect") }
		const n = 64
		errs := c.ask(t.Context(), 0, n)
		time.Sleep(slowLeast)
		close(c.gate)
		for range n {
			if err := <-errs; err == nil {
				t.Error("answered")
			}
		}
		c.cells[0].mu.Lock()
		defer c.cells[0].mu.Unlock()
		if len(c.sizes) >= n {
			t.Errorf("%d calls for %d callers: %v", len(c.sizes), n, c.sizes)
		}
	})
}

// A replica that answers none fails every caller of a call, and what of it was done is
// released.
func TestACallThatFailsFailsAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Second })
		c := watchCommits(w)
		errs := c.ask(t.Context(), 0, 5)
		time.Sleep(time.Second)
		for range 5 {
			if err := <-errs; fault.KindOf(err) != fault.OutcomeUnknown {
				t.Errorf("%v, want OUTCOME_UNKNOWN", err)
			}
		}
		close(c.gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		if live := w.cells[0].live(); len(live) > 0 {
			t.Errorf("claims that nobody was told of: %v", live)
		}
	})
}

// oneCall has the first cell's replica be sent one call at a time.
func (c *commitsOf) oneCall() { c.g.cells[0].replicas[0].committer.batcher.calls = 1 }

// What was still queued when its time was over was not sent: no claim may have been made,
// and nothing is released.
func TestWhatWasNotSentIsNotToldAsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Second })
		c := watchCommits(w)
		c.oneCall()
		sent := c.ask(t.Context(), 0, 1)
		queued := c.ask(t.Context(), 10, 3)
		for range 3 {
			if err := <-queued; fault.KindOf(err) != fault.CellUnavailable {
				t.Errorf("queued until its time was over: %v, want CELL_UNAVAILABLE", err)
			}
		}
		if err := <-sent; fault.KindOf(err) != fault.OutcomeUnknown {
			t.Errorf("sent and not answered: %v, want OUTCOME_UNKNOWN", err)
		}
		c.called(1, 1) // the claim that was sent, and its release
		close(c.gate)
		time.Sleep(time.Minute)
		for _, op := range w.cells[0].did() {
			if op != "claim "+testUUID(1, 0) && op != "release "+testUUID(1, 0) {
				t.Errorf("the cell was sent %q", op)
			}
		}
	})
}

// A queue that is full refuses at once, with a time to wait; who gives up makes room.
func TestTheQueueOfOperationsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 100))}, func(c *Config) { c.ClaimBudget = time.Minute })
		c := watchCommits(w)
		c.oneCall()
		w.g.cells[0].replicas[0].committer.batcher.maxItems = 2
		first := c.ask(t.Context(), 0, 1)
		ctx, cancel := context.WithCancel(t.Context())
		gone := c.ask(ctx, 10, 1)
		queued := c.ask(t.Context(), 20, 1)
		began := time.Now()
		err := <-c.ask(t.Context(), 30, 1)
		if e := mustFail(t, nil, err, fault.Overloaded); e.RetryAfter < defaultRetryAfter || time.Since(began) > 0 {
			t.Errorf("after %v: %v, retry after %v", time.Since(began), e, e.RetryAfter)
		}
		cancel()
		if err := <-gone; err == nil {
			t.Error("the caller that gave up was answered")
		}
		room := c.ask(t.Context(), 40, 1)
		close(c.gate)
		for _, errs := range []<-chan error{first, queued, room} {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if s := w.state(0); s != gobreaker.StateClosed {
			t.Errorf("the breaker is %v", s)
		}
		w.counts(1, "cellgate_gateway_claim_queue_refused_total", "cell1")
		w.counts(2, "cellgate_gateway_claim_batch_operations")
		w.counts(3, "cellgate_gateway_claim_wait_seconds")
	})
}

// A replica is not to blame for what waited while it answered others; for what waited
// while it answered nobody it is.
func TestBlameForWhatWasNotSent(t *testing.T) {
	notSent := fmt.Errorf("%w: %w", errNotSent, context.DeadlineExceeded)
	late := timing{took: time.Second, budget: time.Second, fair: time.Second, given: time.Second}
	for err, want := range map[error]verdict{
		notSent:                                failed,
		fmt.Errorf("%w: %w", errBusy, notSent): excused,
		fault.Wrap(fault.Overloaded, errNotSent, "too much waits"): excused,
	} {
		tm := late
		if fault.KindOf(err) == fault.Overloaded {
			tm.took = 0
		}
		if got := judge(err, tm); got != want {
			t.Errorf("%v: verdict %d, want %d", err, got, want)
		}
	}
}

// The operations of a shared call that a stopping replica did not do any more are done by
// the next one.
func TestWhatAStoppingReplicaDidNotDoGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, replicas := replicated(t)
		c := watchCommits(w)
		c.oneCall()
		replicas[0].stopsAt = 1
		release := func(id string) <-chan error {
			done := make(chan error, 1)
			go func() {
				ref := &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: testUUID(1, 1)}
				_, err := w.g.cells[0].operateOne(t.Context(), time.Minute, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
				done <- err
			}()
			synctest.Wait()
			return done
		}
		all := []<-chan error{release("first"), release("done"), release("refused"), release("refused too")}
		c.called(1)
		close(c.gate)
		for _, done := range all {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		c.called(1, 3)
		for _, id := range []string{"done", "refused", "refused too"} {
			if s := replicas[0].stateOf(id); s != cellgatev1.ClaimState_RELEASED {
				t.Errorf("claim %q is %s", id, s)
			}
		}
	})
}

// While a replica awaits the verdicts of hosts nobody's claim waits for another one's
// host: claims go in calls of their own, at once. Releases do not wait for hosts, and go
// together.
func TestClaimsThatAwaitVerdictsGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCell(1, testHost(1, 100))
		f.awaits = true
		w := start(t, []*fakeCell{f}, func(c *Config) { c.ClaimBudget = time.Minute })
		c := watchCommits(w)
		errs := c.ask(t.Context(), 0, 3)
		c.called(1, 1, 1)
		released := make(chan error, 3)
		for i := range cap(released) {
			go func() {
				ref := &cellv1.ClaimRef{ClaimId: fmt.Sprint("late ", i), ConsumerUuid: testUUID(1, i)}
				_, err := w.g.cells[0].operateOne(t.Context(), time.Minute, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
				released <- err
			}()
			synctest.Wait()
		}
		time.Sleep(slowLeast)
		c.called(1, 1, 1, 1, 2)
		close(c.gate)
		for range 3 {
			for _, done := range []<-chan error{errs, released} {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// The reply of a call of several requests is lost, after it was done: each of them is
// answered with a claim of its own elsewhere, and what the call did is given back.
func TestI4_LostReplyOfASharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 100)), newFakeCell(2, testHost(2, 50))}, nil)
		gate := make(chan struct{})
		lost := 0
		w.cells[0].hook(func(_ context.Context, method string, _ any) error {
			if method == "ClaimBatch" {
				<-gate
			}
			return nil
		}, func(_ string, req any) error {
			if b, ok := req.(*cellv1.ClaimBatchRequest); ok && len(b.GetOps()) > 1 && b.GetOps()[0].GetClaim() != nil {
				lost += len(b.GetOps())
				return fault.New(fault.CellUnavailable, "the reply is lost")
			}
			return nil
		})
		w.g.cells[0].replicas[0].committer.batcher.calls = 1
		const n = 5 // a call of four fails: fewer than open the breaker, so that they can be given back
		answered := make([]*cellgatev1.Selection, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				resp, err := w.scheduler.SelectDestinations(t.Context(), ask(i, 1))
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				answered[i] = resp.GetDestinations()[0].GetSelected()
			})
			synctest.Wait()
		}
		close(gate)
		all.Wait()
		time.Sleep(releaseBudget) // virtual: what was given back is
		if lost != n-1 {
			t.Errorf("the replies of %d claims were lost, want %d", lost, n-1)
		}
		live := map[string]string{}
		for _, c := range w.cells {
			for _, claim := range c.live() {
				if other := live[claim.GetConsumerUuid()]; other != "" {
					t.Errorf("instance %s has claims %s and %s", claim.GetConsumerUuid(), other, claim.GetClaimId())
				}
				live[claim.GetConsumerUuid()] = claim.GetClaimId()
			}
		}
		for i, s := range answered {
			if id := testUUID(1, i); s.GetClaimId() == "" || live[id] != s.GetClaimId() {
				t.Errorf("instance %s was answered %q, and has %q", id, s.GetClaimId(), live[id])
			}
		}
	})
}
