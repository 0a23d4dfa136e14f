package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A cell is available while it answers, whatever this gateway can read. The cell's reason
// says what the gateway cannot read.
func TestCellsShowWhetherTheCellAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1), testHost(2, 1)), newUpgrading()
		f.gate.move(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		for _, state := range []cellgatev1.Gate_State{cellgatev1.Gate_LEGACY, cellgatev1.Gate_SHADOW, cellgatev1.Gate_NATIVE} {
			f.gate.move(state)
			time.Sleep(3 * time.Second)
			if c := w.cell(t); !c.GetAvailable() || c.GetHosts() != 2 || c.GetGate().GetState() != state {
				t.Errorf("%s: %v", state, c)
			}
		}
		f.gate.move(cellgatev1.Gate_LEGACY)
		u.reader.hook(func(context.Context) error { return unreachable() })
		time.Sleep(20 * time.Second)
		if c := w.cell(t); !c.GetAvailable() || !strings.Contains(c.GetReason(), "this gateway cannot read the legacy database") || !strings.Contains(c.GetReason(), "unreachable") {
			t.Errorf("without a database: %v", c)
		}
		if age := w.metric("cellgate_gateway_legacy_rows_age_seconds", "cell1"); age < 15 {
			t.Errorf("the rows are %v s old by the metric", age)
		}
		f.gate.set(func() { f.gate.closed = "no gateway has imported" })
		time.Sleep(3 * time.Second)
		if c := w.cell(t); c.GetAvailable() || !strings.Contains(c.GetReason(), "no gateway has imported") {
			t.Errorf("while it does not answer: %v", c)
		}
	})
}
