package gateway

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The instance's host is disabled and too small. A rebuild checks neither, and claims nothing.
func TestRebuildAnswersTheInstancesHost(t *testing.T) {
	w := start(t, twoCells(), nil)
	s := w.built("cell2")
	host := w.cells[1].host(s.GetComputeNodeUuid())
	host.Disabled = true
	w.cells[1].report(host)
	for _, hint := range []bool{false, true} {
		req := move(cellgatev1.Operation_REBUILD, "r1")
		req.ReturnAlternates = true
		req.GetRequestSpec().Flavor.Vcpus = 400
		if hint {
			req.Operation = cellgatev1.Operation_OPERATION_UNSPECIFIED
			req.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"_nova_check_type": {Values: []string{"rebuild"}}}
		}
		resp := w.choose(req)
		got := resp.GetDestinations()[0]
		if x := got.GetSelected(); x.GetComputeNodeUuid() != s.GetComputeNodeUuid() || x.GetClaimed() || x.GetClaimId() != "" || x.GetAllocationRequest() != "" {
			t.Errorf("hint %v: %v", hint, x)
		}
		if len(got.GetAlternates()) > 0 || w.liveClaims() != 1 {
			t.Errorf("%d alternates, %d claims", len(got.GetAlternates()), w.liveClaims())
		}
		if got := outcomes(resp.GetCells()); got != "cell1 SKIPPED, cell2 SEARCHED" {
			t.Errorf("cells: %s", got)
		}
	}
}

func TestRebuildOnANamedHost(t *testing.T) {
	w := start(t, twoCells(), nil)
	for name, named := range map[string]*cellgatev1.RequestSpec{
		"force_hosts":           {ForceHosts: []string{"host003"}},
		"force_nodes":           {ForceNodes: []string{"node003"}},
		"requested_destination": {RequestedDestination: &cellgatev1.Destination{Host: "host003"}},
	} {
		req := move(cellgatev1.Operation_REBUILD, "")
		named.Flavor = req.GetRequestSpec().GetFlavor()
		req.Spec = &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: named}
		if s := w.choose(req).GetDestinations()[0].GetSelected(); s.GetServiceHost() != "host003" {
			t.Errorf("%s: %v", name, s)
		}
	}
	req := move(cellgatev1.Operation_REBUILD, "")
	req.GetRequestSpec().ForceHosts = []string{"host099"}
	w.refused(req, fault.NoValidHost)
}

// While a move is under way, the instance is on its source host.
func TestRebuildDuringAMove(t *testing.T) {
	w := start(t, twoCells(), nil)
	s := w.built("cell1")
	w.choose(to(move(cellgatev1.Operation_MOVE, "m"), "cell2"))
	if got := w.choose(move(cellgatev1.Operation_REBUILD, "")).GetDestinations()[0].GetSelected(); got.GetComputeNodeUuid() != s.GetComputeNodeUuid() {
		t.Errorf("rebuilt on %v", got)
	}
}

func TestRebuildOfAnInstanceThatIsNowhere(t *testing.T) {
	w := start(t, twoCells(), nil)
	if e := w.refused(move(cellgatev1.Operation_REBUILD, ""), fault.InvalidRequest); e.Fields[0].Path != "request_spec.force_hosts" {
		t.Errorf("%v", e.Fields)
	}
	rec := w.send("POST", "/v1/select_destinations", `{"operation": "REBUILD", "instance_uuids": ["`+testUUID(0x1, 1)+`"], "request_spec": {"flavor": {"vcpus": 1}}}`)
	if p := problemOf(t, rec); rec.Code != http.StatusBadRequest || !slices.Equal(p.fields(), []string{"request_spec.force_hosts"}) {
		t.Errorf("%d %v", rec.Code, p)
	}
}

func TestRebuildWhileTheCellsDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		defer w.cells[0].hang()()
		if e := w.refused(move(cellgatev1.Operation_REBUILD, ""), fault.CellUnavailable); e.Metadata["cells"] != "cell1" {
			t.Errorf("%v", e)
		}
	})
}

// A cell that hangs delays the search for the instance's host, and does not fail it.
func TestI7_RebuildWhileAnotherCellHangs_FindsTheInstancesHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		built := w.built("cell2")
		defer w.cells[0].hang()()
		if s := w.choose(move(cellgatev1.Operation_REBUILD, "")).GetDestinations()[0].GetSelected(); s.GetComputeNodeUuid() != built.GetComputeNodeUuid() {
			t.Errorf("rebuilt on %v", s)
		}
	})
}

func TestRebuildHintContradictsAnotherOperation(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := move(cellgatev1.Operation_MOVE, "")
	req.GetRequestSpec().SchedulerHints = map[string]*cellgatev1.StringList{"_nova_check_type": {Values: []string{"rebuild"}}}
	if e := w.refused(req, fault.InvalidRequest); e.Fields[0].Path != "operation" {
		t.Errorf("%v", e.Fields)
	}
}
