package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/legacy/novadb"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// isAgents reports whether an agent reports a host, whoever speaks for it.
func isAgents(h *cellgatev1.Host) bool { return h.GetAgentVersion() > 0 }

// checkServices names those that are older than required.
func checkServices(u *upgrade) results {
	required := int64(u.conf.RequiredVersion)
	if required == 0 {
		return diagnose(warned, "required_version is not set: the gate never opens", "set required_version in gateway.legacy to the version that the upgraded nova-compute reports (SELECT max(version) FROM services)")
	}
	var old, silent results
	for i := range u.rows.Services {
		s := &u.rows.Services[i]
		if s.Version >= required {
			continue
		}
		agents, own := u.agentOf(s.Host)
		what := fmt.Sprintf("nova-compute is of version %d, %d is required; agent %s; last seen %s", s.Version, required, agents, age(u.rows.At, s.LastSeenUp))
		do := "upgrade nova-compute there, and start an agent beside it"
		if s.Host == "" {
			do = deleteService(s)
		}
		if own != nil {
			do = "upgrade nova-compute there"
		}
		why := u.silent[s.ID]
		if why == "" {
			old = append(old, diagnose(unhealthy, what, do).named("host "+s.Name())...)
			continue
		}
		if !own.GetUp() {
			do = deleteService(s) + ", if it is gone for good; it holds the gate again once it is up"
		}
		silent = append(silent, diagnose(warned, what+"; it does not hold the gate: "+why, do).named("host "+s.Name())...)
	}
	out := append(old, silent...).in("services")
	if len(old) == 0 {
		out = append(out, good("every one that counts is of version %d or above", required)...)
	}
	if u.deleted > 0 {
		out = append(out, diagnose(noted, counted(u.deleted, "deleted row")+" of old services: Nova's own gate would have waited for them for ever (bug 1668310), this one does not count them", "")...)
	}
	return out
}

func deleteService(s *novadb.Service) string {
	return "openstack compute service delete " + cmp.Or(s.UUID, fmt.Sprint(s.ID))
}

// agentOf says which agent a service host has, and gives the host if it is its agent's.
func (u *upgrade) agentOf(serviceHost string) (text string, own *cellgatev1.Host) {
	if !u.listed {
		return "unknown", nil
	}
	text = "none"
	for _, h := range u.hosts {
		if h.GetServiceHost() == serviceHost && isAgents(h) {
			return fmt.Sprintf("version %d", h.GetAgentVersion()), h
		}
	}
	return text, nil
}

// checkServicesWithoutRows names the services that hold the gate because no row of compute_nodes,
// or none that is a host, is theirs. checkLeftOut reports the rows that stand in the way.
func checkServicesWithoutRows(u *upgrade) (out results) {
	has, rows := map[int64]bool{}, map[string]*novadb.LeftOut{}
	for i := range u.rows.Hosts {
		has[u.rows.Hosts[i].ServiceID] = true
	}
	for i := range u.rows.LeftOut {
		if l, host := &u.rows.LeftOut[i], strings.ToLower(u.rows.LeftOut[i].Host); rows[host] == nil || remedies[l.Reason].status == unhealthy {
			rows[host] = l
		}
	}
	for i := range u.rows.Services {
		s := &u.rows.Services[i]
		if has[s.ID] || s.Disabled || u.tooOld[s.Name()] || u.silent[s.ID] != "" {
			continue
		}
		what := "has no row in compute_nodes"
		do := "see its log for why its resource tracker writes none, and restart it; a nova-compute that is to have none (Ironic's, without a node of its own) does not hold the gate once it is disabled: openstack compute service set --disable " + s.Host + " nova-compute"
		l := rows[strings.ToLower(s.Host)]
		switch {
		case s.Host == "":
			do = deleteService(s)
		case l != nil && remedies[l.Reason].status == unhealthy:
			continue
		case l != nil:
			what, do = fmt.Sprintf("none of its rows in compute_nodes is a host (row %d: %s)", l.NodeID, l.Reason), remedyOf(l)
		}
		out = append(out, diagnose(unhealthy, "its nova-compute is enabled and up, and "+what+": no request finds it, and the gate waits for it", do).named("host "+s.Name())...)
	}
	return out.in("nova-compute without a row")
}

