package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
)

// enter demands a place in the queue, and returns the function that leaves it.
func enter(t *testing.T, l *Queue, c Caller) func() {
	t.Helper()
	leave, err := l.Enter(c, time.Time{})
	if err != nil {
		t.Fatalf("%v was refused: %v", c, err)
	}
	return leave
}

// fill takes places for a caller until one is refused.
func fill(t *testing.T, l *Queue, c Caller) (leaves []func()) {
	t.Helper()
	for range 100_000 {
		leave, err := l.Enter(c, time.Time{})
		if err != nil {
			return leaves
		}
		leaves = append(leaves, leave)
	}
	t.Fatal("the queue has no end")
	return nil
}

func TestEnter_LaneIsFull_RefusesWithRetryAfter(t *testing.T) {
	l := NewQueue("selections", 4)
	if n := len(fill(t, l, Caller{Name: "a"})); n != 4 {
		t.Errorf("%d places of 4", n)
	}
	_, err := l.Enter(Caller{Name: "b"}, time.Time{})
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.Overloaded || e.RetryAfter != retryAfter {
		t.Errorf("refused with %v", err)
	}
	if s := l.State(); s.Refused != 2 || s.Taken != 4 {
		t.Errorf("state %+v", s)
	}
}

// One caller floods the queue. Every caller of few calls still gets a place for each: another caller, and
// another part of the same caller.
func TestEnter_OneCallerFloods_OthersOfFewCallsAreServed(t *testing.T) {
	l := NewQueue("selections", 1024)
	flood := Caller{Name: "flood", Part: "1"}
	fill(t, l, flood)
	for range 1000 {
		enter(t, l, Caller{Name: "polite", Part: "2"})()
		enter(t, l, Caller{Name: "flood", Part: "3"})()
		if _, err := l.Enter(flood, time.Time{}); err == nil {
			t.Fatal("the flood got more than the queue has room for")
		}
	}
	if bound := 2 * l.room(); l.State().Taken > bound {
		t.Errorf("%d places taken, more than %d", l.State().Taken, bound)
	}
}

// Two callers flood, one of them with five times the calls. Each place that becomes free goes to the caller that has
// fewer, until both have as many.
func TestEnter_TwoCallersFlood_SharesBecomeEqual(t *testing.T) {
	l := NewQueue("selections", 1024)
	a, b := Caller{Name: "a"}, Caller{Name: "b"}
	leavesA := fill(t, l, a)
	var leavesB []func()
	for range 10 * len(leavesA) {
		for range 10 {
			if leave, err := l.Enter(a, time.Time{}); err == nil {
				leavesA = append(leavesA, leave)
			}
		}
		for range 2 {
			if leave, err := l.Enter(b, time.Time{}); err == nil {
				leavesB = append(leavesB, leave)
			}
		}
		// The oldest call of either ends.
		if len(leavesA) > 1 {
			leavesA[0]()
			leavesA = leavesA[1:]
		}
		if len(leavesB) > 1 {
			leavesB[0]()
			leavesB = leavesB[1:]
		}
	}
	inA, inB := l.callers["a"].taken, l.callers["b"].taken
	if inA < inB-inB/4 || inB < inA/2 {
		t.Errorf("a has %d places, b %d", inA, inB)
	}
}

func TestEnter_EveryPlaceIsLeft_NothingIsKept(t *testing.T) {
	l := NewQueue("selections", 1024)
	var leaves []func()
	for i := range 50 {
		leaves = append(leaves, fill(t, l, Caller{Name: fmt.Sprint(i % 7), Part: fmt.Sprint(i)})...)
	}
	for _, leave := range leaves {
		leave()
	}
	if l.taken != 0 || len(l.callers) != 0 {
		t.Errorf("%d places and %d callers are left", l.taken, len(l.callers))
	}
}

// call makes a whole call that takes a given time.
func call(t *testing.T, l *Queue, took time.Duration) {
	t.Helper()
	defer enter(t, l, Caller{Name: "a"})()
	end, err := l.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(took)
	end(true)
}

func TestEnter_DeadlineBeforeTheFastestCall_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewQueue("selections", 1024)
		soon := func(d time.Duration) error {
			leave, err := l.Enter(Caller{Name: "b"}, time.Now().Add(d))
			if err == nil {
				leave()
			}
			return err
		}
		if err := soon(time.Millisecond); err != nil {
			t.Errorf("refused before any call was timed: %v", err)
		}
		var all sync.WaitGroup
		for i := range fewCalls {
			all.Go(func() { call(t, l, time.Duration(50+10*i)*time.Millisecond) })
		}
		all.Wait()
		if err := soon(49 * time.Millisecond); fault.KindOf(err) != fault.Overloaded {
			t.Errorf("a call without a chance: %v", err)
		}
		if err := soon(50 * time.Millisecond); err != nil {
			t.Errorf("a call with a chance: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 49*time.Millisecond)
		defer cancel()
		if _, err := l.Begin(ctx); fault.KindOf(err) != fault.Overloaded {
			t.Errorf("the turn of a call without a chance: %v", err)
		}
		// The shortest time of calls is forgotten after a while, so that no caller is refused for good.
		time.Sleep(2 * fastestOver)
		if err := soon(time.Millisecond); err != nil {
			t.Errorf("refused for what was a second ago: %v", err)
		}
	})
}

