package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cellgate/agent/hostprobe"
	"cellgate/internal/config"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// printHost prints what an agent would report of this machine. It changes nothing.
func printHost(cmd *cobra.Command, c config.Agent, form string) error {
	report, id, err := readHost(c)
	if err != nil {
		return err
	}
	for _, n := range report.Notes {
		if _, err := fmt.Fprintln(cmd.ErrOrStderr(), "note: "+n); err != nil {
			return err
		}
	}
	if form == "json" {
		return printMessage(cmd.OutOrStdout(), report.State, "json")
	}
	return show(cmd.OutOrStdout(), func(p *page) { showReport(p, report, id.New) })
}

// readHost reads this machine once, and gives every error that keeps an agent from doing so.
func readHost(c config.Agent) (*hostprobe.Report, *hostprobe.Identity, error) {
	var s startup
	id, err := hostprobe.LookUpIdentity(identityOf(c.Host))
	s.add(err)
	cfg, err := hostConfig(c)
	s.add(err)
	uuid := anyUUID
	if id != nil {
		uuid = id.UUID
	}
	read := hostprobe.ThisMachine()
	report, err := hostprobe.Read(uuid, cfg, read.Read)
	s.add(err)
	return report, id, s.err()
}

func showReport(p *page, r *hostprobe.Report, isNew bool) {
	p.width = pageWidth
	s := r.State
	uuid := s.GetHostUuid()
	if isNew {
		uuid = "made at the first start"
	}
	state := "enabled"
	if s.GetDisabled() {
		state = strings.TrimSuffix("disabled: "+s.GetDisabledReason(), ": ")
	}
	f := p.table("FIELD", "VALUE")
	f.row("service host", s.GetServiceHost())
	f.row("node", s.GetNodename())
	f.row("uuid", uuid)
	f.row("cell", s.GetCell())
	f.row("state", state)
	f.row("address", s.GetHostIp())
	f.row("hypervisor", strings.TrimSpace(fmt.Sprintf("%s %s", s.GetHypervisorType(), versionOf(s.GetHypervisorVersion()))))
	f.row("runs", s.GetFacts().GetSupportedInstances())
	f.row("cpu", r.CPU)
	f.row("traits", strings.Join(s.GetProviders()[0].GetTraits(), " "))
	f.row("aggregates", joined(s.GetAggregates(), (*agentv1.Aggregate).GetName, " "))
	if s.GetInstancesUnknown() {
		f.row("instances", "not known: no agent.host.instances_dir")
	} else {
		f.row("instances", len(s.GetInstances()))
	}
	f.print()
	i := p.table("RESOURCE CLASS", "TOTAL", "RESERVED", "RATIO", "CAPACITY", "MAX UNIT")
	for _, v := range s.GetProviders()[0].GetInventories() {
		i.row(v.GetResourceClass(), v.GetTotal(), v.GetReserved(), v.GetAllocationRatio(),
			int64(float64(v.GetTotal()-v.GetReserved())*v.GetAllocationRatio()), v.GetMaxUnit())
	}
	i.printBelow()
	n := p.table("NUMA NODE", "SOCKET", "CPUS FOR VCPU", "TO PIN TO", "PINNED", "MEMORY MIB", "USED", "PAGES")
	for _, v := range r.Nodes {
		n.row(v.ID, v.Socket, v.Shared, v.Dedicated, v.Pinned, v.MemoryMB, v.UsedMB, strings.Join(v.Pages, ", "))
	}
	n.printBelow()
	d := p.table("FREE DEVICES", "VENDOR", "PRODUCT", "NUMA NODE", "TAGS")
	for _, v := range r.Pools {
		d.row(v.Free, v.VendorID, v.ProductID, v.NUMANode, strings.Join(v.Tags, " "))
	}
	d.printBelow()
}

// versionOf writes a version from Nova's number of it: 8002002 is 8.2.2.
func versionOf(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", n/1_000_000, n/1000%1000, n%1000)
}
