package agent

import (
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// readHardware parses the NUMA cells and devices that a host reports.
func readHardware(state *agentv1.FullState) (*schedule.Hardware, error) {
	var cpu, ram float64
	if providers := state.GetProviders(); len(providers) > 0 {
		for _, i := range providers[0].GetInventories() {
			switch i.GetResourceClass() {
			case "VCPU":
				cpu = i.GetAllocationRatio()
			case "MEMORY_MB":
				ram = i.GetAllocationRatio()
			}
		}
	}
	return schedule.ReadHardware(state.GetFacts().GetNumaTopology(), state.GetFacts().GetPciStats(), cpu, ram)
}

// judgeGuest says why an instance does not find its NUMA cells and devices in the free hardware after
// those that held takes; it returns ok if it does.
func judgeGuest(free schedule.Hardware, guest *schedule.GuestCheck, held []*schedule.GuestCheck) (agentv1.Verdict_Reason, string) {
	for _, other := range held {
		if a, _ := free.Assign(&schedule.GuestCheck{Nova: other.Nova}); a != nil {
			free.Take(a)
		}
	}
	_, lack := free.Assign(guest)
	switch {
	case lack == nil:
		return ok, ""
	case lack.Filter == schedule.PCIFilter:
		return agentv1.Verdict_NO_PCI, lack.Message
	default:
		return agentv1.Verdict_NO_NUMA, lack.Message
	}
}
