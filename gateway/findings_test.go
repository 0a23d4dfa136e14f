package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (w *world) findings(req *cellgatev1.ListFindingsRequest) *cellgatev1.ListFindingsResponse {
	w.t.Helper()
	resp, err := w.cellsAPI.ListFindings(context.Background(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// movingCells are two cells whose reconcilers run often.
func movingCells() []*testCell {
	cells := twoCells()
	for _, c := range cells {
		c.change = func(cfg *cell.Config) { cfg.ReconcileInterval, cfg.ReconcileGrace = 5*time.Second, time.Second }
	}
	return cells
}

// movedByReport moves an instance from cell1 to cell2, where its host's report confirms the new claim. It returns the
// claims in cell1 and cell2, and the agent of the host that the instance left.
func movedByReport(w *world) (old, moved *cellgatev1.Selection, left *testAgent) {
	w.t.Helper()
	old = w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	if err := w.confirm(old, testUUID(0x1, 1)); err != nil {
		w.t.Fatal(err)
	}
	left = w.cells[0].agent(w.cells[0].host(old.GetComputeNodeUuid()), agentv1.Verdict_REASON_UNSPECIFIED)
	move := proto.CloneOf(to(ask(1, 1), "cell2"))
	move.Operation = cellgatev1.Operation_MOVE
	moved = w.choose(move).GetDestinations()[0].GetSelected()
	w.cells[1].reportInstance(moved, testUUID(0x1, 1))
	time.Sleep(10 * time.Second) // virtual: the reconciler has run
	return old, moved, left
}

// unfinished lists the findings of unfinished moves.
func (w *world) unfinished(repaired bool) []*cellgatev1.Finding {
	w.t.Helper()
	return w.findings(&cellgatev1.ListFindingsRequest{Kind: cellgatev1.Finding_UNFINISHED_MOVE, Repaired: repaired}).GetFindings()
}

// The gateway finds a move between cells that nobody finishes, and finishes it once, as its caller would have.
func TestAMoveThatNobodyFinishedIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, movingCells(), nil)
		old, moved, _ := movedByReport(w)
		got := w.unfinished(false)
		if cells := w.findings(&cellgatev1.ListFindingsRequest{}).GetCells(); len(got) != 1 || len(cells) != 2 {
			t.Fatalf("found %v in %v", got, cells)
		}
		f := got[0]
		if f.GetCell() != "cell1" || f.GetClaimId() != old.GetClaimId() || f.GetConsumerUuid() != testUUID(0x1, 1) ||
			f.GetOtherCell() != "cell2" || f.GetOtherClaimId() != moved.GetClaimId() || f.GetHostUuid() != old.GetComputeNodeUuid() || f.GetRepairedAt() != nil {
			t.Errorf("found %v", f)
		}
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("to look at it made the source %s", s)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_RELEASED {
			t.Errorf("the source is %s", s)
		}
		if s := w.cells[1].stateOf(moved.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("the new claim is %s", s)
		}
		if got := w.unfinished(false); len(got) != 0 {
			t.Errorf("found %v", got)
		}
		if done := w.unfinished(true); len(done) != 1 || done[0].GetRepairedAt() == nil || done[0].GetRepair() == "" {
			t.Errorf("repaired %v", done)
		}
	})
}

// A move is not finished while the host that the instance left reports the instance. The finding stays, and says why,
// until the instance is gone from there.
func TestAMoveIsNotFinishedWhileItsSourceReportsTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, movingCells(), nil)
		old, _, left := movedByReport(w)
		left.report(instance(testUUID(0x1, 1), old.GetComputeNodeUuid()))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("the source is %s", s)
		}
		if f := w.unfinished(false); len(f) != 1 || !strings.Contains(f[0].GetRepair(), "reports instance "+testUUID(0x1, 1)) {
			t.Errorf("found %v", f)
		}
		left.report()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_RELEASED {
			t.Errorf("then the source is %s", s)
		}
		if f := w.unfinished(false); len(f) != 0 {
			t.Errorf("then found %v", f)
		}
	})
}

// An unfinished move is left alone if a cell has repairs off or does not answer, or if
// either of its claims has changed.
func TestAMoveThatIsNotFinished(t *testing.T) {
	reportsOnly := func(_ string, _, resp any) {
		if r, ok := resp.(*cellv1.ListFindingsResponse); ok {
			r.Repairs = false
		}
	}
	for name, change := range map[string]func(w *world, old, moved *cellgatev1.Selection){
		"repairs are off where it came from": func(w *world, _, _ *cellgatev1.Selection) { w.cells[0].answers(reportsOnly) },
		"repairs are off where it is":        func(w *world, _, _ *cellgatev1.Selection) { w.cells[1].answers(reportsOnly) },
		"the source was transferred": func(w *world, old, _ *cellgatev1.Selection) {
			w.cells[0].transfer(old.GetClaimId(), testUUID(0x1, 1), testUUID(0x1, 9))
		},
		"the source is written each time before its release comes": func(w *world, old, _ *cellgatev1.Selection) {
			w.cells[0].hook(beforeRelease(func() { w.cells[0].changed(old.GetClaimId()) }), nil)
		},
		"the new claim was given up": func(w *world, _, moved *cellgatev1.Selection) {
			w.cells[1].release(moved.GetClaimId(), testUUID(0x1, 1))
		},
		"the new claim is given up just before it is read again": func(w *world, _, moved *cellgatev1.Selection) {
			w.cells[1].hook(func(_ context.Context, _ string, req any) error {
				if l, ok := req.(*cellv1.ListClaimsRequest); ok && slices.Contains(l.GetClaimIds(), moved.GetClaimId()) {
					w.cells[1].release(moved.GetClaimId(), testUUID(0x1, 1))
				}
				return nil
			}, nil)
		},
		"the other cell does not say what it found": func(w *world, _, _ *cellgatev1.Selection) {
			w.cells[0].hook(func(_ context.Context, method string, _ any) error {
				if method == "ListFindings" {
					return fault.New(fault.CellUnavailable, "not now")
				}
				return nil
			}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, movingCells(), nil)
				old, moved, _ := movedByReport(w)
				change(w, old, moved)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
					t.Errorf("the source is %s", s)
				}
			})
		})
	}
}

