package gateway

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/testlong"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// made makes a claim of 2 VCPU behind the gateway's back.
func (c *testCell) made(id, consumer, host string) *cellgatev1.Selection {
	c.t.Helper()
	if r := c.takeVCPUs(id, consumer, host, 2).GetRefusal(); r != nil {
		c.t.Fatal(r)
	}
	return &cellgatev1.Selection{ClaimId: id, Cell: c.name, ComputeNodeUuid: host}
}

// twoClaims makes two claims of one consumer, one in each of two cells, in the given
// states. It needs a synctest bubble.
func twoClaims(w *world, states ...cellgatev1.ClaimState) [2]*cellgatev1.Selection {
	w.t.Helper()
	var out [2]*cellgatev1.Selection
	for i, state := range states {
		c := w.cells[i]
		out[i] = c.made("of-"+c.name, testUUID(0x1, 1), c.hosts[0].UUID.String())
		switch state {
		case cellgatev1.ClaimState_EXPIRED:
			c.expire(out[i].GetClaimId())
		case cellgatev1.ClaimState_CONFIRMED:
			c.confirm(out[i].GetClaimId(), testUUID(0x1, 1))
		}
	}
	return out
}

func twoExpired(w *world) [2]*cellgatev1.Selection {
	w.t.Helper()
	return twoClaims(w, cellgatev1.ClaimState_EXPIRED, cellgatev1.ClaimState_EXPIRED)
}

// confirmBoth confirms two claims of one consumer at once, and returns how many are then CONFIRMED. It demands that at
// most one is, and that each caller's answer agrees with the state of its claim.
func (w *world) confirmBoth(two [2]*cellgatev1.Selection, started func()) (confirmed int) {
	w.t.Helper()
	var all sync.WaitGroup
	var errs [2]error
	for i, s := range two {
		all.Go(func() { errs[i] = w.confirm(s, testUUID(0x1, 1)) })
	}
	started()
	all.Wait()
	for i, s := range two {
		state := w.cells[i].stateOf(s.GetClaimId())
		if state == cellgatev1.ClaimState_CONFIRMED {
			confirmed++
		}
		if (errs[i] == nil) != (state == cellgatev1.ClaimState_CONFIRMED) {
			w.t.Errorf("the claim in %s is %s, its confirm was answered %v", w.cells[i].name, state, errs[i])
		}
	}
	if confirmed > 1 {
		w.t.Errorf("both are confirmed")
	}
	return confirmed
}

// Two confirms at once never both succeed. Exactly one succeeds if no call takes longer than the confirm that yields
// waits. The claims are both pending, both expired, or one of each.
func TestI2_ConfirmsAtOnce(t *testing.T) {
	const pending, expired = cellgatev1.ClaimState_PENDING, cellgatev1.ClaimState_EXPIRED
	for _, states := range [][2]cellgatev1.ClaimState{{pending, pending}, {expired, expired}, {expired, pending}} {
		t.Run(strings.ToLower(states[0].String()+" and "+states[1].String()), func(t *testing.T) {
			seeds := uint64(4)
			if testlong.On() {
				seeds = 40
			}
			for seed := range seeds {
				synctest.Test(t, func(t *testing.T) {
					w := start(t, twoCells(), nil)
					two := twoClaims(w, states[:]...)
					// At every fourth seed calls may take longer than the confirm that yields waits, but not so
					// long that a cell is passed over.
					slow := seed%4 == 3
					w.slowedDown(seed, map[bool]time.Duration{false: 10 * time.Millisecond, true: w.g.cfg.ProposeBudget / 2}[slow])
					if n := w.confirmBoth(two, func() {}); n == 0 && !slow {
						t.Errorf("seed %d: none is confirmed", seed)
					}
					time.Sleep(time.Second) // abandoned calls end
				})
			}
		})
	}
}

// slowedDown makes every call to a cell about claims, and every reply, take a random
// time up to most.
func (w *world) slowedDown(seed uint64, most time.Duration) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	wait := func(method string) {
		if method == "GetSummary" {
			return
		}
		mu.Lock()
		d := time.Duration(random.Int64N(int64(most)))
		mu.Unlock()
		<-time.After(d)
	}
	for _, c := range w.cells {
		c.hook(func(_ context.Context, method string, _ any) error { wait(method); return nil },
			func(method string, _ any) error { wait(method); return nil })
	}
}

