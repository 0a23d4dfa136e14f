package gateway

import (
	"context"
	"strings"
	"testing"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A cell that does not know the gateway is not there, for the gateway's callers:
// their own credentials are good.
func TestACellThatDoesNotAdmitTheGatewayIsUnavailable(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unauthenticated, fault.PermissionDenied} {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 1)), newFakeCell(2, testHost(2, 9))}, nil)
		refuse := func(context.Context, string, any) error { return fault.New(kind, "secret of the cell") }
		w.cells[1].hook(refuse, nil)
		resp := w.choose(ask(1, 1))
		if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 UNAVAILABLE" || !resp.GetPartial() {
			t.Errorf("%s: %s, partial %v", kind, got, resp.GetPartial())
		}
		if r := resp.GetCells()[1].GetReason(); r != "cell cell2 does not admit this gateway" {
			t.Errorf("%s: reason %q", kind, r)
		}
		w.cells[0].hook(refuse, nil)
		e := w.refused(ask(2, 1), fault.CellUnavailable)
		_, err := w.claims.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 9)})
		if mustFail(t, nil, err, fault.CellUnavailable); strings.Contains(e.Error()+err.Error(), "secret") {
			t.Errorf("%s: %v, %v", kind, e, err)
		}
	}
}
