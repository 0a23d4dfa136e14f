package gateway

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func claimsIn(req any) []*cellv1.NewClaim { return opsIn(req, (*cellv1.ClaimOp).GetClaim) }

func TestLostRaceIsPlannedAgainAlone(t *testing.T) {
	small := testHost(4, 1) // the last choice
	small.Resources[1].Capacity, small.View.TotalRAMMB, small.View.FreeRAMMB = 32768, 32768, 32768
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(3, 1), small), newCell(2, testHost(2, 1))}, nil)
	var raced atomic.Bool
	w.cells[1].hook(func(_ context.Context, method string, req any) error {
		if method == "ClaimBatch" && len(claimsIn(req)) > 0 && raced.CompareAndSwap(false, true) {
			w.cells[1].fill(2, 1)
		}
		return nil
	}, nil)
	req := ask(1, 3)
	req.GetRequestSpec().Flavor.Vcpus, req.ReturnAlternates = 8, true
	resp := w.choose(req)
	if !raced.Load() {
		t.Fatal("cell2 was not asked for a claim")
	}
	selected := map[string]bool{}
	for i, d := range resp.GetDestinations() {
		selected[d.GetSelected().GetServiceHost()] = true
		if d.GetSelected().GetCell() != "cell1" {
			t.Errorf("instance %d is in %s", i, d.GetSelected().GetCell())
		}
	}
	for i, d := range resp.GetDestinations() {
		for _, a := range d.GetAlternates() {
			if selected[a.GetServiceHost()] {
				t.Errorf("%s is an alternate of instance %d, and was selected", a.GetServiceHost(), i)
			}
		}
	}
	if n := len(w.cells[0].live()); n != 3 {
		t.Errorf("%d claims in cell1", n)
	}
	// Only the refused one was claimed a second time.
	if did := w.cells[0].did(); len(did) != 3 {
		t.Errorf("cell1 did %v", did)
	}
	if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED" || resp.GetPartial() {
		t.Errorf("cells: %s", got)
	}
}

func TestNoValidHostWhenTheLastHostIsLost(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if method == "ClaimBatch" && len(claimsIn(req)) > 0 {
			w.cells[0].fill(1, 1)
		}
		return nil
	}, nil)
	w.refused(ask(1, 1), fault.NoValidHost)
}

func TestAllOrNoneReleasesWhatWasClaimed(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	w.cells[1].hook(func(_ context.Context, method string, req any) error {
		if method == "ClaimBatch" && len(claimsIn(req)) > 0 {
			w.cells[1].fill(2, 1)
		}
		return nil
	}, nil)
	req := ask(1, 2)
	req.GetRequestSpec().Flavor.Vcpus = 16
	w.refused(req, fault.NoValidHost)
	if n := len(w.cells[0].live()); n != 0 {
		t.Errorf("%d claims left in cell1: %v", n, w.cells[0].did())
	}
	if did := w.cells[0].did(); len(did) != 2 || !strings.HasPrefix(did[1], "release ") {
		t.Errorf("cell1 did %v", did)
	}
}

func TestAllOrNoneWhenTheCallerGivesUp(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	released, first := make(chan string, 2), make(chan struct{})
	asked := sync.OnceFunc(func() { close(first) })
	for _, c := range w.cells {
		c.hook(func(callCtx context.Context, method string, req any) error {
			switch {
			case method != "ClaimBatch" || len(claimsIn(req)) == 0:
			case c == w.cells[0]:
				asked()
			default:
				<-first // a claim that was never sent is not released
				cancel()
				<-callCtx.Done()
				return callCtx.Err()
			}
			return nil
		}, func(method string, req any) error {
			if method == "ClaimBatch" && len(claimsIn(req)) == 0 {
				released <- c.name
			}
			return nil
		})
	}
	req := ask(1, 2)
	req.GetRequestSpec().Flavor.Vcpus = 16
	_, err := w.scheduler.SelectDestinations(ctx, req)
	if err == nil {
		t.Fatal("no error")
	}
	got := []string{<-released, <-released}
	slices.Sort(got)
	if !slices.Equal(got, []string{"cell1", "cell2"}) || w.liveClaims() != 0 {
		t.Errorf("released in %v, %d claims left", got, w.liveClaims())
	}
}

// A claim whose reply is lost was made; it is released, and the instance goes
// elsewhere.
func TestLostReplyIsReleasedAndPlannedElsewhere(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 2))}, nil)
	released := make(chan struct{})
	w.cells[1].hook(nil, func(method string, req any) error {
		switch {
		case method != "ClaimBatch":
		case len(claimsIn(req)) > 0:
			return errors.New("the reply is lost")
		default:
			close(released)
		}
		return nil
	})
	resp := w.choose(ask(1, 1))
	if s := resp.GetDestinations()[0].GetSelected(); s.GetCell() != "cell1" || !s.GetClaimed() {
		t.Errorf("selected %v", s)
	}
	if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 UNAVAILABLE" || !resp.GetPartial() {
		t.Errorf("cells: %s, partial %v", got, resp.GetPartial())
	}
	<-released
	if n := len(w.cells[1].live()); n != 0 {
		t.Errorf("%d claims left in cell2", n)
	}
}