// Both late confirms find no other claim before either of them is done.
func TestI2_LateConfirmsThatSawNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		two := twoExpired(w)
		both := make(chan struct{})
		for _, c := range w.cells {
			c.hook(func(ctx context.Context, _ string, req any) error {
				batch, ok := req.(*cellv1.ClaimBatchRequest)
				if !ok || batch.GetOps()[0].GetConfirm() == nil {
					return nil
				}
				select {
				case <-both:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}, nil)
		}
		if n := w.confirmBoth(two, func() {
			synctest.Wait()
			close(both)
		}); n != 1 {
			t.Errorf("%d are confirmed", n)
		}
	})
}

// A late confirm that is alone succeeds, in one call.
func TestLateConfirm(t *testing.T) {
	for _, named := range []string{"", "cell1"} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			two := twoExpired(w)
			resp, err := w.claims.ConfirmClaim(context.Background(), &cellgatev1.ConfirmClaimRequest{
				ConsumerUuid: testUUID(0x1, 1), ClaimId: two[0].GetClaimId(), Cell: named,
			})
			if err != nil {
				t.Fatal(err)
			}
			if c := resp.GetClaim(); c.GetState() != cellgatev1.ClaimState_CONFIRMED || c.GetExpiresAt() != nil {
				t.Errorf("the claim is %v", c)
			}
			if k := fault.KindOf(w.confirm(two[1], testUUID(0x1, 1))); k != fault.AlreadyExists {
				t.Errorf("the other one's confirm gave %q", k)
			}
		})
	}
}

// Each of two confirmed claims can be confirmed again, which is logged. The confirm of a third claim is refused and
// names a claim to release; once both are released, it succeeds.
func TestConfirmAgainBesideADuplicate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged safeBuffer
		w := startLogged(t, append(twoCells(), newCell(3, testHost(5, 1))), nil, slog.New(slog.NewTextHandler(&logged, nil)))
		id := testUUID(0x1, 1)
		third := w.cells[2].made("third", id, testUUID(0xa, 5))
		w.cells[2].expire("third")
		two := twoClaims(w, cellgatev1.ClaimState_CONFIRMED, cellgatev1.ClaimState_CONFIRMED)
		for n, s := range two {
			if err := w.confirm(s, id); err != nil {
				t.Errorf("confirmed again: %v", err)
			}
			if got := strings.Count(logged.String(), "two confirmed claims"); got != n+1 {
				t.Errorf("logged %q", logged.String())
			}
		}
		for range two {
			_, err := w.claims.ConfirmClaim(context.Background(), &cellgatev1.ConfirmClaimRequest{ConsumerUuid: id, ClaimId: third.GetClaimId()})
			e := mustFail(t, nil, err, fault.AlreadyExists)
			if named := e.Metadata["claim_id"]; named == third.GetClaimId() || !strings.Contains(e.Message, "ReleaseClaim with claim_id "+named) {
				t.Fatalf("no way out: %v", err)
			}
			if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: id, ClaimId: e.Metadata["claim_id"]}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.confirm(third, id); err != nil {
			t.Errorf("nothing is in the way: %v", err)
		}
	})
}

// To confirm a claim again releases a pending claim beside it. If that release fails, the confirm still succeeds.
func TestConfirmAgainBesideAPendingClaim(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := start(t, twoCells(), nil)
		two := twoClaims(w, cellgatev1.ClaimState_CONFIRMED, cellgatev1.ClaimState_PENDING)
		if lost {
			w.cells[1].hook(func(_ context.Context, method string, _ any) error {
				if method == "ClaimBatch" {
					return fault.New(fault.CellUnavailable, "no")
				}
				return nil
			}, nil)
		}
		if err := w.confirm(two[0], testUUID(0x1, 1)); err != nil {
			t.Errorf("confirmed again: %v", err)
		}
		if live := w.cells[1].live(); (len(live) == 1) != lost {
			t.Errorf("lost %v: the other cell has %v", lost, live)
		}
	}
}
