package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

var moveOperations = []cellgatev1.Operation{
	cellgatev1.Operation_MOVE, cellgatev1.Operation_EVACUATE, cellgatev1.Operation_LIVE_MIGRATE,
}

// move is the request of an operation for the instance that ask(1, 1) builds.
func move(op cellgatev1.Operation, id string) *cellgatev1.SelectDestinationsRequest {
	r := ask(1, 1)
	r.Operation, r.RequestId = op, id
	return r
}

// built places and confirms an instance in a cell.
func (w *world) built(cell string) *cellgatev1.Selection {
	w.t.Helper()
	s := w.choose(to(ask(1, 1), cell)).GetDestinations()[0].GetSelected()
	if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) getClaim() *cellgatev1.Claim {
	w.t.Helper()
	got, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	return got.GetClaim()
}

func TestMoveStandsBesideItsSourceUntilConfirmed(t *testing.T) {
	for _, op := range moveOperations {
		for _, target := range []string{"cell1", "cell2"} {
			t.Run(op.String()+" to "+target, func(t *testing.T) {
				w := start(t, twoCells(), nil)
				source := w.built("cell1")
				req := to(move(op, "m1"), target)
				first := w.choose(req)
				moved := first.GetDestinations()[0].GetSelected()
				if op != cellgatev1.Operation_MOVE && moved.GetComputeNodeUuid() == source.GetComputeNodeUuid() {
					t.Errorf("%s chose the host of the source", op)
				}
				if w.liveClaims() != 2 {
					t.Fatalf("%d claims", w.liveClaims())
				}
				if c := w.getClaim(); c.GetClaimId() != source.GetClaimId() {
					t.Errorf("before the confirm GetClaim gives %s", c.GetClaimId())
				}
				both, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)})
				if err != nil || both.GetOtherClaim().GetClaimId() != moved.GetClaimId() {
					t.Errorf("GetClaim has %v beside the source, %v", both.GetOtherClaim(), err)
				}
				list, err := w.claims.ListClaims(context.Background(), &cellgatev1.ListClaimsRequest{})
				if err != nil || len(list.GetClaims()) != 2 {
					t.Errorf("the list has %v, %v", list, err)
				}
				if again := w.choose(req); !proto.Equal(first.GetDestinations()[0], again.GetDestinations()[0]) {
					t.Errorf("the repeat answers %v, not %v", again, first)
				}
				// The instance's own claim can be confirmed again meanwhile.
				if err := w.confirm(source, testUUID(0x1, 1)); err != nil {
					t.Error(err)
				}
				for range 2 {
					if err := w.confirm(moved, testUUID(0x1, 1)); err != nil {
						t.Fatal(err)
					}
				}
				if c := w.getClaim(); w.liveClaims() != 1 || c.GetClaimId() != moved.GetClaimId() || c.GetMovesClaimId() != source.GetClaimId() {
					t.Errorf("%d claims, the instance's is %v", w.liveClaims(), c)
				}
				if again := w.choose(req).GetDestinations()[0].GetSelected(); again.GetClaimId() != moved.GetClaimId() {
					t.Errorf("after the confirm the repeat gives %s", again.GetClaimId())
				}
			})
		}
	}
}

func TestMoveThatIsReleasedLeavesTheSource(t *testing.T) {
	w := start(t, twoCells(), nil)
	source := w.built("cell1")
	moved := w.choose(move(cellgatev1.Operation_MOVE, "m1")).GetDestinations()[0].GetSelected()
	if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
		ConsumerUuid: testUUID(0x1, 1), ClaimId: moved.GetClaimId(),
	}); err != nil {
		t.Fatal(err)
	}
	if c := w.getClaim(); w.liveClaims() != 1 || c.GetClaimId() != source.GetClaimId() {
		t.Errorf("%d claims, %v", w.liveClaims(), c)
	}
}

