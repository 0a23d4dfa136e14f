package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// isAgents reports whether the host has an agent, even if Nova's tables speak for it.
func isAgents(h *cellgatev1.Host) bool { return h.GetAgentVersion() > 0 }

// checkServices names the services that are older than required.
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
		do, why := "upgrade nova-compute there, and start an agent beside it", u.silence(s)
		switch {
		case own != nil:
			do = "upgrade nova-compute there"
		case s.Host == "":
			do = deleteService(s)
		}
		if why == "" {
			old = append(old, diagnose(unhealthy, what, do).named("host "+s.Name())...)
			continue
		}
		if !own.GetUp() {
			do = deleteService(s) + ", if it is gone for good; it blocks the gate again once it is up"
		}
		silent = append(silent, diagnose(warned, what+"; it does not block the gate: "+why, do).named("host "+s.Name())...)
	}
	if len(old) == 0 {
		silent = append(silent, good("every one that counts is of version %d or above", required)...)
	}
	return append(old, silent...)
}

func deleteService(s *novadb.Service) string {
	return "openstack compute service delete " + cmp.Or(s.UUID, fmt.Sprint(s.ID))
}

// age writes how long before now something was seen.
func age(now, seen time.Time) string {
	switch d := now.Sub(seen); {
	case seen.IsZero():
		return "never"
	case d > 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	case d > time.Minute:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s") + " ago"
	default:
		return max(d, 0).Round(time.Second).String() + " ago"
	}
}

// agentOf names the agent of a service host. It gives the host too, if its agent reports it.
func (u *upgrade) agentOf(serviceHost string) (text string, own *cellgatev1.Host) {
	for _, h := range u.hosts {
		if h.GetServiceHost() == serviceHost && isAgents(h) {
			return fmt.Sprintf("version %d", h.GetAgentVersion()), h
		}
	}
	if !u.listed {
		return "unknown", nil
	}
	return "none", nil
}

// checkServicesWithoutRows names the services that block the gate because no row of compute_nodes that
// is a host names them. checkLeftOut reports the rows that stand in the way.
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
		if has[s.ID] || s.Disabled || u.isTooOld(s) || u.silence(s) != "" {
			continue
		}
		what := "has no row in compute_nodes"
		do := "see its log for why its resource tracker writes none, and restart it; a nova-compute that is to have none (Ironic's, without a node of its own) does not block the gate once it is disabled: openstack compute service set --disable " + s.Host + " nova-compute"
		switch l := rows[strings.ToLower(s.Host)]; {
		case s.Host == "":
			do = deleteService(s)
		case l != nil && remedies[l.Reason].status == unhealthy:
			continue
		case l != nil:
			what, do = fmt.Sprintf("none of its rows in compute_nodes is a host (row %d: %s)", l.NodeID, l.Reason), remedies[l.Reason].do
		}
		out = append(out, diagnose(unhealthy, "its nova-compute is enabled and up, and "+what+": no request finds it, and the gate waits for it", do).named("host "+s.Name())...)
	}
	return out
}

// checkAgents names the hosts that no agent has registered. checkServices also reports those whose
// nova-compute is too old.
func checkAgents(u *upgrade) results {
	if !u.listed {
		return nil
	}
	services := map[int64]*novadb.Service{}
	for i := range u.rows.Services {
		services[u.rows.Services[i].ID] = &u.rows.Services[i]
	}
	var without, silent results
	up, enabled, old := 0, 0, 0
	for i := range u.rows.Hosts {
		h := &u.rows.Hosts[i]
		if h.Disabled {
			continue
		}
		enabled++
		s := services[h.ServiceID]
		why := u.silence(s)
		if why == "" {
			up++
		}
		if isAgents(u.byUUID[h.UUID.String()]) {
			continue
		}
		what := "no agent reports compute node " + h.UUID.String() + ": Nova's rows speak for it, and the gate waits"
		name, do := "host "+h.ServiceHost, "start its agent with this cell's replicas: "+strings.Join(u.cell.Replicas, ", ")
		switch {
		case u.isTooOld(s):
			old++
		case why != "":
			silent = append(silent, diagnose(warned, what+"; it does not block the gate: "+why, do).named(name)...)
		default:
			without = append(without, diagnose(unhealthy, what, do).named(name)...)
		}
	}
	if len(without)+len(silent)+old > 0 {
		return append(without, silent...)
	}
	text := counted(up, "enabled host")
	if up < enabled {
		text += " that are up"
	}
	return good("have registered all of %s", text)
}

// checkDifferences names what agents report of their hosts differently from the rows.
func checkDifferences(u *upgrade) (out results) {
	n := int(u.gate.GetDifferingHosts())
	switch {
	case n == 0 && u.gate.GetState() == cellgatev1.Gate_SHADOW:
		return good("every agent that reports agrees with Nova's rows")
	case n == 0:
		return nil
	}
	out = diagnose(unhealthy, counted(n, "host")+" with an agent that does not report what Nova's rows say; the gate waits for them in SHADOW", "see the lines below")
	for _, d := range u.gate.GetHostDifferences() {
		out = append(out, diagnose(unhealthy, d.GetDetail(), differenceRemedies[d.GetKind()]).named("host "+d.GetHost())...)
	}
	return out
}

