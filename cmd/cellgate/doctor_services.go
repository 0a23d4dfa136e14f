package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"cellgate/gateway/legacy"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// services names those that are older than required.
func (u *upgrade) services(x *legacy.Snapshot) {
	required := int64(u.conf.RequiredVersion)
	if required == 0 {
		u.say("services", warned, "required_version is not set: the gate never opens", "set required_version in gateway.legacy to the version that the upgraded nova-compute reports (SELECT max(version) FROM services)")
		return
	}
	down := u.conf.ServiceDownTime
	if down == 0 {
		down = time.Minute
	}
	var old, silent []diagnosis
	for i := range x.Services {
		s := &x.Services[i]
		if s.Version >= required {
			continue
		}
		kept := u.keptByAgent(s.Host)
		d := diagnosis{
			Check: "host " + s.Name(),
			What:  fmt.Sprintf("nova-compute is of version %d, %d is required; agent %s; last seen %s", s.Version, required, u.agentOf(s.Host), age(x.At, s.LastSeenUp)),
			Do:    "upgrade nova-compute there, and start an agent beside it",
		}
		if s.Host == "" {
			d.Do = deleteService(s)
		}
		if kept != nil {
			d.What += "; " + keptText(kept)
			d.Do = "upgrade nova-compute there, or stop its agent: no gateway imports the host's instances while that may be alive"
		}
		if why := silence(s, x.At, down); why != "" {
			d.What += "; it does not hold the gate: " + why
			if kept.GetUp() {
				silent = append(silent, d)
				continue
			}
			d.Do = deleteService(s) + ", if it is gone for good; it holds the gate again once it is up"
			silent = append(silent, d)
			continue
		}
		old = append(old, d)
		u.told[s.Name()] = true
	}
	u.each("services", unhealthy, old)
	u.each("services", warned, silent)
	if len(old) == 0 {
		u.doctor.ok(u.conf.Cell+" services", "every one that counts is of version %d or above", required)
	}
}

func deleteService(s *legacy.Service) string {
	return "openstack compute service delete " + cmp.Or(s.UUID, fmt.Sprint(s.ID))
}

// silence says why an old service does not hold the gate; "" when it does.
func silence(s *legacy.Service, now time.Time, down time.Duration) string {
	switch up := s.Up(now, down); {
	case s.ForcedDown:
		return "it is forced down"
	case up:
		return ""
	case s.Disabled:
		return "it is disabled and down"
	case s.LastSeenUp.IsZero() || now.Sub(s.LastSeenUp) >= 2*down:
		return "it is down for long"
	}
	return ""
}

func age(now, seen time.Time) string {
	if seen.IsZero() {
		return "never"
	}
	d := now.Sub(seen)
	switch {
	case d > 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	case d > time.Minute:
		return d.Round(time.Minute).String() + " ago"
	}
	return max(d, 0).Round(time.Second).String() + " ago"
}

// agentOf says what agents a service host has.
func (u *upgrade) agentOf(host string) string {
	if !u.heard {
		return "unknown"
	}
	for _, h := range u.agents {
		switch {
		case h.GetServiceHost() != host || h.GetAgentVersion() == 0:
		case h.GetImported():
			return fmt.Sprintf("none (taken back from version %d)", h.GetAgentVersion())
		default:
			return fmt.Sprintf("version %d", h.GetAgentVersion())
		}
	}
	return "none"
}

// keptByAgent gives a host of a service that is its agent's; nil when there is none.
func (u *upgrade) keptByAgent(host string) *cellgatev1.Host {
	for _, h := range u.agents {
		if h.GetServiceHost() == host && h.GetAgentVersion() > 0 && !h.GetImported() {
			return h
		}
	}
	return nil
}

// keptText says what comes of a host whose service is old, and which is its agent's.
func keptText(h *cellgatev1.Host) string {
	if h.GetUp() {
		return "the host is still its agent's, which is alive"
	}
	return "the host is still its agent's, which is silent: a gateway takes it back when that has lasted for the cell's service_down_time and half of it"
}

