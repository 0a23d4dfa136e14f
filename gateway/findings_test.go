package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (f *fakeCell) ListFindings(ctx context.Context, req *cellv1.ListFindingsRequest) (*cellv1.ListFindingsResponse, error) {
	if err := f.enter(ctx, "ListFindings", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &cellv1.ListFindingsResponse{LookedAt: timestamppb.Now(), Hosts: 3, HostsCompared: 2, Repairs: !f.noRepair}
	for _, g := range f.findings {
		out.Findings = append(out.Findings, proto.CloneOf(g))
	}
	for _, c := range f.claims {
		if from := c.origin.GetMovesCell(); from != "" && from != f.name && c.claim.GetState() == cellgatev1.ClaimState_CONFIRMED {
			out.MovedIn = append(out.MovedIn, &cellv1.MovedIn{
				ClaimId: c.claim.GetClaimId(), ConsumerUuid: c.claim.GetConsumerUuid(), HostUuid: c.claim.GetHostUuid(), ServiceHost: c.claim.GetServiceHost(),
				FromCell: from, FromClaimId: c.claim.GetMovesClaimId(), Since: timestamppb.Now(),
			})
		}
	}
	return out, nil
}

func (w *world) findings(req *cellgatev1.ListFindingsRequest) *cellgatev1.ListFindingsResponse {
	w.t.Helper()
	resp, err := w.cellsAPI.ListFindings(context.Background(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// movedByReport is an instance that moved from cell1 to cell2, where its host's report
// confirmed it: its claims there and here.
func movedByReport(w *world) (old, moved *cellgatev1.Selection) {
	w.t.Helper()
	old = w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	if err := w.confirm(old, testUUID(0x1, 1)); err != nil {
		w.t.Fatal(err)
	}
	move := proto.CloneOf(to(ask(1, 1), "cell2"))
	move.Operation = cellgatev1.Operation_MOVE
	moved = w.choose(move).GetDestinations()[0].GetSelected()
	w.cells[1].mu.Lock()
	defer w.cells[1].mu.Unlock()
	c := w.cells[1].claims[moved.GetClaimId()].claim
	c.State, c.ExpiresAt = cellgatev1.ClaimState_CONFIRMED, nil
	return old, moved
}

// A move that nobody finishes is found between the cells, and finished as its caller
// would have; once, and only what is still there.
func TestAMoveThatNobodyFinishedIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		old, moved := movedByReport(w)
		got := w.findings(&cellgatev1.ListFindingsRequest{})
		if len(got.GetFindings()) != 1 || len(got.GetCells()) != 2 {
			t.Fatalf("found %v", got)
		}
		f := got.GetFindings()[0]
		if f.GetKind() != cellgatev1.Finding_UNFINISHED_MOVE || f.GetCell() != "cell1" || f.GetClaimId() != old.GetClaimId() || f.GetConsumerUuid() != testUUID(0x1, 1) ||
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
		if got := w.findings(&cellgatev1.ListFindingsRequest{}); len(got.GetFindings()) != 0 {
			t.Errorf("found %v", got)
		}
		done := w.findings(&cellgatev1.ListFindingsRequest{Repaired: true, Cell: "cell1", Kind: cellgatev1.Finding_UNFINISHED_MOVE}).GetFindings()
		if len(done) != 1 || done[0].GetRepairedAt() == nil || done[0].GetRepair() == "" {
			t.Errorf("repaired %v", done)
		}
	})
}

// It is not finished while the host that the instance left reports it: the finding stands,
// and says so, until the instance is gone.
func TestAMoveIsNotFinishedWhileItsSourceReportsTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		old, _ := movedByReport(w)
		there := func(is bool) {
			w.cells[0].mu.Lock()
			defer w.cells[0].mu.Unlock()
			w.cells[0].stillThere = map[string]bool{testUUID(0x1, 1): is}
		}
		there(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("the source is %s", s)
		}
		f := w.findings(&cellgatev1.ListFindingsRequest{}).GetFindings()
		if len(f) != 1 || f[0].GetKind() != cellgatev1.Finding_UNFINISHED_MOVE || !strings.Contains(f[0].GetRepair(), "the host reports the instance") {
			t.Errorf("found %v", f)
		}
		there(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_RELEASED {
			t.Errorf("then the source is %s", s)
		}
		if f := w.findings(&cellgatev1.ListFindingsRequest{}).GetFindings(); len(f) != 0 {
			t.Errorf("then found %v", f)
		}
	})
}

