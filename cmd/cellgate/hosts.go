package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newHosts(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hosts [HOST]",
		Short: "Show the hosts of all cells, take them out of service, make them report anew",
		Long:  "Show the hosts of all cells, or one with all that is known of it. HOST is a uuid, or the\nname of a host. \"-o wide\" shows uuids, aggregates, other resources, who speaks for a host and when\nits last report or import was, in a list.",
		Example: `  cellgate hosts --cell cell1 --zone az1 --limit 20
  cellgate hosts --trait CUSTOM_GOLD -o json
  cellgate hosts resync --cell cell1 --reason "the table differs from the host"
  cellgate hosts facts 710c6178-bcf9-40bc-9303-112cd17ef687
  cellgate hosts maintenance cell1-r01-h001 --for 2h --reason "a kernel"`,
		Args: usageArgs(oneArgOr),
	}
	c := newClient(cmd, t)
	cmd.AddCommand(newResync(c))
	var req cellgatev1.ListHostsRequest
	f := cmd.Flags()
	f.StringVar(&req.Cell, "cell", "", "hosts of this cell")
	f.StringVar(&req.AvailabilityZone, "zone", "", "hosts in this availability zone")
	f.StringVar(&req.NameContains, "name", "", "hosts with this in their name")
	f.StringVar(&req.Trait, "trait", "", "hosts with this trait")
	limit := listFlags(cmd, "hosts")
	watchFlag(cmd)
	cmd.AddCommand(newHostsFacts(t))
	cmd.AddCommand(newHostsAdmin(t)...)
	cmd.AddCommand(newHostsDelete(t))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.GetHost, &cellgatev1.GetHostRequest{HostUuid: args[0]}, showHost)
		}
		return list(c, cmd, limit, "hosts", cellgatev1.NewHostsClient, cellgatev1.HostsClient.ListHosts, &req, showHosts)
	}
	return cmd
}

func showHosts(p *page, m *cellgatev1.ListHostsResponse) {
	if len(m.GetHosts()) == 0 {
		nothing(p, "hosts", m.GetUnavailableCells())
		return
	}
	t := p.table("HOST", "CELL", "ZONE", "STATE", "INSTANCES", "VCPU", "MEMORY GIB", "DISK GIB", "+SOURCE", "+HEARD", "+OTHER", "+AGGREGATES", "+UUID")
	for _, h := range m.GetHosts() {
		var r resources
		for _, i := range h.GetInventories() {
			r.add(i.GetResourceClass(), int64(i.GetUsed()), capacity(i))
		}
		t.row(h.GetServiceHost(), h.GetCell(), h.GetAvailabilityZone(), hostState(h), h.GetInstances(), r.cpu, r.memory, r.disk,
			source(h), reportAge(h), strings.Join(r.other, ", "), joined(h.GetAggregates(), (*cellgatev1.HostAggregate).GetName, ","), h.GetHostUuid())
	}
	t.print()
	footer(p, "hosts", len(m.GetHosts()), m.GetNextPageToken() != "", m.GetUnavailableCells())
}

// source gives, for lists, who speaks for a host; hostSource says more.
func source(h *cellgatev1.Host) string {
	switch {
	case h.GetPlacementTree():
		return "Nova's tables, Placement's API"
	case h.GetImported():
		return "Nova's tables"
	}
	return "agent"
}

// reportAge says how long ago a host's agent reported, or the gateway imported Nova's tables; "-" for
// never since the replica started. Placement's API has no age: computes write to it when something
// changes.
func reportAge(h *cellgatev1.Host) string {
	at := h.GetLastSeenAt()
	if h.GetImported() {
		at = h.GetImportedAt()
	}
	if at == nil {
		return "-"
	}
	return age(time.Now(), at.AsTime())
}

// capacity gives Placement's capacity: (total - reserved) * allocation_ratio, rounded down.
func capacity(i *cellgatev1.HostInventory) int64 {
	return int64(float64(i.GetTotal()-i.GetReserved()) * i.GetAllocationRatio())
}

