package agent

import (
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

func TestWhetherInstancesAreKnownTakesAWholeState(t *testing.T) {
	state := func(version uint64, unknown bool) *agentv1.FullState {
		return &agentv1.FullState{BootId: "b", Version: version, InstancesUnknown: unknown}
	}
	if d := DeltaOf(state(1, true), state(2, false)); d != nil {
		t.Errorf("the delta is %v", d)
	}
	if d := DeltaOf(state(1, true), state(2, true)); d == nil {
		t.Error("there is no delta of what did not change")
	}
}