// It stays where a cell does not want repairs, does not answer, or the source has become
// somebody else's.
func TestAMoveThatIsNotFinished(t *testing.T) {
	for name, change := range map[string]func(w *world, old, moved *cellgatev1.Selection){
		"repairs are off where it came from": func(w *world, _, _ *cellgatev1.Selection) { w.cells[0].noRepair = true },
		"repairs are off where it is":        func(w *world, _, _ *cellgatev1.Selection) { w.cells[1].noRepair = true },
		"the source was transferred": func(w *world, old, _ *cellgatev1.Selection) {
			c := w.cells[0].claims[old.GetClaimId()].claim
			c.ConsumerUuid, c.TransferredFrom = testUUID(0x1, 9), c.GetConsumerUuid()
		},
		"the source is written each time before its release comes": func(w *world, old, _ *cellgatev1.Selection) {
			w.cells[0].before = beforeRelease(func() { w.cells[0].changed(old.GetClaimId()) })
		},
		"the new claim was given up": func(w *world, _, moved *cellgatev1.Selection) {
			w.cells[1].claims[moved.GetClaimId()].claim.State = cellgatev1.ClaimState_RELEASED
		},
		"the other cell does not say what it found": func(w *world, _, _ *cellgatev1.Selection) {
			w.cells[0].before = func(_ context.Context, method string, _ any) error {
				if method == "ListFindings" {
					return fault.New(fault.CellUnavailable, "not now")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, twoCells(), nil)
				old, moved := movedByReport(w)
				for _, c := range w.cells {
					c.mu.Lock()
				}
				change(w, old, moved)
				for _, c := range w.cells {
					c.mu.Unlock()
				}
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if s := w.cells[0].stateOf(old.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
					t.Errorf("the source is %s", s)
				}
			})
		})
	}
}

// Every replica is asked; what several saw is told once, with the earliest time, and a
// replica that does not answer is named.
func TestFindingsOfAllReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
		both := func(s int64) *cellgatev1.Finding {
			return &cellgatev1.Finding{Kind: cellgatev1.Finding_ORPHANED_CLAIM, ServiceHost: "host002", HostUuid: testUUID(0xa, 2), ClaimId: "k1", Since: at(s)}
		}
		mine := &cellgatev1.Finding{Kind: cellgatev1.Finding_TABLE_DIFFERS, ServiceHost: "host001", HostUuid: testUUID(0xa, 1), Since: at(7)}
		old := &cellgatev1.Finding{Kind: cellgatev1.Finding_ORPHANED_CLAIM, ServiceHost: "host001", HostUuid: testUUID(0xa, 1), ClaimId: "k0", Since: at(1), RepairedAt: at(3), Repair: "released"}
		w.cells[0].findings = []*cellgatev1.Finding{both(5)}
		w.cells[1].findings = []*cellgatev1.Finding{both(2), mine, old}
		got := w.findings(&cellgatev1.ListFindingsRequest{Cell: "cell1"})
		if f := got.GetFindings(); len(f) != 2 || f[0].GetClaimId() != "k1" || f[0].GetSince().GetSeconds() != 2 || f[0].GetCell() != "cell1" || f[1].GetKind() != cellgatev1.Finding_TABLE_DIFFERS {
			t.Errorf("found %v", got)
		}
		if c := got.GetCells(); len(c) != 1 || c[0].GetHosts() != 3 || c[0].GetHostsCompared() != 2 || c[0].GetError() != "" || c[0].GetLookedAt() == nil {
			t.Errorf("cells %v", c)
		}
		if f := w.findings(&cellgatev1.ListFindingsRequest{Kind: cellgatev1.Finding_TABLE_DIFFERS, Repaired: true}).GetFindings(); len(f) != 1 {
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
