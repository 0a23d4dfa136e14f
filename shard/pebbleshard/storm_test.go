package pebbleshard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// stormOn runs one window of a storm on a store in memory behind a fault wrapper. It returns the
// violations.
func stormOn(t *testing.T, seed uint64, faulty func(*shardtest.Faulty), bend func(shardtest.Apply) shardtest.Apply) (*shardtest.Storm, []string) {
	t.Helper()
	s, err := OpenMem(testOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	f := &shardtest.Faulty{Store: s}
	storm := shardtest.NewStorm(s, seed)
	var applies []shardtest.Apply
	for i := range 3 {
		l, err := f.OpenLane(t.Context(), fmt.Sprintf("replica-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if err := storm.Begin(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		applies = append(applies, bend(l.Apply))
	}
	faulty(f)
	wrong, err := storm.Window(t.Context(), applies, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return storm, wrong
}

func asItIs(a shardtest.Apply) shardtest.Apply { return a }

// TestI1_I3_Storm: transactions fail before they are done, or are done and lose their answer.
func TestI1_I3_Storm(t *testing.T) {
	const seeds = 5
	report := shardtest.Summary{Backend: "pebble in memory, storm", Tests: seeds, Seeds: seeds, Kinds: map[string]int64{}}
	for seed := range uint64(seeds) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(seed, 5))
		roll := func(name string, p float64, err error) error {
			mu.Lock()
			defer mu.Unlock()
			if rng.Float64() >= p {
				return nil
			}
			report.Kinds[name]++
			return err
		}
		storm, wrong := stormOn(t, seed, func(f *shardtest.Faulty) {
			f.Before = func(context.Context, shardtest.Call) error {
				if err := roll("unavailable", 0.05, shardtest.Unavailable()); err != nil {
					return err
				}
				return roll("unknown not done", 0.05, shardtest.Unknown())
			}
			f.After = func(context.Context, shardtest.Call) error { return roll("unknown done", 0.1, shardtest.Unknown()) }
		}, asItIs)
		for _, w := range wrong {
			t.Errorf("seed %d: %s", seed, w)
		}
		report.Violations += len(wrong)
		report.Operations += int64(storm.Sums.Operations)
		if s := storm.Sums; s.Found == 0 || s.Absent == 0 || s.Failed == 0 || s.Refused == 0 || s.Reads == 0 {
			t.Errorf("the test proves little: %+v", s)
		}
	}
	report.Tell(t)
}

// TestTheStormSeesLies: the storm detects a store that answers falsely.
func TestTheStormSeesLies(t *testing.T) {
	// Every 20th batch of a lane gets a false answer.
	sometimes := func(lie func(a shardtest.Apply, ctx context.Context, ops []shard.Op) (shard.Applied, error)) func(shardtest.Apply) shardtest.Apply {
		return func(a shardtest.Apply) shardtest.Apply {
			n := 0
			var mu sync.Mutex
			return func(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
				mu.Lock()
				n++
				now := n%20 == 0
				mu.Unlock()
				if now {
					return lie(a, ctx, ops)
				}
				return a(ctx, ops)
			}
		}
	}
	nothing := func(*shardtest.Faulty) {}
	for name, test := range map[string]struct {
		bend func(shardtest.Apply) shardtest.Apply
		want string
	}{
		"done, and answered with a failure": {sometimes(func(a shardtest.Apply, ctx context.Context, ops []shard.Op) (shard.Applied, error) {
			if _, err := a(ctx, ops); err != nil {
				return shard.Applied{}, err
			}
			return shard.Applied{}, fault.New(fault.CellUnavailable, "a lie")
		}), "nobody was answered"},
		"not done, and answered as done": {sometimes(func(a shardtest.Apply, ctx context.Context, ops []shard.Op) (shard.Applied, error) {
			all := shard.Applied{Outcomes: make([]shard.Outcome, len(ops))}
			for i, op := range ops {
				if op.Claim != nil {
					all.Outcomes[i].Claim = &shard.Claim{ClaimID: op.Claim.ClaimID}
				}
			}
			return all, nil
		}), "is lost"},
		"an entry that is not there": {sometimes(func(a shardtest.Apply, ctx context.Context, ops []shard.Op) (shard.Applied, error) {
			r, err := a(ctx, ops)
			r.Entry.Seq += 1000
			return r, err
		}), "I3: entry"},
		"not done, and answered so": {sometimes(func(a shardtest.Apply, ctx context.Context, ops []shard.Op) (shard.Applied, error) {
			ops = slices.DeleteFunc(slices.Clone(ops), func(op shard.Op) bool { return op.Claim == nil })
			return shard.Applied{}, fault.New(fault.CellUnavailable, "%d claims are not tried", len(ops))
		}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := stormOn(t, 1, nothing, test.bend)
			found := slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, test.want) })
			if test.want != "" && !found || test.want == "" && len(wrong) > 0 {
				t.Errorf("want %q among %d sentences: %.500q", test.want, len(wrong), wrong)
			}
		})
	}
	t.Run("refused without a reason", func(t *testing.T) {
		var lies atomic.Int64
		_, wrong := stormOn(t, 1, nothing, func(a shardtest.Apply) shardtest.Apply {
			return func(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
				r, err := a(ctx, ops)
				for i, op := range ops {
					// The claim is made and released again, but answered as refused.
					if err == nil && op.Claim != nil && r.Outcomes[i].Refusal == nil && op.Claim.Allocations[0].Amount == 1 {
						if _, err := a(ctx, []shard.Op{{Release: &shard.ClaimRef{ClaimID: op.Claim.ClaimID, ConsumerUUID: op.Claim.ConsumerUUID}}}); err != nil {
							return r, err
						}
						r.Outcomes[i] = shard.Outcome{Refusal: &shard.Refusal{Kind: fault.NoValidHost, Message: "a lie"}}
						lies.Add(1)
					}
				}
				return r, err
			}
		})
		if !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, "linearizable") }) {
			t.Errorf("%d lies are not seen: %.500q", lies.Load(), wrong)
		}
	})
}