func TestSecondMoveIsRefused(t *testing.T) {
	w := start(t, twoCells(), nil)
	w.built("cell1")
	moved := w.choose(move(cellgatev1.Operation_MOVE, "m1")).GetDestinations()[0].GetSelected()
	for _, id := range []string{"", "m2"} {
		e := w.refused(move(cellgatev1.Operation_EVACUATE, id), fault.AlreadyExists)
		if e.Metadata["claim_id"] != moved.GetClaimId() || e.Metadata["cell"] != moved.GetCell() {
			t.Errorf("metadata %v", e.Metadata)
		}
	}
	e := w.refused(move(cellgatev1.Operation_EVACUATE, "m1"), fault.InvalidRequest)
	if e.Fields[0].Path != "request_id" {
		t.Errorf("fields %v", e.Fields)
	}
	if w.liveClaims() != 2 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

// A move replaces one claim. It does not choose between two, and does not replace a move that is not confirmed.
func TestMove_OfTwoClaimsOrOfAPendingMove_IsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		twoClaims(w, cellgatev1.ClaimState_CONFIRMED, cellgatev1.ClaimState_CONFIRMED)
		w.refused(move(cellgatev1.Operation_MOVE, "m1"), fault.AlreadyExists)
	})
	w := start(t, twoCells(), nil)
	source := w.built("cell1")
	moved := w.choose(to(move(cellgatev1.Operation_MOVE, "m1"), "cell2")).GetDestinations()[0].GetSelected()
	w.cells[0].release(source.GetClaimId(), testUUID(0x1, 1))
	if e := w.refused(move(cellgatev1.Operation_MOVE, "m2"), fault.AlreadyExists); e.Metadata["claim_id"] != moved.GetClaimId() {
		t.Errorf("metadata %v", e.Metadata)
	}
}

// Nova transfers the source to the migration before it asks, so that the instance has no claim to move from.
func TestMoveWithoutAClaimGoesOn(t *testing.T) {
	for _, op := range moveOperations {
		w := start(t, twoCells(), nil)
		s := w.choose(move(op, "m1")).GetDestinations()[0].GetSelected()
		if c := w.getClaim(); c.GetClaimId() != s.GetClaimId() || c.GetMovesClaimId() != "" {
			t.Errorf("%s: %v", op, c)
		}
	}
}

// Nova asks for a resize as for a new server, since the migration holds the instance's claim by then. Under
// anti-affinity the instance's own host passes (scheduler/filters/affinity_filter.py), for it alone.
func TestResizeByNova_AntiAffinity_MayStayOnItsHost(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 4))}, nil)
	request := func(n int) *cellgatev1.SelectDestinationsRequest {
		req := novaAsk(t, 1, func(spec, _ map[string]any) {
			spec["instance_group"] = map[string]any{
				"nova_object.name": "InstanceGroup", "nova_object.namespace": "nova", "nova_object.version": "1.11",
				"nova_object.data": map[string]any{
					"uuid": testUUID(0x9, 1), "policy": "anti-affinity", "members": []any{testUUID(0x1, 1), testUUID(0x1, 2)}, "hosts": []any{},
				},
			}
		})
		req.InstanceUuids = []string{testUUID(0x1, n)}
		return req
	}
	s := w.choose(request(1)).GetDestinations()[0].GetSelected()
	if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.claims.TransferClaim(t.Context(), &cellgatev1.TransferClaimRequest{
		ConsumerUuid: testUUID(0x1, 1), ClaimId: s.GetClaimId(), ToConsumer: testUUID(0x2, 1),
	}); err != nil {
		t.Fatal(err)
	}
	w.refused(request(2), fault.NoValidHost)
	if resized := w.choose(request(1)).GetDestinations()[0].GetSelected(); resized.GetServiceHost() != s.GetServiceHost() {
		t.Errorf("resized to %v", resized)
	}
}

func TestMoveOutOfADisabledCell(t *testing.T) {
	cells := twoCells()
	w := start(t, cells, func(c *Config) { c.Cells[0].Disabled = true })
	// Built before the cell was disabled.
	host := testUUID(0xa, 1)
	cells[0].made("source", testUUID(0x1, 1), host)
	cells[0].confirm("source", testUUID(0x1, 1))
	s := w.choose(move(cellgatev1.Operation_LIVE_MIGRATE, "m1")).GetDestinations()[0].GetSelected()
	if s.GetCell() != "cell2" {
		t.Fatalf("chose %v", s)
	}
	if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	if n := len(cells[0].live()); n != 0 {
		t.Errorf("%d claims are left in the disabled cell", n)
	}
}

// The only host of the cell is the source's: only MOVE may choose it, and other moves find no host.
func TestEvacuateNeverChoosesTheSourcesHost(t *testing.T) {
	for _, dry := range []bool{false, true} {
		w := start(t, []*testCell{newCell(1, testHost(1, 4))}, nil)
		w.built("cell1")
		for _, op := range moveOperations[1:] {
			req := move(op, "")
			req.DryRun = dry
			e := w.refused(req, fault.NoValidHost)
			if !strings.Contains(e.Message, "1 is left out by the request (ignored)") {
				t.Errorf("%s: %v", op, e)
			}
		}
		req := move(cellgatev1.Operation_MOVE, "")
		req.DryRun = dry
		if s := w.choose(req).GetDestinations()[0].GetSelected(); s.GetClaimed() == dry {
			t.Errorf("dry run %v: %v", dry, s)
		}
	}
}