// checkAgents names the hosts that no agent has registered. checkServices reports those whose
// nova-compute is too old as well.
func checkAgents(u *upgrade) results {
	var without, silent results
	up, enabled, old := 0, 0, 0
	for i := range u.rows.Hosts {
		h := &u.rows.Hosts[i]
		if h.Disabled {
			continue
		}
		enabled++
		why := u.silentHost[h.ServiceHost]
		if why == "" {
			up++
		}
		in := u.hosts[h.UUID.String()]
		if isAgents(in) {
			continue
		}
		if u.tooOld[h.ServiceHost] {
			old++
			continue
		}
		what := "no agent reports compute node " + h.UUID.String() + ": Nova's rows speak for it, and the gate waits"
		name, do := "host "+h.ServiceHost, "start its agent with this cell's replicas: "+strings.Join(u.cell.Replicas, ", ")
		if why != "" {
			silent = append(silent, diagnose(warned, what+"; it does not hold the gate: "+why, do).named(name)...)
		} else {
			without = append(without, diagnose(unhealthy, what, do).named(name)...)
		}
	}
	if len(without)+len(silent)+old > 0 {
		return append(without, silent...).in("agents")
	}
	text := counted(up, "enabled host")
	if up < enabled {
		text += " that are up"
	}
	return good("have registered all of %s", text)
}

// checkDifferences names what agents report of their hosts otherwise than the rows say.
func checkDifferences(u *upgrade) (out results) {
	n := int(u.gate.GetDifferingHosts())
	if n == 0 {
		if u.gate.GetState() == cellgatev1.Gate_SHADOW {
			return good("every agent that is heard reports what Nova's rows say")
		}
		return nil
	}
	for _, d := range u.gate.GetHostDifferences() {
		out = append(out, diagnose(unhealthy, d.GetDetail(), differenceRemedies[d.GetKind()]).named("host "+d.GetHost())...)
	}
	return append(diagnose(unhealthy, counted(n, "host")+" with an agent that does not report what Nova's rows say; the gate waits for them in SHADOW", "see the lines below"), out...)
}

var differenceRemedies = map[cellgatev1.HostDifference_Kind]string{
	cellgatev1.HostDifference_NAMES:      "give the agent's file (agent.host) service_host and nodename as the row has them (openstack compute service list, openstack hypervisor list), remove host.json of its state_dir where service_host changes, and restart the agent",
	cellgatev1.HostDifference_HYPERVISOR: "give the agent's file (agent.host) the row's hypervisor_type, hypervisor_version and supported_instances, and SIGHUP the agent",
	cellgatev1.HostDifference_CAPACITY:   "give the agent's file (agent.host) the cpu_shared_set and reserved_host_* of the compute's nova.conf, and SIGHUP the agent; confirm or revert resizes (openstack server list --all-projects --status VERIFY_RESIZE) and migrations",
	cellgatev1.HostDifference_INSTANCES:  "complete the agent's instances_dir, or leave that empty and restart the agent: Nova's rows say then which instances there are; delete rows of instances that are gone",
}

// checkOutOfService counts the hosts that Nova's services keep instances from.
func checkOutOfService(u *upgrade) results {
	disabled, forced, silent := 0, 0, 0
	for i := range u.rows.Services {
		switch s := &u.rows.Services[i]; {
		case s.ForcedDown:
			forced++
		case s.Disabled:
			disabled++
		case !u.rows.Up(s, u.rows.At, u.down):
			silent++
		}
	}
	n := disabled + forced + silent
	if n == 0 {
		return nil
	}
	return diagnose(noted, fmt.Sprintf("%s by Nova's services: %d disabled, %d forced down, of %d nova-compute is down. No new instance is placed there, in NATIVE either", counted(n, "host"), disabled, forced, silent),
		"openstack compute service set --enable or --up counts as long as gateway.legacy has the cell; afterwards cellgate hosts enable")
}