var differenceRemedies = map[cellgatev1.HostDifference_Kind]string{
	cellgatev1.HostDifference_NAMES:      "give the agent's file (agent.host) service_host and nodename as the row has them (openstack compute service list, openstack hypervisor list), remove host.json of its state_dir where service_host changes, and restart the agent",
	cellgatev1.HostDifference_HYPERVISOR: "give the agent's file (agent.host) the row's hypervisor_type, hypervisor_version and supported_instances, and SIGHUP the agent",
	cellgatev1.HostDifference_CAPACITY:   "give the agent's file (agent.host) the cpu_shared_set and reserved_host_* of the compute's nova.conf, and SIGHUP the agent; confirm or revert resizes (openstack server list --all-projects --status VERIFY_RESIZE) and migrations",
	cellgatev1.HostDifference_INSTANCES:  "complete the agent's instances_dir, or leave that empty and restart the agent: Nova's rows say then which instances there are; delete rows of instances that are gone",
}

// unknownHosts calls each with the shard's hosts that have no row. now is the compute node whose row
// has the host's names, or empty. checkLeftOut reports rows that are no hosts.
func (u *upgrade) unknownHosts(each func(h *cellgatev1.Host, now string)) {
	known, rows := map[string]bool{}, map[[2]string]string{}
	for i := range u.rows.Hosts {
		h, id := &u.rows.Hosts[i], u.rows.Hosts[i].UUID.String()
		known[id], rows[[2]string{h.ServiceHost, h.NodeName}] = true, id
	}
	for i := range u.rows.LeftOut {
		known[u.rows.LeftOut[i].UUID] = true
	}
	for _, h := range u.hosts {
		if !known[h.GetHostUuid()] {
			each(h, rows[[2]string{h.GetServiceHost(), h.GetNodename()}])
		}
	}
}

// checkGoneHosts names hosts whose rows are gone while they still have claims.
func checkGoneHosts(u *upgrade) (out results) {
	u.unknownHosts(func(h *cellgatev1.Host, now string) {
		id, claims := h.GetHostUuid(), counted(int(h.GetInstances()), "claim")
		what := fmt.Sprintf("has no row in compute_nodes any more, and %s: it is disabled, without capacity (%s)", claims, h.GetDisabledReason())
		do := "see where their instances are: delete or evacuate them, and release the claims (cellgate claims list --host " + id + "); or bring the row back"
		if now != "" {
			what = fmt.Sprintf("compute node %s was registered again as %s, and has %s still", id, now, claims)
			do = "wait while a gateway with this gateway.legacy runs, and the cell is not NATIVE: the claims of its instances go to " + now + ", and what the row has in use is reserved there before; claims that stay are of requests whose instances never came (cellgate claims list --host " + id + "): release them. Its instances need nothing"
		}
		if !isAgents(h) && h.GetInstances() > 0 {
			out = append(out, diagnose(warned, what, do).named("gone "+h.GetServiceHost())...)
		}
	})
	return out
}

// checkAgentsWithoutRows names hosts whose agents report another uuid than nova-compute. Only the agent
// knows of such a host.
func checkAgentsWithoutRows(u *upgrade) (out results) {
	u.unknownHosts(func(h *cellgatev1.Host, now string) {
		if !isAgents(h) {
			return
		}
		id, status, state := h.GetHostUuid(), unhealthy, h.GetAdmin().GetState()
		what := "it is a host of its own, with all that its machine has, and gets instances under a uuid that Nova does not know, until a gateway that reads the rows says so"
		if h.GetAdmin().GetNova() != "" {
			what = "it counts as disabled in Nova, and gets no new instance, as long as the cell is in gateway.legacy"
		}
		what = "has registered compute node " + id + ", of which there is no row in compute_nodes: " + what
		if now != "" {
			what += "; the row of that machine is compute node " + now + ": what is in use there does not count here"
		}
		if !h.GetUp() || !h.GetEnabled() || state != cellgatev1.HostAdmin_STATE_UNSPECIFIED && state != cellgatev1.HostAdmin_ENABLED {
			status = warned
			what += "; it is not up, or out of service, and takes no new instance as long as that stays so"
		}
		out = append(out, diagnose(status, what, "stop the agent, and give it the uuid that its nova-compute has (agent.host.uuid_file: Nova's compute_id) before it starts again. Where it is a new compute, start nova-compute, which makes the row. What stays of a host with the wrong uuid keep out of service for good (cellgate hosts disable "+id+" --reason 'no row')").named("agent of "+h.GetServiceHost())...)
	})
	return out
}