// The source's cell is dead: the instance is placed in another one all the same.
func TestEvacuateFromADeadCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		source := w.built("cell1")
		back := w.cells[0].hang()
		resp := w.choose(move(cellgatev1.Operation_EVACUATE, "e1"))
		s := resp.GetDestinations()[0].GetSelected()
		if s.GetCell() != "cell2" || !resp.GetPartial() {
			t.Fatalf("%v", resp)
		}
		if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
			t.Fatal(err)
		}
		back()
		w.cells[0].hook(nil, nil)
		if live := w.cells[0].live(); len(live) != 1 || live[0].GetClaimId() != source.GetClaimId() {
			t.Errorf("the dead cell holds %v", live)
		}
	})
}

// Any other move fails while a cell that may hold its source does not answer, because the source would then stay for
// ever. A move whose request names a cell that answers goes on.
func TestMoveWaitsForACellThatMayHoldItsSource(t *testing.T) {
	for _, op := range []cellgatev1.Operation{cellgatev1.Operation_MOVE, cellgatev1.Operation_LIVE_MIGRATE} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			w.built("cell1")
			back := w.cells[0].hang()
			defer back()
			if e := w.refused(move(op, "m1"), fault.CellUnavailable); e.Metadata["cells"] != "cell1" {
				t.Errorf("%v", e)
			}
			w.refused(to(move(op, "m1"), "cell1"), fault.CellUnavailable)
			if s := w.choose(to(move(op, "m1"), "cell2")).GetDestinations()[0].GetSelected(); s.GetCell() != "cell2" {
				t.Errorf("chose %v", s)
			}
		})
	}
}

// The second half of a confirm over cells fails: nothing is lost, and confirming
// again finishes it.
func TestConfirmOfAMoveOverCellsIsFinishedByRepeatingIt(t *testing.T) {
	w := start(t, twoCells(), nil)
	source := w.built("cell1")
	moved := w.choose(to(move(cellgatev1.Operation_MOVE, "m1"), "cell2")).GetDestinations()[0].GetSelected()
	for _, when := range []string{"before", "after"} {
		fail := func(req any) error {
			if slices.ContainsFunc(req.(*cellv1.ClaimBatchRequest).GetOps(), func(op *cellv1.ClaimOp) bool { return op.GetRelease() != nil }) {
				return errors.New("lost")
			}
			return nil
		}
		if when == "before" {
			w.cells[0].hook(func(_ context.Context, method string, req any) error {
				if method != "ClaimBatch" {
					return nil
				}
				return fail(req)
			}, nil)
		} else {
			w.cells[0].hook(nil, func(method string, req any) error {
				if method != "ClaimBatch" {
					return nil
				}
				return fail(req)
			})
		}
		err := w.confirm(moved, testUUID(0x1, 1))
		if k := fault.KindOf(err); k != fault.CellUnavailable {
			t.Fatalf("%s: %v", when, err)
		}
		if c := w.getClaim(); c.GetClaimId() != moved.GetClaimId() {
			t.Errorf("%s: the instance's claim is %v", when, c)
		}
		if when == "before" && w.liveClaims() != 2 {
			t.Errorf("%d claims", w.liveClaims())
		}
	}
	w.cells[0].hook(nil, nil)
	if err := w.confirm(moved, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	if live := w.cells[0].live(); len(live) != 0 {
		t.Errorf("the source %s is still held: %v", source.GetClaimId(), live)
	}
	if k := fault.KindOf(w.confirm(source, testUUID(0x1, 1))); k != fault.AlreadyExists {
		t.Errorf("the source was confirmed again: %s", k)
	}
}

// The source of a confirmed move was never confirmed, and could not be released. It cannot be confirmed any more.
func TestI2_PendingSourceOfAConfirmedMove_IsNotConfirmed(t *testing.T) {
	w := start(t, twoCells(), nil)
	source := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	moved := w.choose(to(move(cellgatev1.Operation_MOVE, "m1"), "cell2")).GetDestinations()[0].GetSelected()
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if releases(method, req) {
			return errors.New("lost")
		}
		return nil
	}, nil)
	if k := fault.KindOf(w.confirm(moved, testUUID(0x1, 1))); k != fault.CellUnavailable {
		t.Fatalf("the move is confirmed with %s", k)
	}
	w.cells[0].hook(nil, nil)
	k := fault.KindOf(w.confirm(source, testUUID(0x1, 1)))
	if s := w.cells[0].stateOf(source.GetClaimId()); k != fault.AlreadyExists || s != cellgatev1.ClaimState_PENDING {
		t.Errorf("the source's confirm is answered %q, and it is %s", k, s)
	}
}

