package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellgates "cellgate/cell/gate"
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
	case len(g.GetWaitsFor()) > 0 && !u.native:
		return diagnose(noted, what, "see the other lines of the cell, and what each says to do")
	}
	return good("%s", what)
}

// checkAwaitedClaims names claims that hold room for an instance that nobody reports.
func checkAwaitedClaims(u *upgrade) (out results) {
	for _, c := range u.awaited {
		host := c.GetHostUuid()
		if h := u.hosts[host]; h != nil {
			host = h.GetServiceHost()
		}
		out = append(out, diagnose(warned, "on "+host+": it was confirmed more than five minutes ago, and no report of the host has had its instance; what it holds is in no row",
			"cellgate claims release "+c.GetConsumerUuid()+" "+c.GetClaimId()+", if there is no such instance").of("claim of "+c.GetConsumerUuid())...)
	}
	return out.in("claims without an instance")
}

// checkGateways says which gateways read a copy of the legacy database that is behind, or cannot
// read it: the reports of those hold the gate while it is LEGACY or SHADOW.
func checkGateways(u *upgrade) (out results) {
	own, most := time.Time{}, u.down/2
	if u.rows != nil {
		own = u.rows.Written
	}
	newest := own
	for _, r := range u.readers {
		if to := r.GetReadTo(); to != nil && to.AsTime().After(newest) {
			newest = to.AsTime()
		}
	}
	if lag := newest.Sub(own); !own.IsZero() && lag > most {
		out = diagnose(warned, fmt.Sprintf("its newest row is %v older than what a gateway has read: it is a copy that is behind", lag.Round(time.Second)),
			"bring its replication up to date, or name another server in gateway.legacy; what is said here of its rows is that old").of("age of the legacy database")
	}
	status, means := unhealthy, "it imports nothing, and its report holds the gate"
	if u.native {
		status, means = warned, "it tells the cell of no host that Nova's operators take out of service"
	}
	var behind results
	oldest, reads := time.Duration(0), 0
	for _, r := range u.readers {
		name, lag := "gateway "+r.GetGateway(), time.Duration(0)
		if why := r.GetUnreadable(); why != "" {
			out = append(out, diagnose(status, "cannot read the legacy database: "+printable(why)+"; "+means,
				"correct the way from that gateway to the database of its gateway.legacy: its address, user, password file, CA, or the server itself").of(name).in("gateways that cannot read")...)
			continue
		}
		if r.GetReadTo() != nil {
			lag = newest.Sub(r.GetReadTo().AsTime())
			r.Lag = durationpb.New(lag)
		}
		reads++
		if r.GetBehindSince() == nil && lag <= most {
			oldest = max(oldest, lag)
			continue
		}
		behind = append(behind, diagnose(warned, behindText(r),
			"bring the replication of the database in its gateway.legacy up to date, or name another server there; nothing that newer rows said is taken back meanwhile").of(name)...)
	}
	if reads > 0 && len(behind) == 0 {
		what := fmt.Sprintf("%d report what they read of the tables", reads)
		if reads == 1 {
			what = "1 reports what it reads of the tables"
		}
		return append(out, good("%s, the oldest up to %v before the newest", what, oldest.Round(time.Second))...)
	}
	return append(out, behind.in("gateways that are behind")...)
}

// checkRequiredVersion says in which required_version gateways and this file differ: the highest
// counts.
func checkRequiredVersion(u *upgrade) results {
	own := int64(u.conf.RequiredVersion)
	by, _ := cellgates.GatewaysDiffer(u.readers)
	highest, lowest, others := own, own, int64(0)
	add := func(n int64) { highest, lowest, others = max(highest, n), min(lowest, n), max(others, n) }
	if n := u.gate.GetRequiredVersion(); n > 0 {
		add(int64(n))
	}
	for _, r := range u.readers {
		if r.RequiredVersion != nil {
			add(int64(r.GetRequiredVersion()))
		}
	}
	if highest == lowest {
		return nil
	}
	text := func(n int64) string {
		if n <= 0 {
			return "none"
		}
		return fmt.Sprint(n)
	}
	what := "the gateways require " + text(others)
	if by != "" {
		what = "the gateways differ: " + by
	}
	what += ", and this file has " + text(own)
	status, n := warned, 0
	for _, s := range u.rows.Services {
		if s.Version >= lowest && s.Version < highest && u.silent[s.ID] == "" {
			n++
		}
	}
	if n > 0 {
		status = unhealthy
		what += fmt.Sprintf("; the highest counts: the gate waits for %s of a version below %d, or closes", counted(n, "service"), highest)
	}
	return diagnose(status, what, fmt.Sprintf("set one required_version in gateway.legacy of every gateway, and restart those that differ; the highest only once every nova-compute is of version %d or above", highest))
}

func checkDownTime(u *upgrade) results {
	what := ""
	if _, by := cellgates.GatewaysDiffer(u.readers); by != "" {
		what = "the gateways differ: " + by
	} else if i := slices.IndexFunc(u.readers, func(r *cellgatev1.GateReader) bool { return r.GetServiceDownTime() != nil }); i >= 0 {
		if of := u.readers[i].GetServiceDownTime().AsDuration(); of != u.down {
			what = "the gateways have " + of.String()
		}
	}
	if what == "" {
		return nil
	}
	return diagnose(warned, what+", and this file has "+u.down.String()+"; the gate counts a service as up by the longest, and each gateway answers by its own",
		"set Nova's service_down_time in gateway.legacy of every gateway, and restart those that differ")
}

// aheadTold is how far a heartbeat may be ahead of the server's clock untold.
const aheadTold = 5 * time.Second