// checkHostsWithoutRows names the hosts of the shard that no row is of: those whose rows are gone,
// while claims are on them, and those whose agents say another uuid than nova-compute does.
// checkLeftOut reports rows that are no hosts.
func checkHostsWithoutRows(u *upgrade) results {
	known, rows := map[string]bool{}, map[[2]string]string{}
	for i := range u.rows.Hosts {
		id := u.rows.Hosts[i].UUID.String()
		known[id], rows[[2]string{u.rows.Hosts[i].ServiceHost, u.rows.Hosts[i].NodeName}] = true, id
	}
	for i := range u.rows.LeftOut {
		known[u.rows.LeftOut[i].UUID] = true
	}
	var agents, gone results
	for _, id := range slices.Sorted(maps.Keys(u.hosts)) {
		h := u.hosts[id]
		now := rows[[2]string{h.GetServiceHost(), h.GetNodename()}]
		claims := counted(int(h.GetInstances()), "claim")
		switch {
		case known[id]:
		case isAgents(h):
			agents = append(agents, u.agentWithoutRow(h, now)...)
		case h.GetInstances() == 0:
		case now != "":
			gone = append(gone, diagnose(warned, fmt.Sprintf("compute node %s was registered again as %s, and has %s still", id, now, claims),
				"wait while a gateway with this gateway.legacy runs, and the cell is not NATIVE: the claims of its instances go to "+now+", and what the row has in use is reserved there before; claims that stay are of requests whose instances never came (cellgate claims list --host "+id+"): release them. Its instances need nothing").named("gone "+h.GetServiceHost())...)
		default:
			gone = append(gone, diagnose(warned, fmt.Sprintf("has no row in compute_nodes any more, and %s: it is disabled, without capacity (%s)", claims, h.GetDisabledReason()),
				"see where their instances are: delete or evacuate them, and release the claims (cellgate claims list --host "+id+"); or bring the row back").named("gone "+h.GetServiceHost())...)
		}
	}
	return append(agents.in("agents without a row"), gone.in("gone hosts")...)
}

// agentWithoutRow says of a host that an agent registered what it does without a row: nothing but
// its agent knows of it. now is the compute node whose row has its names, empty for none.
func (u *upgrade) agentWithoutRow(h *cellgatev1.Host, now string) results {
	id := h.GetHostUuid()
	what := "has registered compute node " + id + ", of which there is no row in compute_nodes: "
	switch {
	case h.GetAdmin().GetNova() != "":
		what += "it counts as disabled in Nova, and gets no new instance, as long as the cell is in gateway.legacy"
	default:
		what += "it is a host of its own, with all that its machine has, and gets instances under a uuid that Nova does not know, until a gateway that reads the rows says so"
	}
	if now != "" {
		what += "; the row of that machine is compute node " + now + ": what is in use there does not count here"
	}
	status, state := unhealthy, h.GetAdmin().GetState()
	if !h.GetUp() || !h.GetEnabled() || state != cellgatev1.HostAdmin_STATE_UNSPECIFIED && state != cellgatev1.HostAdmin_ENABLED {
		status = warned
		what += "; it is not up, or out of service, and takes no new instance as long as that stays so"
	}
	return diagnose(status, what, "stop the agent, and give it the uuid that its nova-compute has (agent.host.uuid_file: Nova's compute_id) before it starts again. Where it is a new compute, start nova-compute, which makes the row. What stays of a host with the wrong uuid keep out of service for good (cellgate hosts disable "+id+" --reason 'no row')").named("agent of " + h.GetServiceHost())
}