// The cell of the new claim does not answer its confirm: the error is CELL_UNAVAILABLE, although the other cell has
// a confirmed claim, the source.
func TestConfirmOfAMoveWhileItsCellHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		w.built("cell1")
		req := move(cellgatev1.Operation_MOVE, "m1")
		req.GetRequestSpec().IgnoreHosts = []string{"host001", "host002"}
		moved := w.choose(req).GetDestinations()[0].GetSelected()
		back := w.cells[1].hang()
		defer back()
		if k := fault.KindOf(w.confirm(moved, testUUID(0x1, 1))); k != fault.CellUnavailable {
			t.Errorf("got %s", k)
		}
	})
}

func TestMoveIsForOneInstance(t *testing.T) {
	w := start(t, twoCells(), nil)
	for _, op := range append(moveOperations, cellgatev1.Operation_REBUILD) {
		req := ask(1, 2)
		req.Operation = op
		if e := w.refused(req, fault.InvalidRequest); e.Fields[0].Path != "instance_uuids" {
			t.Errorf("%s: %v", op, e.Fields)
		}
		body := fmt.Sprintf(`{"operation": %q, "instance_uuids": [%q, %q], "request_spec": {"flavor": {"vcpus": 1}}}`,
			op, testUUID(0x1, 1), testUUID(0x1, 2))
		rec := w.send("POST", "/v1/select_destinations", body)
		if p := problemOf(t, rec); rec.Code != http.StatusBadRequest || !slices.Equal(p.fields(), []string{"instance_uuids"}) {
			t.Errorf("%s: %d %v", op, rec.Code, p)
		}
	}
}

// A build that says so is the same request as one that does not.
func TestOperationBuildIsTheDefault(t *testing.T) {
	w := start(t, twoCells(), nil)
	first := w.choose(move(cellgatev1.Operation_OPERATION_UNSPECIFIED, "r"))
	if again := w.choose(move(cellgatev1.Operation_BUILD, "r")); !proto.Equal(withoutVersions(first), withoutVersions(again)) {
		t.Errorf("%v\n%v", first, again)
	}
	w.refused(move(cellgatev1.Operation_UNSHELVE, ""), fault.AlreadyExists)
}

// The claim of a move is found again, but its cell, which also has the source, does not keep it: its disk hangs. The
// new claim in another cell moves the source too.
func TestRepeatedMove_CellDoesNotKeepTheClaim_NewClaimMovesTheSource(t *testing.T) {
	for _, op := range moveOperations {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, []*testCell{newCell(1, testHost(1, 4), testHost(2, 4)), newCell(2, testHost(3, 1))}, nil)
			source := w.built("cell1")
			req := move(op, "m1")
			if s := w.choose(req).GetDestinations()[0].GetSelected(); s.GetCell() != "cell1" {
				t.Fatalf("chose %v", s)
			}
			w.cells[0].hook(hang("ClaimBatch"), nil)
			s := w.choose(req).GetDestinations()[0].GetSelected()
			if c := w.cells[1].claim(s.GetClaimId()); c.GetMovesClaimId() != source.GetClaimId() {
				t.Errorf("%s: the new claim is %v, the source %s", op, c, source.GetClaimId())
			}
		})
	}
}

// A dry run and an explanation of a move that was made already take over no claim.
func TestDryRunOfAMove_MadeBefore_TakesNothingOver(t *testing.T) {
	w := start(t, twoCells(), nil)
	w.built("cell1")
	req := move(cellgatev1.Operation_MOVE, "m1")
	moved := w.choose(req).GetDestinations()[0].GetSelected()
	refused := func(what string, resp any, err error) {
		if e := mustFail(t, resp, err, fault.AlreadyExists); e.Metadata["claim_id"] != moved.GetClaimId() {
			t.Errorf("%s: metadata %v", what, e.Metadata)
		}
	}
	explained, err := w.scheduler.ExplainDestinations(t.Context(), req)
	refused("the explanation", explained, err)
	dry := proto.CloneOf(req)
	dry.DryRun = true
	tried, err := w.scheduler.SelectDestinations(t.Context(), dry)
	refused("the dry run", tried, err)
	for _, c := range w.cells {
		if slices.Contains(c.did(), "keep "+testUUID(0x1, 1)) {
			t.Errorf("%s did %v", c.name, c.did())
		}
	}
	if err := w.confirm(moved, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	if explained, err := w.scheduler.ExplainDestinations(t.Context(), req); err != nil || len(explained.GetRanked()) == 0 {
		t.Errorf("after the confirm the explanation is %v, %v", explained, err)
	}
}