// checkDatabaseAge says whether the legacy database was read, and how far behind its data are.
func checkDatabaseAge(u *upgrade) (out results) {
	if u.err != nil {
		out = diagnose(unhealthy, problemOf(u.err), "correct it: a cell whose services cannot be read counts as old, and its gate does not open")
	}
	x := u.rows
	if x == nil {
		return out
	}
	if n := max(x.Ahead, x.Heartbeat.Sub(x.At)); n > aheadTold {
		out = append(out, diagnose(warned, "the newest heartbeat of any service is "+n.Round(time.Second).String()+" ahead of the clock of the database's server",
			"set the clocks of Nova's machines and of the server alike (NTP): a service whose heartbeats are further ahead than service_down_time counts as down").of("clock")...)
	}
	if x.Silent(u.down) {
		return append(out, diagnose(unhealthy, x.WhySilent(u.down),
			"read a database that is not behind (gateway.legacy), start Nova's services, or correct the clock: gateways answer nothing from it meanwhile (the cell is unavailable while its gate is LEGACY or SHADOW), import nothing, and take no host for down by it")...)
	}
	return append(out, good("has %s and %s of nova-compute, read in %v", counted(len(x.Hosts), "host"), counted(len(x.Services), "live service"), x.Took.Round(time.Millisecond))...)
}

// checkMoves names the instances on a move: both of its hosts have room in use for it, by their
// rows, and an agent reports it on one of them. What the other keeps is in the shard only
// when cellgate chose the move.
func checkMoves(u *upgrade) results {
	const kept = " the row of its other host has room in use for it, and the shard has none there once that is an agent's, unless cellgate chose the move; "
	comes, waits, passing := "SHADOW finds more free there by the shard, and waits for as long as that lasts", warned, warned
	if u.native {
		comes, waits, passing = "others are placed there, and a revert may find no room", noted, noted
	}
	var resized, others results
	for _, i := range movesByAge(u.moving) {
		name, changed := "move of "+i.UUID+" on "+i.Host, "was changed last "+age(u.rows.At, i.UpdatedAt)+":"+kept+comes
		if i.VMState == "resized" && i.TaskState == "" {
			resized = append(resized, diagnose(waits, "it is resized or migrated, neither confirmed nor reverted, and "+changed,
				"confirm or revert: openstack server resize confirm "+i.UUID+" (or revert); resize_confirm_window in the computes' nova.conf confirms by itself").of(name)...)
			continue
		}
		others = append(others, diagnose(passing, "its task is "+i.TaskState+", and it "+changed,
			"wait until it has ended, and confirm or revert it then (openstack server migration list --server "+i.UUID+"); one that is stuck: openstack server migration abort").of(name)...)
	}
	return append(resized.in("moves"), others.in("moves under way")...)
}

func checkClaims(u *upgrade) (out results) {
	if u.unclaimedErr != nil {
		return diagnose(warned, "the cell does not say which instances have no claim: "+problemOf(u.unclaimedErr), "look at the log of the cell's scheduler; cellgate import --dry-run lists them")
	}
	if len(u.unclaimed) == 0 {
		return good("each of %s has one", counted(u.imported.Instances, "instance"))
	}
	on, waiting := map[*cellgatev1.Host][]string{}, 0
	var hosts []*cellgatev1.Host
	for _, i := range u.unclaimed {
		h := u.hosts[i.HostUUID]
		if !isAgents(h) {
			waiting++
			continue
		}
		if on[h] == nil {
			hosts = append(hosts, h)
		}
		on[h] = append(on[h], i.UUID)
	}
	// On a host that its agent speaks for nobody imports what that does not list; on others an
	// import brings it.
	for _, h := range hosts {
		do := "complete the agent's instances_dir, or leave that empty and restart the agent: the importer adopts them then. Delete rows of instances that are gone"
		if h.GetImported() {
			do = "run a gateway with this configuration, which imports them; correct the rows that cannot be imported (the lines \"instance …\"), and delete those of instances that are gone. The gate does not open before; cellgate cells pin CELL native overrides it"
		}
		out = append(out, diagnose(unhealthy, counted(len(on[h]), "instance")+" of Nova's rows on this agent's host have no claim in the shard, so that others would be placed on their room: "+firstOf(on[h]), do).of("claims on "+h.GetServiceHost())...)
	}
	out = out.in("claims")
	if waiting > 0 {
		out = append(out, diagnose(warned, counted(waiting, "instance")+" of hosts without an agent have no claim yet: an import brings them", "run a gateway with this configuration, or cellgate import --cell "+u.conf.Cell+" --once")...)
	}
	return out
}

// checkUnknownInstances names hosts whose agents do not know their instances: for them Nova's
// tables say which are there, and nobody once the cell is out of gateway.legacy.
func checkUnknownInstances(u *upgrade) results {
	var unknown []*cellgatev1.Host
	for _, h := range u.hosts {
		if h.GetInstancesUnknown() {
			unknown = append(unknown, h)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, func(a, b *cellgatev1.Host) int {
		return cmp.Or(cmp.Compare(a.GetServiceHost(), b.GetServiceHost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()))
	})
	var names []string
	for _, h := range unknown {
		names = append(names, h.GetServiceHost())
	}
	have := "has an agent that does not know its instances"
	if len(unknown) > 1 {
		have = "have agents that do not know their instances"
	}
	return diagnose(warned, fmt.Sprintf("%s %s: a gateway adopts and releases their claims by Nova's rows, NATIVE too, and stops when the cell is taken out of gateway.legacy: %s", counted(len(unknown), "host"), have, firstOf(names)),
		"leave the cell in gateway.legacy, and a gateway running; or give each of these agents an instances_dir with a file for every instance of its host first")
}

// firstOf names the first three.
func firstOf(names []string) string {
	if len(names) > 3 {
		names = append(slices.Clone(names[:3]), "…")
	}
	return strings.Join(names, ", ")
}