// hostState names a host's state, and marks a host whose newest state the cell refuses.
func hostState(h *cellgatev1.Host) string {
	if h.GetRefused() != nil {
		return knownState(h) + " (newer state refused)"
	}
	return knownState(h)
}

func knownState(h *cellgatev1.Host) string {
	switch admin := adminText(h.GetAdmin()); {
	case admin != "" && h.GetImported():
		return admin + " (imported)"
	case admin != "" && !h.GetUp() && h.GetAdmin().GetState() != cellgatev1.HostAdmin_FORCED_DOWN && h.GetAdmin().GetNova() == "":
		return admin + " (down)"
	case admin != "":
		return admin
	case !h.GetEnabled() && h.GetDisabledReason() != "":
		return "disabled: " + h.GetDisabledReason()
	case !h.GetEnabled():
		return "disabled"
	case h.GetImported() && !h.GetUp():
		return "down (imported)"
	case h.GetImported():
		return "up (imported)"
	case !h.GetUp():
		return "down"
	}
	return "up"
}

// refusedLine says on a line what the cell refuses of a host; "" for nothing.
func refusedLine(h *cellgatev1.Host) string {
	r := h.GetRefused()
	if r == nil {
		return ""
	}
	then := "its heartbeats do not keep it up meanwhile"
	switch {
	case r.GetStays() && !h.GetUp():
		then = "its last accepted state is shown; the host is down since its agent does not confirm that state in heartbeats"
	case r.GetStays():
		then = "it stays up on its last accepted state, which is shown"
	}
	return fmt.Sprintf("its newer state, version %d, is refused since %s: %s; %s\n", r.GetVersion(), timeText(r.GetSince()), strings.Join(r.GetProblems(), ", "), then)
}

// hostSource says in full who speaks for a host.
func hostSource(h *cellgatev1.Host) string {
	text := fmt.Sprintf("agent version %d", h.GetAgentVersion())
	if h.GetImported() {
		text = "imported from Nova's tables"
	}
	if at := reportAge(h); at != "-" {
		text += ", " + at
	}
	if !h.GetImported() {
		return text
	}
	if h.GetPlacementTree() {
		text += "; Placement's API reports its providers"
	}
	if h.GetAgentVersion() > 0 {
		return fmt.Sprintf("%s; agent version %d reports it too", text, h.GetAgentVersion())
	}
	return text + ", no agent reports it"
}

// shortUUID is how many characters of a child provider's uuid a table shows that is not wide.
const shortUUID = 8

// showHost prints one host in full.
func showHost(p *page, m *cellgatev1.GetHostResponse) {
	h := m.GetHost()
	showHosts(p, &cellgatev1.ListHostsResponse{Hosts: []*cellgatev1.Host{h}})
	p.printf("\nuuid %s, node %s\ngeneration %d, %s\n%s%s",
		h.GetHostUuid(), h.GetNodename(), h.GetGeneration(), hostSource(h), adminLine(h.GetAdmin()), refusedLine(h))
	p.labelled("aggregates", joined(h.GetAggregates(), (*cellgatev1.HostAggregate).GetName, ", "))
	p.labelled("traits", strings.Join(h.GetTraits(), " "))
	// Whatever Nova's tables have in use beside instances counts as in use for everybody.
	t := p.table("RESOURCE CLASS", "TOTAL", "RESERVED", "RATIO", "CAPACITY", "USED", "MIN", "MAX", "STEP", "PROVIDER")
	for _, i := range h.GetInventories() {
		provider := i.GetProviderUuid()
		switch {
		case provider == h.GetHostUuid():
			provider = "the host"
		case !p.wide && len(provider) > shortUUID:
			provider = provider[:shortUUID] + "…"
		}
		t.row(i.GetResourceClass(), i.GetTotal(), i.GetReserved(), i.GetAllocationRatio(), capacity(i), i.GetUsed()+i.GetUnaccounted(),
			i.GetMinUnit(), i.GetMaxUnit(), i.GetStepSize(), provider)
	}
	t.printBelow()
	showHardware(p, h)
}
