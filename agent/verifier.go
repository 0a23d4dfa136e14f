package agent

import (
	"google.golang.org/protobuf/proto"

	"cellgate/internal/hoststate"
	"cellgate/internal/proposing"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// hardware is a host's NUMA cells and devices, as it reports them, judged by the filters
// that choose hosts.
type hardware struct {
	id    schedule.ID
	table *schedule.Table
}

func newHardware(state *agentv1.FullState) *hardware {
	id, err := schedule.ParseID(state.GetHostUuid())
	if err != nil {
		return &hardware{table: schedule.NewTable()} // no cell takes such a state
	}
	host := schedule.Host{
		UUID: id, ServiceHost: state.GetServiceHost(), NodeName: state.GetNodename(),
		Facts: schedule.ParseFacts(hoststate.FactTexts(state)),
	}
	if providers := state.GetProviders(); len(providers) > 0 {
		for _, i := range providers[0].GetInventories() {
			switch i.GetResourceClass() {
			case "VCPU":
				host.View.CPURatio = i.GetAllocationRatio()
			case "MEMORY_MB":
				host.View.RAMRatio = i.GetAllocationRatio()
			}
		}
	}
	e := schedule.NewTable().Edit()
	e.PutHost(host)
	return &hardware{id: id, table: e.Table()}
}

// judge says why an instance does not find its NUMA cells and devices besides those that
// others hold; ok when it does.
func (h *hardware) judge(guest schedule.GuestCheck, held []schedule.GuestCheck) (agentv1.Verdict_Reason, string) {
	others := make([]*schedule.NovaRequest, len(held))
	for i := range held {
		others[i] = held[i].Nova
	}
	e := h.table.Edit()
	e.SetGuests(h.id, others)
	switch filter := e.Table().JudgeGuests(h.id, []schedule.GuestCheck{guest})[0]; filter {
	case "":
		return ok, ""
	case schedule.PCIFilter:
		return agentv1.Verdict_NO_PCI, "the devices asked for are not free"
	default:
		return agentv1.Verdict_NO_NUMA, "no NUMA cells for the instance are free"
	}
}

// guestOf reads what an instance takes of its host's hardware; the zero check for nothing.
func guestOf(b []byte) (schedule.GuestCheck, error) {
	if len(b) == 0 {
		return schedule.GuestCheck{}, nil
	}
	m := &cellv1.Guest{}
	if err := proto.Unmarshal(b, m); err != nil {
		return schedule.GuestCheck{}, err
	}
	var r proposing.Fields
	check := schedule.GuestCheck{Nova: r.Guest(m), NUMA: m.GetJudgeNuma(), PCI: m.GetJudgePci()}
	return check, r.Err()
}
