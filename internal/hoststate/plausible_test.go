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

func TestNotPlausible_TotalBeyondInt32AfterTheRatio_Named(t *testing.T) {
	state := func(total, reserved int32, ratio float64) *agentv1.FullState {
		return &agentv1.FullState{Version: 1, ServiceHost: "c", Nodename: "c", Providers: []*agentv1.Provider{{}, {
			Inventories: []*agentv1.Inventory{{ResourceClass: "DISK_GB", Total: total, Reserved: reserved, AllocationRatio: ratio}},
		}}}
	}
	if bad := NotPlausible(state(1<<30, 0, 2), nil); len(bad) != 1 || bad[0].Path != "providers[1].inventories[0].total" {
		t.Errorf("2^31 after the ratio: %v", bad)
	}
	for name, s := range map[string]*agentv1.FullState{"the most": state(1<<31-1, 0, 1), "reserved": state(1<<30, 1, 2), "a small ratio": state(1<<31-1, 0, 0.5)} {
		if bad := NotPlausible(s, nil); len(bad) != 0 {
			t.Errorf("%s: %v", name, bad)
		}
	}
}
