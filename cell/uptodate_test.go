package cell

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/replica"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// reading counts the reads of a shard's journal. takes is the duration of each.
type reading struct {
	shard.Store
	takes time.Duration
	n     atomic.Int64
}

func (r *reading) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	r.n.Add(1)
	entries, to, err := r.Store.Tail(ctx, after, limit)
	time.Sleep(r.takes)
	return entries, to, err
}

func upToDateQuery(vcpus int32) *cellv1.Query {
	q := query(vcpus)
	q.UpToDate = true
	return q
}

// A proposal that must be up to date finds at once what another replica has released.
func TestAnUpToDateProposalHasWhatAnotherReplicaGaveBack(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		slow := func(c *Config) { c.TailEvery = time.Second }
		one, two := start(t, open(), named("r1"), slow), start(t, open(), named("r2"), slow)
		one.register(plainState(1, 8))
		two.must(release("none", 0))
		for _, r := range []*testCell{one, two} {
			if err := r.cell.journal.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all := []*testCell{one, two}
		for n := range 40 {
			id := fmt.Sprint("k", n)
			all[n%2].must(newClaim(id, n, 1, 8))
			all[1-n%2].propose(upToDateQuery(8)) // the other replica's table has the claim
			all[n%2].must(release(id, n))
			if p := all[1-n%2].propose(upToDateQuery(8)); p.GetPassed() != 1 || p.GetMayBeStale() {
				t.Fatalf("round %d: %d hosts, lags: %v", n, p.GetPassed(), p.GetMayBeStale())
			}
			if p := all[1-n%2].propose(query(8)); !p.GetMayBeStale() {
				t.Fatalf("round %d: what was not asked to be up to date does not say so", n)
			}
		}
	})
}

// Many requests ask a full cell for up-to-date answers. The cell reads its journal at most half of
// the time. A request waits at most for the read in progress, an equally long rest, and its own
// read. A cell with one replica does not read for them.
func TestUpToDateProposalsShareReadings(t *testing.T) {
	for _, takes := range []time.Duration{time.Millisecond, 30 * time.Millisecond} {
		for _, replicas := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) { shareReadings(t, takes, replicas) })
		}
	}
}

func shareReadings(t *testing.T, takes time.Duration, replicas int) {
	store := newStore(t)
	counted := &reading{Store: store, takes: takes}
	r := start(t, counted)
	r.register(plainState(1, 8))
	if replicas == 2 {
		start(t, store, named("r2")).must(newClaim("k1", 1, 1, 1))
	}
	time.Sleep(time.Second)
	const callers, span = 4, 200 * time.Millisecond
	before, end := counted.n.Load(), time.Now().Add(span)
	var asked, longest atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				r.propose(upToDateQuery(9))
				took := int64(time.Since(began))
				for old := longest.Load(); took > old && !longest.CompareAndSwap(old, took); old = longest.Load() {
				}
				asked.Add(1)
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	read, rest := counted.n.Load()-before, min(takes, replica.MostRest)
	most, longestDue := int64(span/(100*time.Millisecond))+2, time.Duration(0)
	if replicas == 2 {
		most += int64(span/(takes+rest)) + 1
		longestDue = 2*takes + rest
	}
	if read > most || time.Duration(longest.Load()) > longestDue {
		t.Errorf("%v a reading, %d replicas: %d readings for %d queries, at most %d are due; a query took up to %v, at most %v is due",
			takes, replicas, read, asked.Load(), most, time.Duration(longest.Load()), longestDue)
	}
}

// A query is answered even if the journal cannot be read in time.
func TestAnUpToDateProposalDoesNotWaitForAJournalThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		slow := &stalling{Store: store}
		one, two := start(t, store, named("r1")), start(t, slow, named("r2"))
		one.register(plainState(1, 8))
		time.Sleep(time.Second)
		wakes := make(chan struct{})
		slow.set(wakes, nil)
		defer close(wakes)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p, err := two.cells.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{upToDateQuery(8)}})
		if err != nil || p.GetProposals()[0].GetPassed() != 1 || !p.GetProposals()[0].GetMayBeStale() {
			t.Errorf("%v, %v", p, err)
		}
	})
}
