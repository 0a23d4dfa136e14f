package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/legacy"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// unknownInstances tells how many hosts have agents that do not know their instances: for
// them Nova's tables say which are there, and nobody once the cell is out of
// gateway.legacy.
func (u *upgrade) unknownInstances() {
	const most = 3
	var unknown []*cellgatev1.Host
	for _, h := range u.agents {
		if h.GetInstancesUnknown() {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) == 0 {
		return
	}
	slices.SortFunc(unknown, func(a, b *cellgatev1.Host) int {
		return cmp.Or(cmp.Compare(a.GetServiceHost(), b.GetServiceHost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()))
	})
	var names []string
	for _, h := range unknown[:min(len(unknown), most)] {
		names = append(names, h.GetServiceHost())
	}
	if len(unknown) > most {
		names = append(names, "…")
	}
	have := "has an agent that does not know its instances"
	if len(unknown) > 1 {
		have = "have agents that do not know their instances"
	}
	u.say("instances of agents", warned,
		fmt.Sprintf("%s %s: a gateway adopts and releases their claims by Nova's rows, NATIVE too, and stops when the cell is taken out of gateway.legacy: %s", counted(len(unknown), "host"), have, strings.Join(names, ", ")),
		"leave the cell in gateway.legacy, and a gateway running; or give each of these agents an instances_dir with a file for every instance of its host first")
}

// rowless names the hosts of the shard that no row is of: those whose rows are gone, while
// claims are on them, and those whose agents say another uuid than nova-compute does.
// Rows that are no hosts are told of elsewhere.
func (u *upgrade) rowless(x *legacy.Snapshot) {
	known, rows := map[string]bool{}, map[[2]string]string{}
	for i := range x.Hosts {
		id := x.Hosts[i].UUID.String()
		known[id], rows[[2]string{x.Hosts[i].ServiceHost, x.Hosts[i].NodeName}] = true, id
	}
	for i := range x.LeftOut {
		known[x.LeftOut[i].UUID] = true
	}
	var gone, strange, harmless []diagnosis
	for _, id := range slices.Sorted(maps.Keys(u.agents)) {
		h := u.agents[id]
		now := rows[[2]string{h.GetServiceHost(), h.GetNodename()}]
		switch {
		case known[id]:
		case h.GetAgentVersion() > 0 && !h.GetImported():
			d := u.stranger(h, now)
			if h.GetUp() && h.GetEnabled() && !withheldByOperator(h.GetAdmin()) {
				strange = append(strange, d)
			} else {
				d.What += "; it is not up, or out of service, and takes no new instance as long as that stays so"
				harmless = append(harmless, d)
			}
		case h.GetInstances() > 0 && now != "":
			gone = append(gone, diagnosis{
				Check: "gone " + h.GetServiceHost(), What: fmt.Sprintf("compute node %s was registered again as %s, and has %s still", id, now, counted(int(h.GetInstances()), "claim")),
				Do: "wait while a gateway with this gateway.legacy runs, and the cell is not NATIVE: the claims of its instances go to " + now + ", and what the row has in use is reserved there before; claims that stay are of requests whose instances never came (cellgate claims list --host " + id + "): release them. Its instances need nothing",
			})
		case h.GetInstances() > 0:
			gone = append(gone, diagnosis{
				Check: "gone " + h.GetServiceHost(), What: fmt.Sprintf("has no row in compute_nodes any more, and %s: it is disabled, without capacity (%s)", counted(int(h.GetInstances()), "claim"), h.GetDisabledReason()),
				Do: "see where their instances are: delete or evacuate them, and release the claims (cellgate claims list --host " + id + "); or bring the row back",
			})
		}
	}
	u.each("agents without a row", unhealthy, strange)
	u.each("agents without a row", warned, harmless)
	u.each("gone hosts", warned, gone)
}

// stranger says of a host that an agent registered what it does without a row: nothing but
// its agent knows of it. now is the compute node whose row has its names, empty for none.
func (u *upgrade) stranger(h *cellgatev1.Host, now string) diagnosis {
	id := h.GetHostUuid()
	what := "has registered compute node " + id + ", of which there is no row in compute_nodes: "
	switch {
	case h.GetAdmin().GetNova() != "":
		what += "it counts as disabled in Nova, and gets no new instance, as long as the cell is in gateway.legacy"
	case u.native:
		what += "it is a host of its own, with all that its machine has, and gets instances under a uuid that Nova does not know, until a gateway that reads the rows says so"
	default:
		what += "no request finds it while the rows answer; a gateway that reads them makes it count as disabled"
	}
	if now != "" {
		what += "; the row of that machine is compute node " + now + ": what is in use there does not count here"
	}
	return diagnosis{
		Check: "agent of " + h.GetServiceHost(), What: what,
		Do: "stop the agent, and give it the uuid that its nova-compute has (agent.host.uuid_file: Nova's compute_id) before it starts again. Where it is a new compute, start nova-compute, which makes the row. What stays of a host with the wrong uuid keep out of service for good (cellgate hosts disable " + id + " --reason 'no row')",
	}
}

// withheldByOperator reports whether an operator of cellgate keeps new instances from a host.
func withheldByOperator(a *cellgatev1.HostAdmin) bool {
	return a.GetState() != cellgatev1.HostAdmin_STATE_UNSPECIFIED && a.GetState() != cellgatev1.HostAdmin_ENABLED
}