func TestEnter_QueueLongerThanTheDeadline_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewQueue("selections", 1024)
		var all sync.WaitGroup
		for range fewCalls {
			all.Go(func() { call(t, l, 100*time.Millisecond) })
		}
		all.Wait()
		for range l.limiter.Limit() + l.limiter.Limit() {
			enter(t, l, Caller{Name: "a"})
		}
		// As many calls wait as run, so a new call waits for the time of one call before its own begins.
		if _, err := l.Enter(Caller{Name: "b"}, time.Now().Add(199*time.Millisecond)); fault.KindOf(err) != fault.Overloaded {
			t.Errorf("a call without a chance: %v", err)
		}
		if _, err := l.Enter(Caller{Name: "b"}, time.Now().Add(200*time.Millisecond)); err != nil {
			t.Errorf("a call with a chance: %v", err)
		}
	})
}

// backend answers calls as cells do: up to atOnce calls at the same pace, and more of them more slowly.
type backend struct {
	pace   time.Duration
	atOnce int
	now    atomic.Int64
}

func (b *backend) serve() {
	now := b.now.Add(1)
	defer b.now.Add(-1)
	time.Sleep(b.pace * time.Duration(max(int64(b.atOnce), now)) / time.Duration(b.atOnce))
}

// flood sends calls at a rate for a time, each with a deadline, and gives how many
// were served.
func flood(t *testing.T, l *Queue, b *backend, rate int, d time.Duration) (served int) {
	t.Helper()
	ends := make(chan bool, int(d.Seconds()*float64(rate))+1)
	n := 0
	for began := time.Now(); time.Since(began) < d; n++ {
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			deadline, _ := ctx.Deadline()
			leave, err := l.Enter(Caller{Name: "flood"}, deadline)
			if err != nil {
				ends <- false
				return
			}
			defer leave()
			end, err := l.Begin(ctx)
			if err != nil {
				ends <- false
				return
			}
			b.serve()
			end(true)
			ends <- ctx.Err() == nil
		}()
		time.Sleep(time.Second / time.Duration(rate))
	}
	for range n {
		if <-ends {
			served++
		}
	}
	return served
}

// In a flood of twenty times what the backend can do, it serves as many calls as it can. As soon as the
// flood ends, every call is served.
func TestLane_FloodOfTwentyTimes_GoodputHoldsAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := NewQueue("selections", 1024), &backend{pace: 40 * time.Millisecond, atOnce: 20}
		const can = 500 // a second: 20 at once, 40 ms each
		if got := flood(t, l, b, 20*can, 4*time.Second); got < 4*can*9/10 {
			t.Errorf("served %d of %d", got, 4*can)
		}
		if got := flood(t, l, b, can/2, time.Second); got != can/2 {
			t.Errorf("after the flood %d of %d calls were served", got, can/2)
		}
		if s := l.State(); s.Taken != 0 {
			t.Errorf("%d places are left", s.Taken)
		}
	})
}

// While the backend is slow the limit may fall; once it is fast again the limit rises
// with what is asked.
func TestLane_SlowBackendBecomesFast_LimitRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, b := NewQueue("selections", 1024), &backend{pace: 20 * time.Millisecond, atOnce: 40}
		flood(t, l, b, 600, 3*time.Second)
		b.pace = 400 * time.Millisecond
		flood(t, l, b, 600, 6*time.Second)
		low := l.State().Limit
		if low < leastLimit {
			t.Errorf("the limit fell to %d", low)
		}
		b.pace = 20 * time.Millisecond
		if got := flood(t, l, b, 600, 8*time.Second); got < 8*600*9/10 {
			t.Errorf("served %d of %d, with a limit of %d", got, 8*600, l.State().Limit)
		}
	})
}

// A release frees what other calls wait for, so a near deadline does not get it refused.
func TestEnter_FixedLaneDeadlineBeforeTheFastestCall_IsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewFixedQueue("releases", 1024)
		var all sync.WaitGroup
		for range fewCalls {
			all.Go(func() { call(t, l, 100*time.Millisecond) })
		}
		all.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		deadline, _ := ctx.Deadline()
		leave, err := l.Enter(Caller{Name: "a"}, deadline)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		end, err := l.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		end(true)
	})
}

// In a flood the queue mostly refuses, so a refusal must not allocate memory.
func TestEnter_LaneIsFull_RefusesWithoutAllocation(t *testing.T) {
	l := NewQueue("selections", 4)
	fill(t, l, Caller{Name: "a"})
	if n := testing.AllocsPerRun(100, func() { _, _ = l.Enter(Caller{Name: "b"}, time.Time{}) }); n != 0 {
		t.Errorf("%g allocations for a refusal", n)
	}
}
