package sqlshard

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// TestI3_CutsLoseNothing lets three lanes claim and release at random while their connections are
// cut at random writes, some after the server got the write. Acknowledged operations are there,
// refused or failed ones are not. Rows, usage and journal agree.
func TestI3_CutsLoseNothing(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		seeds := 2
		if os.Getenv("CELLGATE_LONG") != "" {
			seeds = 200
		}
		sum := shardtest.Summary{Backend: at.name + ", cut connections"}
		for seed := range seeds {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				ops, faults := cutLanes(t, at, uint64(seed))
				sum.Tests++
				sum.Seeds++
				sum.Operations += ops
				sum.Faults += faults
				if t.Failed() {
					sum.Violations++
				}
			})
		}
		if sum.Faults == 0 {
			t.Error("no connection was cut: the test proves nothing")
		}
		sum.Tell(t)
	})
}

func cutLanes(t *testing.T, at site, seed uint64) (operations, faults int64) {
	const hosts, lanes, steps, capacity = 3, 3, 40, 12
	c := &cutter{}
	opts := at.options(at.database(t))
	opts.dial = c.dial
	s := openAt(t, opts)
	defer mustClose(t, s)
	first, err := s.OpenLane(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	for h := range hosts {
		if _, err := first.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(h, capacity)}}); err != nil {
			t.Fatal(err)
		}
	}
	var done atomic.Int64
	var wg sync.WaitGroup
	// known is the state of each claim, "" for a claim that must not exist. It lacks claims whose
	// outcome is unknown.
	var mu sync.Mutex
	known := map[string]shard.ClaimState{}
	for w := range lanes {
		l, err := s.OpenLane(t.Context(), fmt.Sprintf("lane-%d", w))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			var mine []int
			for i := range steps {
				if rng.IntN(3) == 0 {
					c.arm(1+rng.IntN(6), rng.IntN(2) == 0)
				}
				var ops []shard.Op
				for j := range 1 + rng.IntN(3) {
					if len(mine) > 0 && rng.IntN(3) == 0 {
						k := rng.IntN(len(mine))
						ops = append(ops, shard.Op{Release: shardtest.Ref(mine[k])})
						mine = append(mine[:k], mine[k+1:]...)
						continue
					}
					n := (w*steps+i)*3 + j
					ops = append(ops, shard.Op{Claim: shardtest.NewClaim(n, rng.IntN(hosts), 1+rng.Int64N(3))})
				}
				done.Add(int64(len(ops)))
				a, err := l.Apply(t.Context(), ops)
				mu.Lock()
				for k, op := range ops {
					var id string
					if op.Claim != nil {
						id = op.Claim.ClaimID
					} else {
						id = op.Release.ClaimID
					}
					switch {
					case fault.KindOf(err) == fault.OutcomeUnknown:
						delete(known, id)
					case err != nil:
						// Nothing was written: the claim has the state that it had before.
						if op.Claim != nil {
							known[id] = ""
						} else {
							var n int
							if _, err := fmt.Sscanf(id, "claim-%d", &n); err != nil {
								t.Error(err)
							}
							mine = append(mine, n)
						}
					case a.Outcomes[k].Claim == nil:
						known[id] = "" // refused
					default:
						known[id] = a.Outcomes[k].Claim.State
						if op.Claim != nil {
							var n int
							if _, err := fmt.Sscanf(id, "claim-%d", &n); err != nil {
								t.Error(err)
							}
							mine = append(mine, n)
						}
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	c.arm(0, false)
	found, err := s.FindClaims(t.Context(), shard.ClaimQuery{Ended: true, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]shard.ClaimState{}
	for _, c := range found.Claims {
		states[c.ClaimID] = c.State
	}
	for id, want := range known {
		if states[id] != want {
			t.Errorf("claim %s is %q, its caller was answered %q", id, states[id], want)
		}
	}
	rows, _, err := shardtest.LoadRows(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	replayed, _, err := shardtest.Replay(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range append(append(rows.Check(), rows.Overfull()...), rows.Diff(replayed)...) {
		t.Error(w)
	}
	t.Logf("%d claims known, %d cuts, %+v", len(known), c.cuts.Load(), s.Counts())
	return done.Load(), c.cuts.Load()
}
