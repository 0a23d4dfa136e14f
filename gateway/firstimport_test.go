package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A cell of gateway.legacy that has no gate yet may have an empty table: it is unavailable, not
// full, until this gateway's report has made the gate.
func TestSelect_CellWithoutAGateYet_IsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		u.reader.hook(func(context.Context) error { return unreachable() })
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(3 * time.Second)
		if e := w.refused(ask(1, 1), fault.CellUnavailable); !strings.Contains(e.Message, "the cell has not reported its gate yet: it has no gate yet") {
			t.Errorf("it says %q", e.Message)
		}
		u.reader.hook(nil)
		time.Sleep(10 * time.Second)
		w.choose(ask(1, 1))
	})
}

// A cell that answers no query does not know what it could hold. Its summary does not lead the gateway to skip it,
// because the cell may answer before the next summary is read.
func TestRoute_CellThatAnswersNothing_IsAsked(t *testing.T) {
	closed, other := gated(1, testHost(1, 1)), newCell(2, testHost(2, 4))
	closed.gate.move(cellgatev1.Gate_LEGACY)
	closed.gate.closed = "no gateway has imported"
	w := start(t, []*testCell{closed, other}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.Vcpus = 17
	if got := outcomes(w.choose(req).GetCells()); got != "cell1 UNAVAILABLE, cell2 SEARCHED" {
		t.Errorf("the cells are %s", got)
	}
}
