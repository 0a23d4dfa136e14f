package main

import (
	"fmt"
	"time"

	"cellgate/gateway"
	"cellgate/gateway/legacy"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// reported compares what agents report of their hosts with the rows: while the gate is
// SHADOW it waits for those that differ. Once it is NATIVE the agents' word counts, and
// the rows may say what nobody goes by any more.
func (u *upgrade) reported(x *legacy.Snapshot) {
	if !u.heard {
		return
	}
	status, waits := unhealthy, "the gate waits for them in SHADOW: "
	if u.native {
		status, waits = warned, "the cell is NATIVE, and goes by what the agents report: "
	}
	down := u.conf.ServiceDownTime
	if down == 0 {
		down = time.Minute
	}
	quiet := map[int64]bool{}
	for i := range x.Services {
		quiet[x.Services[i].ID] = silence(&x.Services[i], x.At, down) != ""
	}
	var names, capacity, aggregates, hypervisors, unread []diagnosis
	agents, known := 0, 0
	for i := range x.Hosts {
		row := &x.Hosts[i]
		h := u.agents[row.UUID.String()]
		if h == nil || h.GetImported() || h.GetAgentVersion() == 0 || quiet[row.ServiceID] {
			continue
		}
		agents++
		check := "host " + row.ServiceHost
		if d := gateway.NamesDifference(&row.Host, h.GetServiceHost(), h.GetNodename()); d != "" {
			names = append(names, diagnosis{Check: check, What: d})
		}
		if of := u.hypervisors[h.GetHostUuid()]; of != nil {
			known++
			holds, other := gateway.HypervisorDifference(&row.Host, of, gateway.Supported(of.GetSupportedInstances()), u.read)
			if holds != "" {
				hypervisors = append(hypervisors, diagnosis{Check: check, What: holds})
			}
			if other != "" {
				unread = append(unread, diagnosis{Check: check, What: other})
			}
		}
		if d := gateway.CapacityDifference(&row.View, classesOf(h)); d != "" {
			capacity = append(capacity, diagnosis{Check: check, What: d})
		}
		if d := gateway.AggregatesDifference(row.Aggregates, h.GetAggregates()); x.HasAggregates && d != "" {
			aggregates = append(aggregates, diagnosis{Check: check, What: d})
		}
	}
	u.differ("names", status, agents, names, waits+
		"give the agents' files (agent.host) service_host and nodename as the rows have them (openstack compute service list, openstack hypervisor list), remove host.json of their state_dir where service_host changes, and restart the agents")
	const say = "give the agents' files (agent.host) the row's hypervisor_type, hypervisor_version and supported_instances, and SIGHUP the agents"
	u.differ("hypervisors", status, known, hypervisors, waits+say)
	if len(unread) > 0 {
		u.differ("hypervisors, unread", warned, known, unread, "no filter in force reads it, and it holds nothing. To have it the same, "+say)
	}
	if known < agents {
		u.say("hypervisors", warned, fmt.Sprintf("of %s are not compared: the cell does not say what their agents report", counted(agents-known, "host")), "upgrade the cell's scheduler")
	}
	u.differ("capacity", status, agents, capacity, waits+
		"give the agents' files (agent.host) the cpu_, ram_ and disk_allocation_ratio, cpu_shared_set and reserved_host_* of the computes' nova.conf, and SIGHUP the agents")
	u.differ("aggregates of agents", status, agents, aggregates, waits+
		"give each agent's file (agent.host.aggregates) the aggregates that its host is in, with uuid and metadata as openstack aggregate show has them, and SIGHUP the agent")
	if !x.HasAggregates {
		u.say("aggregates of agents", warned, "are not compared: the entry of gateway.legacy has no api", "set api, so that the aggregates are read")
	}
}

// differ says of how many hosts a kind differs, with the first one, and names the others.
func (u *upgrade) differ(check, status string, of int, all []diagnosis, do string) {
	if len(all) == 0 {
		if of > 0 {
			u.doctor.ok(u.conf.Cell+" "+check, "every agent reports what Nova's rows say, on %s", counted(of, "host"))
		}
		return
	}
	what := fmt.Sprintf("%d of %s with an agent differ from their rows; %s: %s", len(all), counted(of, "host"), all[0].Check, all[0].What)
	u.say(check, status, what, do)
	for i := range all {
		all[i].Do = do
	}
	u.each(check, noted, all[1:])
}

// classesOf gives what a host's root provider has.
func classesOf(h *cellgatev1.Host) (out []gateway.ReportedClass) {
	for _, i := range h.GetInventories() {
		if i.GetProviderUuid() == h.GetHostUuid() {
			out = append(out, gateway.ReportedClass{
				Class: i.GetResourceClass(), Total: int64(i.GetTotal()), Reserved: int64(i.GetReserved()), Ratio: i.GetAllocationRatio(),
			})
		}
	}
	return out
}
