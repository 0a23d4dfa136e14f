package cell

import (
	"bytes"
	"context"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// logged collects log output. Safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// audited gives the audit lines so far, without their time.
func (l *logged) audited() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return regexp.MustCompile(`msg="audit: [^\n]*`).FindAllString(strings.ReplaceAll(l.text.String(), " cell=cell1 replica=r1", ""), -1)
}

// The audit log has each move, pin and unpin of the gate, with who asked and why. A call that
// changes nothing is not logged and returns an error.
func TestTheAuditOfAGate(t *testing.T) {
	log := &logged{}
	r := launchLogged(t, newStore(t), slog.New(slog.NewTextHandler(log, nil)))
	r.await(r.cell.Ready())
	pin := func(to cellgatev1.Gate_State, why string) error {
		_, err := r.cells.PinGate(context.Background(), &cellv1.PinGateRequest{Pin: to, Reason: why, Who: "ann", Force: true})
		return err
	}
	if err := pin(0, "no gate"); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "has no gate to let go") {
		t.Errorf("without a gate: %v", err)
	}
	r.reportLegacy(legacyOf("g1", 60, 1))
	if err := pin(0, "no pin"); fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "is not pinned: it is LEGACY by the rules, and nothing was changed") {
		t.Errorf("without a pin: %v", err)
	}
	for _, step := range []struct {
		to  cellgatev1.Gate_State
		why string
	}{{nativeState, "rack 7"}, {nativeState, "rack 8"}, {0, "done"}} {
		if err := pin(step.to, step.why); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`msg="audit: the gate moved" from=none to=LEGACY epoch=1 reason="a gateway reads the cell's legacy tables" who=""`,
		`msg="audit: the gate moved" from=LEGACY to=NATIVE epoch=2 reason="pinned by ann: rack 7" who=ann`,
		`msg="audit: the gate was pinned" state=NATIVE epoch=2 reason="rack 8" who=ann`,
		`msg="audit: the gate was let go" state=NATIVE pinned=NATIVE epoch=2 reason=done who=ann`,
		`msg="audit: the gate moved" from=NATIVE to=LEGACY epoch=3 reason="nova-compute on host-00001 is up and of version 60, 66 is required" who=""`,
	}
	for i, line := range log.audited() {
		if i >= len(want) || !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %s", i, line)
		}
	}
	if n := len(log.audited()); n != len(want) {
		t.Errorf("%d lines, want %d", n, len(want))
	}
}
