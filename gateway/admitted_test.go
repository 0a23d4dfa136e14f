package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A cell that refuses the gateway's credentials is unavailable to callers: their own credentials are good.
func TestACellThatDoesNotAdmitTheGatewayIsUnavailable(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Unauthenticated, fault.PermissionDenied} {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
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

// While one replica does not admit the gateway, all calls, claims included, go to the other. One log line says what to
// do, and another says when the replica admits the gateway again.
func TestAReplicaThatDoesNotAdmitTheGatewayIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		var mu sync.Mutex
		w := twoReplicasLogged(t, nil, slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return text.Write(b)
		}), nil)))
		logged := func(says string) int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(text.String(), says)
		}
		w.cells[0].hook(func(context.Context, string, any) error {
			return fault.New(fault.PermissionDenied, "the role agent may not call this")
		}, nil)
		for i := range 50 { // more than the budget of retries has
			if resp, _, err := w.dry(t.Context()); err != nil || resp.GetPartial() {
				t.Fatalf("request %d: %v, %v", i, resp, err)
			}
		}
		w.choose(ask(1, 1))
		const warning = `level=WARN msg="a cell does not admit this gateway: give gateway.cell_tls a certificate or a token with the role gateway that the cell's cell.tls knows" cell=cell1 replica=cell1`
		if n := logged(warning); n != 1 {
			t.Errorf("%d warnings, want one:\n%s", n, &text)
		}
		w.cells[0].hook(nil, nil)
		time.Sleep(2 * cellclient.SummaryEvery) // virtual
		w.choose(ask(2, 1))
		if n := logged(`msg="a cell admits this gateway again" cell=cell1 replica=cell1`); n != 1 {
			t.Errorf("%d times admitted again:\n%s", n, &text)
		}
	})
}

// writerFunc is a function that writes.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
