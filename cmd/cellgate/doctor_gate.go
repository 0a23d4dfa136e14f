package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func checkScheduler(u *upgrade) results {
	switch {
	case u.conf.Only:
		return diagnose(noted, "is legacy_only: each gateway runs one for the cell, with a shard in memory, and its gate stays at LEGACY", "run the cell's own, and name its replicas instead of legacy_only, before its first agent")
	case u.schedulerErr != nil:
		return diagnose(unhealthy, "the cell does not list its hosts: "+problemOf(u.schedulerErr), "start its scheduler: claims go to its shard in every state of the gate, and agents register there")
	case !u.listed:
		return nil // the legacy database's check says why
	}
	return good("has %s", counted(len(u.hosts), "host"))
}

// checkGate says where the gate is, and what it waits for.
func checkGate(u *upgrade) results {
	g := u.gate
	switch {
	case !u.listed:
		return nil
	case u.gateErr != nil:
		return diagnose(warned, "the cell does not say where it is: "+problemOf(u.gateErr), "look at the log of the cell's scheduler")
	case g == nil:
		return diagnose(noted, "there is none yet", "start a gateway with this gateway.legacy: it makes it, at LEGACY")
	}
	what := "is " + g.GetState().String() + ": " + g.GetReason()
	if waits := g.GetWaitsFor(); len(waits) > 0 {
		what += "; it waits for " + strings.Join(waits, "; ")
	}
	switch {
	case g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED:
		return diagnose(noted, what+"; pinned: "+g.GetPinReason(), "cellgate cells unpin "+u.conf.Cell+", when it is to move by itself")
	case len(g.GetWaitsFor()) > 0 && g.GetState() != cellgatev1.Gate_NATIVE:
		return diagnose(noted, what, "see the other lines of the cell, and what each says to do")
	}
	return good("%s", what)
}

// toleratedAhead is how far a heartbeat may be ahead of the server's clock without a warning.
const toleratedAhead = 5 * time.Second

// checkDatabaseAge says whether the reader read the legacy database, and how far behind its data are.
func checkDatabaseAge(u *upgrade) (out results) {
	if u.err != nil {
		out = diagnose(unhealthy, problemOf(u.err), "correct it: a cell whose services cannot be read counts as old, and its gate does not open")
	}
	x := u.rows
	if x == nil {
		return out
	}
	if n := max(x.Ahead, x.Heartbeat.Sub(x.At)); n > toleratedAhead {
		out = append(out, diagnose(warned, "the newest heartbeat of any service is "+n.Round(time.Second).String()+" ahead of the clock of the database's server",
			"set the clocks of Nova's machines and of the server alike (NTP): a service whose heartbeats are further ahead than service_down_time counts as down").named("clock")...)
	}
	if x.Silent(u.down) {
		return append(out, diagnose(unhealthy, x.WhySilent(u.down),
			"read a database that is not behind (gateway.legacy), start Nova's services, or correct the clock: gateways answer nothing from it meanwhile (the cell is unavailable while its gate is LEGACY or SHADOW), import nothing, and take no host for down by it")...)
	}
	if len(x.Hosts) == 0 && len(u.hosts) > 0 {
		return append(out, diagnose(unhealthy, "no row of compute_nodes is a host of the cell, which has "+counted(len(u.hosts), "host")+": nothing is imported",
			"give gateway.legacy the cell's own database, and see the lines \"row …\"; delete hosts that are gone for good (cellgate hosts delete)")...)
	}
	return append(out, good("has %s and %s of nova-compute, read in %v", counted(len(x.Hosts), "host"), counted(len(x.Services), "live service"), x.Took.Round(time.Millisecond))...)
}

func checkClaims(u *upgrade) (out results) {
	switch {
	case u.imported == nil || !u.listed:
		return nil
	case u.unclaimedErr != nil:
		return diagnose(warned, "the cell does not say which instances have no claim: "+problemOf(u.unclaimedErr), "look at the log of the cell's scheduler; cellgate import --dry-run lists them")
	case len(u.unclaimed) == 0:
		return good("each of %s has one", counted(u.imported.Instances, "instance"))
	}
	on, waiting := map[string][]string{}, 0
	for _, i := range u.unclaimed {
		if isAgents(u.byUUID[i.HostUUID]) {
			on[i.HostUUID] = append(on[i.HostUUID], i.UUID)
		} else {
			waiting++
		}
	}
	// Nobody imports an instance that the agent of its host does not list. On hosts without an agent an
	// import brings it.
	for _, id := range slices.Sorted(maps.Keys(on)) {
		h, do := u.byUUID[id], "complete the agent's instances_dir, or leave that empty and restart the agent: the importer adopts them then. Delete rows of instances that are gone"
		if h.GetImported() {
			do = "run a gateway with this configuration, which imports them; correct the rows that cannot be imported (the lines \"instance …\"), and delete those of instances that are gone. The gate does not open before; cellgate cells pin CELL native overrides it"
		}
		out = append(out, diagnose(unhealthy, counted(len(on[id]), "instance")+" of Nova's rows on this agent's host have no claim in the shard, so that others would be placed on their room: "+firstOf(on[id]), do).named("claims on "+h.GetServiceHost())...)
	}
	if waiting > 0 {
		out = append(out, diagnose(warned, counted(waiting, "instance")+" of hosts without an agent have no claim yet: an import brings them", "run a gateway with this configuration, or cellgate import --cell "+u.conf.Cell)...)
	}
	return out
}

// checkUnknownInstances names hosts whose agents do not know their instances. Nova's tables list those
// instances, and nothing does once the cell is out of gateway.legacy.
func checkUnknownInstances(u *upgrade) results {
	var names []string
	for _, h := range u.hosts {
		if h.GetInstancesUnknown() {
			names = append(names, h.GetServiceHost())
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return diagnose(warned, fmt.Sprintf("%s whose agent does not know its instances: a gateway adopts and releases their claims by Nova's rows, NATIVE too, and stops when the cell is taken out of gateway.legacy: %s", counted(len(names), "host"), firstOf(names)),
		"leave the cell in gateway.legacy, and a gateway running; or give each of these agents an instances_dir with a file for every instance of its host first")
}

// firstOf gives the first three names.
func firstOf(names []string) string {
	if len(names) > 3 {
		names = append(slices.Clone(names[:3]), "…")
	}
	return strings.Join(names, ", ")
}
