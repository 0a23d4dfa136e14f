package replica

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

func claims(n int) *job {
	ops := make([]shard.Op, n)
	for i := range ops {
		ops[i].Claim = &shard.NewClaim{}
	}
	return newJob(context.Background(), ops)
}

func registrations(n int) *job {
	ops := make([]shard.Op, n)
	for i := range ops {
		ops[i].PutHost = &shard.PutHost{}
	}
	return newJob(context.Background(), ops)
}

// count returns how many claims and host reports a batch has.
func count(items []item) (claims, hosts int) {
	for _, i := range items {
		if i.op().Claim != nil {
			claims++
		} else {
			hosts++
		}
	}
	return claims, hosts
}

func TestQueue_BothWait_ClaimsFirstAndRegistrationsNotStarved(t *testing.T) {
	q := newQueue(10000, telemetry.Cell{})
	for range 100 {
		if err := q.put(registrations(10), false); err != nil {
			t.Fatal(err)
		}
	}
	if c, h := count(q.next(64)); c != 0 || h != 32 {
		t.Errorf("many registrations alone: took %d and %d, want 0 and 32", c, h)
	}
	if err := q.put(claims(100), true); err != nil {
		t.Fatal(err)
	}
	if c, h := count(q.next(64)); c != 62 || h != 2 {
		t.Errorf("both wait: took %d claims and %d registrations, want 62 and 2", c, h)
	}
	if c, h := count(q.next(64)); c != 38 || h != 2 {
		t.Errorf("the rest of the claims: took %d and %d, want 38 and 2", c, h)
	}
	few := newQueue(10000, telemetry.Cell{})
	if err := few.put(registrations(40), false); err != nil {
		t.Fatal(err)
	}
	if c, h := count(few.next(64)); c != 0 || h != 8 {
		t.Errorf("few registrations alone: took %d and %d, want 0 and 8", c, h)
	}
}

func TestQueue_SeveralCallers_EachInItsOrder(t *testing.T) {
	q := newQueue(10000, telemetry.Cell{})
	a, b := claims(5), claims(5)
	for _, j := range []*job{a, b} {
		if err := q.put(j, true); err != nil {
			t.Fatal(err)
		}
	}
	next := map[*job]int{}
	for next[a]+next[b] < 10 {
		batch := q.next(3)
		if len(batch) == 0 {
			t.Fatalf("nothing to take after %v", next)
		}
		for _, i := range batch {
			if i.index != next[i.job] {
				t.Fatalf("operation %d of a caller comes before its operation %d", i.index, next[i.job])
			}
			next[i.job]++
		}
	}
}

// A claim behind any number of background operations, and behind the releases of callers
// that end thousands, is in the next transaction.
func TestQueue_ClaimBehindThousands_InTheNextTransaction(t *testing.T) {
	const limit = 64
	q := newQueue(100_000, telemetry.Cell{})
	for range 5 {
		if err := q.put(claims(4000), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := q.put(registrations(20_000), false); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		one := claims(1)
		if err := q.put(one, true); err != nil {
			t.Fatal(err)
		}
		batch := q.next(limit)
		if len(batch) > limit {
			t.Fatalf("a transaction of %d, at most %d", len(batch), limit)
		}
		if !slices.Contains(batch, item{one, 0}) {
			t.Fatal("the claim is not in the next transaction")
		}
	}
}

// The background's share of each transaction is bounded while callers come, and a second
// after, and never zero.
func TestQueue_BackgroundShare_BoundedAndNeverZero(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 64, 256} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(100_000, telemetry.Cell{})
			if err := q.put(registrations(50_000), false); err != nil {
				t.Fatal(err)
			}
			for n := range 50 {
				if n%2 == 0 { // every other transaction has no operations of callers
					if err := q.put(claims(2*limit), true); err != nil {
						t.Fatal(err)
					}
					q.urgent.appendTurns(nil, n%4*limit, limit)
				}
				if _, background := count(q.next(limit)); background < 1 || background > max(limit/8, 1) {
					t.Errorf("of %d operations %d are of the background", limit, background)
				}
			}
			q.urgent.appendTurns(nil, q.urgent.ops, limit)
			time.Sleep(busyFor) // virtual
			if _, background := count(q.next(limit)); background != max(limit/2, 1) {
				t.Errorf("nobody else comes: of %d operations %d are of the background", limit, background)
			}
		})
	}
}

func TestQueueIsBounded(t *testing.T) {
	q := newQueue(10, telemetry.Cell{})
	if err := q.put(claims(12), true); err != nil {
		t.Fatalf("a large job on an empty queue: %v", err)
	}
	err := q.put(claims(1), true)
	if fault.KindOf(err) != fault.Overloaded || err.(*fault.Error).RetryAfter <= 0 {
		t.Errorf("a full queue gave %#v", err)
	}
	if err := q.put(registrations(10), false); err != nil {
		t.Errorf("the other queue is its own: %v", err)
	}
	q.next(8)
	if err := q.put(claims(4), true); err != nil {
		t.Errorf("after some were taken: %v", err)
	}
	if rest := q.close(); len(rest) != 12+4+10-8 {
		t.Errorf("close gave %d operations", len(rest))
	}
	if err := q.put(claims(1), true); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("a closed queue gave %v", err)
	}
}

func TestQueueDoesNotTakeResourcesForThoseWhoLeft(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	j := newJob(ctx, []shard.Op{
		{Claim: &shard.NewClaim{}},
		{Pin: &shard.NewPin{}},
		{Release: &shard.ClaimRef{}},
		{Unpin: &shard.Unpin{}},
		{Confirm: &shard.ClaimRef{}},
		{PutHost: &shard.PutHost{}},
	})
	for n := range j.ops {
		if (item{j, n}).abandoned() {
			t.Errorf("operation %d is abandoned while its caller waits", n)
		}
	}
	leave()
	for n, want := range []bool{true, true, false, false, false, true} {
		if got := (item{j, n}).abandoned(); got != want {
			t.Errorf("operation %d: abandoned is %v", n, got)
		}
	}
}
