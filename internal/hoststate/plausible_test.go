package hoststate

import (
	"testing"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

func TestFactsOfTheStateBeforeAreNotLookedAtAgain(t *testing.T) {
	in := &agentv1.FullState{Version: 1, ServiceHost: "c", Nodename: "c", Facts: &agentv1.Facts{CpuInfo: "["}}
	if bad := NotPlausible(in, nil); len(bad) != 1 || bad[0].Path != "facts.cpu_info" {
		t.Errorf("a first state: %v", bad)
	}
	if bad := NotPlausible(in, in); len(bad) != 0 {
		t.Errorf("the same facts again: %v", bad)
	}
}

func TestFactsThatCannotBeReadAreNamed(t *testing.T) {
	in := &agentv1.FullState{Facts: &agentv1.Facts{Metrics: "{", SupportedInstances: "kvm"}}
	bad := Unreadable(schedule.ParseFacts(FactTexts(in)))
	if len(bad) != 2 || bad[0].Path != "facts.metrics" || bad[1].Path != "facts.supported_instances" {
		t.Errorf("%v", bad)
	}
}
