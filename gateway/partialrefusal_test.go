package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// If a cell does not answer, the refusal still has the counts of the others.
func TestRefusal_ACellDoesNotAnswer_CountsOfTheOthersAreGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := testHost(1, 4)
		full.Resources[0].Used = 1
		w := start(t, []*testCell{newCell(1, full), newCell(2, testHost(2, 4))}, nil)
		w.cells[1].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "no") }, nil)
		req := ask(1, 1)
		req.GetRequestSpec().Flavor.Vcpus = 64
		e := w.refused(req, fault.CellUnavailable)
		detail, _ := e.Detail.(*cellgatev1.NoValidHost)
		if detail.GetHosts() != 1 || len(detail.GetRejects()) == 0 || detail.GetSmallestChange() == "" || detail.GetTenantMessage() == "" {
			t.Errorf("the detail is %v", detail)
		}
		if !strings.HasPrefix(e.Message, "No valid host was found. 0 of 1 hosts: 1 has too little VCPU; these cells did not answer, and may have one: cell2 (") {
			t.Errorf("the message is %q", e.Message)
		}
	})
}

// A cell that is too busy to search for near misses is named, because a smaller change may exist there.
func TestRefusal_ACellDoesNotLookWhatHostsLack_IsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 4)), newCell(2, testHost(2, 4))}, nil)
		w.cells[1].answers(func(_ string, _, resp any) {
			if batch, ok := resp.(*cellv1.ProposeBatchResponse); ok {
				for _, p := range batch.GetProposals() {
					p.NearMisses = nil
				}
			}
		})
		req := ask(1, 1)
		req.GetRequestSpec().Flavor.Vcpus = 65
		detail, _ := w.refused(req, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
		if got := detail.GetUnexaminedCells(); len(got) != 1 || got[0] != "cell2" || detail.GetHosts() != 2 {
			t.Errorf("the detail is %v", detail)
		}
		explained, err := w.scheduler.ExplainDestinations(t.Context(), req)
		if err != nil || len(explained.GetUnexaminedCells()) != 1 {
			t.Errorf("explained: %v, %v", explained, err)
		}
	})
}