// Every replica is asked; a finding of several replicas is listed once, with the earliest time, and a
// replica that does not answer is named.
func TestFindingsOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
		both := func(s int64) *cellgatev1.Finding {
			return &cellgatev1.Finding{Kind: cellgatev1.Finding_ORPHANED_CLAIM, ServiceHost: "host002", HostUuid: testUUID(0xa, 2), ClaimId: "k1", Since: at(s)}
		}
		mine := &cellgatev1.Finding{Kind: cellgatev1.Finding_USAGE_DIFFERS, ServiceHost: "host001", HostUuid: testUUID(0xa, 1), Since: at(7)}
		old := &cellgatev1.Finding{Kind: cellgatev1.Finding_ORPHANED_CLAIM, ServiceHost: "host001", HostUuid: testUUID(0xa, 1), ClaimId: "k0", Since: at(1), RepairedAt: at(3), Repair: "released"}
		for i, found := range [][]*cellgatev1.Finding{{both(5)}, {both(2), mine, old}} {
			w.cells[i].answers(func(_ string, _, resp any) {
				if r, ok := resp.(*cellv1.ListFindingsResponse); ok {
					r.LookedAt, r.Hosts, r.HostsCompared = timestamppb.Now(), 3, 2
					for _, f := range found {
						r.Findings = append(r.Findings, proto.CloneOf(f))
					}
				}
			})
		}
		got := w.findings(&cellgatev1.ListFindingsRequest{Cell: "cell1"})
		if f := got.GetFindings(); len(f) != 2 || f[0].GetClaimId() != "k1" || f[0].GetSince().GetSeconds() != 2 || f[0].GetCell() != "cell1" || f[1].GetKind() != cellgatev1.Finding_USAGE_DIFFERS {
			t.Errorf("found %v", got)
		}
		if again := w.findings(&cellgatev1.ListFindingsRequest{Cell: testUUID(0xc, 1)}); !proto.Equal(again, got) {
			t.Errorf("by the cell's uuid %v", again)
		}
		if c := got.GetCells(); len(c) != 1 || c[0].GetHosts() != 3 || c[0].GetHostsCompared() != 2 || c[0].GetError() != "" || c[0].GetLookedAt() == nil {
			t.Errorf("cells %v", c)
		}
		if f := w.findings(&cellgatev1.ListFindingsRequest{Kind: cellgatev1.Finding_USAGE_DIFFERS, Repaired: true}).GetFindings(); len(f) != 1 {
			t.Errorf("of a kind %v", f)
		}
		if f := w.findings(&cellgatev1.ListFindingsRequest{Repaired: true}).GetFindings(); len(f) != 3 || f[0].GetClaimId() != "k0" {
			t.Errorf("with those repaired %v", f)
		}
		w.cells[0].hook(hangAll, nil)
		if c := w.findings(&cellgatev1.ListFindingsRequest{}).GetCells(); len(c) != 1 || c[0].GetError() == "" {
			t.Errorf("with one that hangs %v", c)
		}
		resp, err := w.cellsAPI.ListFindings(t.Context(), &cellgatev1.ListFindingsRequest{Cell: "nope"})
		mustFail(t, resp, err, fault.NotFound)
		resp, err = w.cellsAPI.ListFindings(t.Context(), &cellgatev1.ListFindingsRequest{Cell: strings.Repeat("x", 256)})
		mustFail(t, resp, err, fault.InvalidRequest)
		resp, err = w.cellsAPI.ListFindings(t.Context(), &cellgatev1.ListFindingsRequest{Kind: 99})
		mustFail(t, resp, err, fault.InvalidRequest)
	})
}

// A replica that has not compared since another one repaired a finding still reports it.
func TestListFindings_RepairedByOneReplica_NotOpenByOlderComparisonOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
		compared := at(10)
		for i, repaired := range []*timestamppb.Timestamp{nil, at(20)} {
			w.cells[i].answers(func(_ string, _, resp any) {
				if r, ok := resp.(*cellv1.ListFindingsResponse); ok {
					r.LookedAt = compared
					r.Findings = []*cellgatev1.Finding{{Kind: cellgatev1.Finding_ORPHANED_CLAIM, HostUuid: testUUID(0xa, 1), ClaimId: "k1", Since: at(5), RepairedAt: repaired}}
				}
			})
		}
		for _, open := range []int{0, 1} {
			if f := w.findings(&cellgatev1.ListFindingsRequest{}).GetFindings(); len(f) != open {
				t.Errorf("compared at %v, open are %v", compared, f)
			}
			if f := w.findings(&cellgatev1.ListFindingsRequest{Repaired: true}).GetFindings(); len(f) != open+1 {
				t.Errorf("compared at %v, with the repaired %v", compared, f)
			}
			compared = at(30)
		}
	})
}
