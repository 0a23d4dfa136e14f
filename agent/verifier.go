package agent

import (
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule/hardware"
)

// readHardware parses the NUMA cells and devices that a host reports.
func readHardware(state *agentv1.FullState) (*hardware.Host, error) {
	host, problems := hardware.Read(state.GetFacts().GetNumaTopology(), state.GetFacts().GetPciStats())
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return &host, nil
}

// ratiosOf gives the overcommit ratios that a host reports.
func ratiosOf(state *agentv1.FullState) (ratios hardware.Ratios) {
	if providers := state.GetProviders(); len(providers) > 0 {
		for _, i := range providers[0].GetInventories() {
			switch i.GetResourceClass() {
			case "VCPU":
				ratios.CPU = i.GetAllocationRatio()
			case "MEMORY_MB":
				ratios.RAM = i.GetAllocationRatio()
			}
		}
	}
	return ratios
}

// judgeGuest says why an instance does not find its NUMA cells and devices in the free hardware after
// those that held takes; it returns ok if it does.
func judgeGuest(free hardware.Host, ratios hardware.Ratios, guest *hardware.Check, held []*hardware.Check) (agentv1.Verdict_Reason, string) {
	for _, other := range held {
		if a, _ := free.Assign(&hardware.Check{Guest: other.Guest}, ratios); a != nil {
			free, _ = free.Without(a)
		}
	}
	_, lack := free.Assign(guest, ratios)
	switch {
	case lack == nil:
		return ok, ""
	case lack.Filter == hardware.FilterPCI:
		return agentv1.Verdict_NO_PCI, lack.Message
	default:
		return agentv1.Verdict_NO_NUMA, lack.Message
	}
}