// An operation whose outcome the cell itself does not know.
func TestVagueOutcomeIsReleasedAndPlannedElsewhere(t *testing.T) {
	for _, kind := range []fault.Kind{fault.OutcomeUnknown, fault.CellUnavailable, fault.Overloaded} {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
		released := make(chan struct{})
		w.cells[1].isVague(kind)
		w.cells[1].hook(nil, func(method string, req any) error {
			if method == "ClaimBatch" && len(claimsIn(req)) == 0 {
				close(released)
			}
			return nil
		})
		resp := w.choose(ask(1, 2))
		if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 UNAVAILABLE" || len(w.cells[0].live()) != 2 {
			t.Errorf("%s: %s, %d claims in cell1", kind, got, len(w.cells[0].live()))
		}
		<-released
		if did := w.cells[1].did(); len(w.cells[1].live()) != 0 || len(did) != 4 {
			t.Errorf("%s: cell2 did %v", kind, did)
		}
	}
}

func TestLostReplyWithNowhereElse(t *testing.T) {
	for _, tt := range []struct {
		name        string
		releaseFail bool
		want        fault.Kind
	}{
		{"released after all", false, fault.CellUnavailable},
		{"release fails too", true, fault.OutcomeUnknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
			w.cells[0].hook(nil, func(method string, req any) error {
				if method == "ClaimBatch" && (tt.releaseFail || len(claimsIn(req)) > 0) {
					return errors.New("the reply is lost")
				}
				return nil
			})
			if e := w.refused(ask(1, 1), tt.want); !strings.Contains(e.Message, "cell1") {
				t.Errorf("%v does not name the cell", e)
			}
		})
	}
}

// apart puts the instances of a request into a soft-anti-affinity group. Cells do not predict the picks of a group, so
// each pick takes a round of its own.
func apart(r *cellgatev1.SelectDestinationsRequest) *cellgatev1.SelectDestinationsRequest {
	r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0x9, 1), Policy: "soft-anti-affinity"}
	return r
}

// The gateway asks for a version that the cell no longer keeps.
func TestGoneStartsAgainOnceThenGoesOnInexactly(t *testing.T) {
	for _, tt := range []struct {
		name  string
		times int32
		exact bool
	}{
		{"once", 1, true},
		{"always", 1000, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 1))}, nil)
			var left atomic.Int32
			left.Store(tt.times)
			w.cells[0].hook(func(_ context.Context, method string, req any) error {
				if b, ok := req.(*cellv1.ProposeBatchRequest); ok {
					for _, q := range b.GetQueries() {
						if q.GetTableVersion() != "" && left.Add(-1) >= 0 {
							q.TableVersion = q.GetTableVersion()[:strings.LastIndex(q.GetTableVersion(), ".")+1] + "999"
						}
					}
				}
				return nil
			}, nil)
			resp := w.choose(apart(ask(1, 3)))
			if resp.GetExact() != tt.exact || len(resp.GetDestinations()) != 3 || w.liveClaims() != 3 {
				t.Errorf("exact %v, %d destinations, %d claims", resp.GetExact(), len(resp.GetDestinations()), w.liveClaims())
			}
			inexact := 0.0
			if !tt.exact {
				inexact = 1
			}
			w.counts(inexact, "cellgate_gateway_inexact_total", "version")
			w.counts(inexact, "cellgate_gateway_inexact_total")
			if left.Load() >= tt.times {
				t.Error("no version was pinned")
			}
		})
	}
}

// Rounds of one merge see one version of each table, whatever happens between.
func TestRoundsArePinned(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	w.cells[0].hook(nil, func(method string, _ any) error {
		if method == "ProposeBatch" {
			w.cells[0].report(testHost(1, 1))
		}
		return nil
	})
	w.choose(apart(ask(1, 4)))
	queries := w.cells[0].queries()
	pinned := 0
	for _, q := range queries[1:] {
		if q.GetTableVersion() != queries[1].GetTableVersion() || q.GetTableVersion() == "" || len(q.GetConsumerUuids()) > 0 {
			t.Errorf("query of version %q with %d consumers", q.GetTableVersion(), len(q.GetConsumerUuids()))
		}
		pinned++
	}
	if pinned == 0 || queries[0].GetTableVersion() != "" {
		t.Errorf("%d pinned queries", pinned)
	}
}

// The reply to a call that several requests share is lost after the call was done. Each request gets a claim of its own
// elsewhere, and the claims of the lost call are released.
func TestI4_LostReplyOfASharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 100)), newCell(2, testHost(2, 50))}, nil)
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
		const n = 5 // four claims in one call fail: too few to open the breaker, so their releases are sent
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
		time.Sleep(cellclient.BackgroundBudget) // virtual: the releases are done
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