// registered names the hosts that no agent has registered, beside those whose nova-compute
// is too old as well.
func (u *upgrade) registered(x *legacy.Snapshot) {
	if !u.heard {
		return
	}
	down := u.conf.ServiceDownTime
	if down == 0 {
		down = time.Minute
	}
	quiet := map[string]string{}
	for i := range x.Services {
		quiet[x.Services[i].Host] = silence(&x.Services[i], x.At, down)
	}
	var without, silent []diagnosis
	n, enabled, beside := 0, 0, 0
	for i := range x.Hosts {
		h := &x.Hosts[i]
		if h.Disabled {
			continue
		}
		enabled++
		if quiet[h.ServiceHost] == "" {
			n++
		}
		if in := u.agents[h.UUID.String()]; in == nil || in.GetAgentVersion() == 0 || in.GetImported() {
			if u.told[h.ServiceHost] {
				beside++
				continue
			}
			what := "no agent has registered compute node " + h.UUID.String() + ": no request finds it once the cell is NATIVE"
			switch {
			case in.GetAgentVersion() > 0:
				what = fmt.Sprintf("compute node %s was taken back from its agent, version %d", h.UUID, in.GetAgentVersion())
			case in != nil:
				what += "; it is imported"
			}
			d := diagnosis{Check: "host " + h.ServiceHost, What: what, Do: "start its agent with this cell's replicas: " + strings.Join(u.cell.Replicas, ", ")}
			if why := quiet[h.ServiceHost]; why != "" {
				d.What += "; it does not hold the gate: " + why
				silent = append(silent, d)
				continue
			}
			without = append(without, d)
		}
	}
	u.each("agents", unhealthy, without)
	u.each("agents", warned, silent)
	if len(without)+len(silent)+beside == 0 {
		of := counted(n, "enabled host")
		if n < enabled {
			of += " that are up"
		}
		u.doctor.ok(u.conf.Cell+" agents", "have registered all of %s", of)
	}
}

// outOfService counts the hosts that Nova's services keep instances from.
func (u *upgrade) outOfService(x *legacy.Snapshot) {
	disabled, forced, silent := 0, 0, 0
	down := cmp.Or(u.conf.ServiceDownTime, time.Minute)
	for i := range x.Services {
		switch s := &x.Services[i]; {
		case s.ForcedDown:
			forced++
		case s.Disabled:
			disabled++
		case !x.Up(s, x.At, down):
			silent++
		}
	}
	if n := disabled + forced + silent; n > 0 {
		u.doctor.add(u.conf.Cell+" out of service", noted,
			fmt.Sprintf("%s by Nova's services: %d disabled, %d forced down, of %d nova-compute is down. No new instance is placed there, in NATIVE either", counted(n, "host"), disabled, forced, silent),
			"openstack compute service set --enable or --up counts as long as gateway.legacy has the cell; afterwards cellgate hosts enable")
	}
}

// withoutRows names the services that hold the gate because no row of compute_nodes, or
// none that is a host, is theirs. Rows that are no hosts and stand in the way are told of
// elsewhere.
func (u *upgrade) withoutRows(x *legacy.Snapshot) {
	down := cmp.Or(u.conf.ServiceDownTime, time.Minute)
	has, rows := map[int64]bool{}, map[string]*legacy.LeftOut{}
	for i := range x.Hosts {
		has[x.Hosts[i].ServiceID] = true
	}
	for i := range x.LeftOut {
		if l, host := &x.LeftOut[i], strings.ToLower(x.LeftOut[i].Host); rows[host] == nil || remedies[l.Reason].status == unhealthy {
			rows[host] = l
		}
	}
	var all []diagnosis
	for i := range x.Services {
		s := &x.Services[i]
		if has[s.ID] || s.Disabled || u.told[s.Name()] || silence(s, x.At, down) != "" {
			continue
		}
		d := diagnosis{
			Check: "host " + s.Name(), What: "its nova-compute is enabled and up, and has no row in compute_nodes: no request finds it, and the gate waits for it",
			Do: "see its log for why its resource tracker writes none, and restart it; a nova-compute that is to have none (Ironic's, without a node of its own) does not hold the gate once it is disabled: openstack compute service set --disable " + s.Host + " nova-compute",
		}
		l := rows[strings.ToLower(s.Host)]
		switch {
		case s.Host == "":
			d.Do = deleteService(s)
		case l != nil:
			if remedies[l.Reason].status == unhealthy {
				continue
			}
			d.What = fmt.Sprintf("its nova-compute is enabled and up, and none of its rows in compute_nodes is a host (row %d: %s): no request finds it, and the gate waits for it", l.NodeID, l.Reason)
			d.Do = remedyOf(l)
		}
		all = append(all, d)
	}
	u.each("nova-compute without a row", unhealthy, all)
}

// deleted counts the rows that do not count.
func (u *upgrade) deleted(r *legacy.Reader) error {
	if u.conf.RequiredVersion == 0 {
		return nil
	}
	n, err := r.DeletedServices(u.ctx, int64(u.conf.RequiredVersion))
	if err == nil && n > 0 {
		u.say("services", noted, counted(n, "deleted row")+" of old services: Nova's own gate would have waited for them for ever (bug 1668310), this one does not count them", "")
	}
	return err
}
