package gate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cellgate/shard"
)

// Statuses keeps what Nova's services say of hosts in the shard, as gateways report it:
// beside the operator's word, so that every replica has it, and claims are checked by it.
// It is written when it changes, unless the row in the shard is of a newer reading: gateways
// may read replicas of Nova's database that are behind, and report to other replicas of the
// cell. It stays while nobody reports; a gateway that cannot read says nothing.
//
// A host of an agent that no report names counts as disabled: Nova has no such host, or has
// that machine under another uuid (an agent that lost its state_dir), with what runs there. A row
// that no gateway can answer from names its host all the same.
type Statuses struct {
	// silentAt has of each host that is silent in the shard novaReading.beat as of that word. See hasBeaten.
	silentAt map[string]time.Time
}

// serviceStatus is what a service says of its host; the zero value is nothing against it.
type serviceStatus struct {
	State  shard.NovaState
	Reason string
}

// statusReading is what a report says of a compute node.
type statusReading struct {
	// admin is what operators of Nova say.
	admin serviceStatus
	up    bool
	// at is when Nova wrote that; zero: not known.
	at time.Time
	// seen is how new the newest tables are that have it up; zero: none has.
	seen time.Time
	// beat is the time in the row of its service, by the clock of who wrote it: while the host is dead it
	// does not move. rows is how new the newest row is of those that it was told with: while nothing but
	// times changes, a gateway tells readTo alone.
	beat, rows time.Time
}

func (s *Service) statusReading() statusReading {
	r := statusReading{up: s.Up, at: s.changedAt, beat: s.changedAt}
	switch {
	case s.forcedDown:
		r.admin = serviceStatus{shard.NovaForcedDown, s.reason}
	case s.disabled:
		r.admin = serviceStatus{shard.NovaDisabled, s.reason}
	}
	return r
}

// beside joins what two services of one report say of a node: the worst.
func (r statusReading) beside(o statusReading) statusReading {
	if o.admin.worse(r.admin) {
		r.admin = o.admin
	}
	return statusReading{r.admin, r.up && o.up, Later(r.at, o.at), earlier(r.seen, o.seen), earlier(r.beat, o.beat), Later(r.rows, o.rows)}
}

// or joins what two reports say of a node. Of what operators said the newer reading counts, of
// two that are as new the worse: reports have no order. A heartbeat that one of them has seen
// was there: a database that is behind never shows a node alive for longer.
func (r statusReading) or(o statusReading) statusReading {
	if o.at.After(r.at) || o.at.Equal(r.at) && o.admin.worse(r.admin) {
		r.admin = o.admin
	}
	return statusReading{r.admin, r.up || o.up, Later(r.at, o.at), Later(r.seen, o.seen), Later(r.beat, o.beat), Later(r.rows, o.rows)}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// status gives what keeps new claims away: as Nova's ComputeFilter, which takes no host that is
// disabled or whose nova-compute is down.
func (r statusReading) status() serviceStatus {
	if r.admin.State == "" && !r.up {
		return serviceStatus{State: shard.NovaSilent}
	}
	return r.admin
}

// statusOrder has the states from none to the worst.
var statusOrder = []shard.NovaState{"", shard.NovaSilent, shard.NovaDisabled, shard.NovaForcedDown}

// worse orders words; those that differ in the reason alone by that, as reports have no order.
func (w serviceStatus) worse(than serviceStatus) bool {
	if c := cmp.Compare(slices.Index(statusOrder, w.State), slices.Index(statusOrder, than.State)); c != 0 {
		return c > 0
	}
	return w.Reason > than.Reason
}

// UnknownToNova is the reason of a host that no report names, unknownWord what is said of it.
const UnknownToNova = "Nova's tables have no host of this uuid"

var unknownHost = serviceStatus{shard.NovaDisabled, UnknownToNova}

// HostStatus is a host's row with what stands beside it; row is nil while there is no host.
type HostStatus struct {
	Row   *shard.Host
	Admin *shard.AdminState
}

func (r HostStatus) status() serviceStatus {
	if r.Admin == nil {
		return serviceStatus{}
	}
	return serviceStatus{r.Admin.Nova, r.Admin.NovaReason}
}

// silentSince is how new the reading is by which the host is silent to Nova; zero when it is not.
func (r HostStatus) silentSince(now time.Time) time.Time {
	if r.status().State != shard.NovaSilent {
		return time.Time{}
	}
	return r.Admin.NovaRead(now)
}

// Changes gives the statuses that the rows do not have, by host, but for those of readings that
// are older than the rows'. That a host is there or not, and is silent, is said by the tables
// as a whole, and is as new as these; else a status is as new as the row of the host's service.
//
// Of a gateway that reports to another replica the rows tell how new its readings are: the
// newest time in them, which the newest reading keeps so in one of them. While all readings that
// were reported here are behind that, they say neither that hosts are silent, which is what a copy
// of Nova's database that is behind looks like, nor that hosts are not there.
func (n *Statuses) Changes(reports []Report, rows map[string]HostStatus, now time.Time, maxLag time.Duration) []shard.SetNovaState {
	named, newest := nodesOf(reports)
	var list []shard.SetNovaState
	n.forgetSilent(rows, now)
	known, against := newestStatus(rows, now)
	behind := !newest.IsZero() && known.NovaRead(now).Sub(newest) > maxLag
	// agrees: what is refreshed is what the readings here say, too.
	agrees := true
	for uuid, r := range readingsOf(reports, against) {
		w := r.status()
		p := shard.SetNovaState{HostUUID: uuid, State: w.State, Reason: w.Reason, At: r.at}
		row := rows[uuid]
		if w.State == shard.NovaSilent || row.status() == unknownHost {
			p.At = earlier(Later(r.at, named[uuid]), now)
		}
		if was := row.silentSince(now); !was.IsZero() && n.hasBeaten(uuid, r, was) {
			p.At = Later(p.At, was)
		}
		if known != nil && uuid == known.HostUUID {
			agrees = row.status() == w
		}
		if row.Row != nil && row.status() != w && !p.Outdated(row.Admin, now) && !(behind && w.State == shard.NovaSilent) {
			list = append(list, p)
			if w.State == shard.NovaSilent {
				n.silentAt[uuid] = r.beat
			} else {
				delete(n.silentAt, uuid)
			}
		}
	}
	if len(named) > 0 && !behind {
		for uuid, row := range rows {
			if row.Row == nil || row.Row.Imported || row.status() == unknownHost {
				continue
			}
			p := shard.SetNovaState{HostUUID: uuid, State: unknownHost.State, Reason: unknownHost.Reason, At: earlier(newest, now)}
			if _, is := named[uuid]; !is && !p.Outdated(row.Admin, now) {
				list = append(list, p)
			}
		}
	}
	if at := earlier(newest, now).Add(-maxLag / 4); known != nil && agrees && at.Sub(known.NovaRead(now)) > maxLag/2 &&
		!slices.ContainsFunc(list, func(p shard.SetNovaState) bool { return p.HostUUID == known.HostUUID }) {
		list = append(list, shard.SetNovaState{HostUUID: known.HostUUID, State: known.Nova, Reason: known.NovaReason, At: at, Refresh: true})
	}
	slices.SortFunc(list, func(a, b shard.SetNovaState) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	return list
}

// newestStatus gives the row with the status of the newest reading of Nova's tables, nil for
// none, and the hosts that have some status.
func newestStatus(rows map[string]HostStatus, now time.Time) (newest *shard.AdminState, against map[string]bool) {
	against = map[string]bool{}
	for uuid, row := range rows {
		if row.Admin == nil {
			continue
		}
		if row.Admin.Nova != "" {
			against[uuid] = true
		}
		if at := row.Admin.NovaRead(now); row.Row != nil && !at.IsZero() && (newest == nil || at.After(newest.NovaAt) || at.Equal(newest.NovaAt) && uuid < newest.HostUUID) {
			newest = row.Admin
		}
	}
	return newest, against
}

// UnreadableToNova is the reason of a host that came while no gateway could read the tables.
const UnreadableToNova = "Nova's tables cannot be read, and the cell did not know this uuid before"

// nodesOf gives the compute nodes that reports name, with how new the newest of these is, and
// how new the newest report is; zero where it is not known.
func nodesOf(reports []Report) (named map[string]time.Time, newest time.Time) {
	named = map[string]time.Time{}
	for _, r := range reports {
		newest = Later(newest, r.readTo)
		for i := range r.Services {
			for _, uuid := range r.Services[i].named() {
				named[uuid] = Later(named[uuid], r.readTo)
			}
		}
	}
	return named, newest
}

// readingsOf gives what reports say of those compute nodes that one of them says something
// against, and of those in known: of the others there is nothing to write.
func readingsOf(reports []Report, known map[string]bool) map[string]statusReading {
	of := map[string]bool{}
	for _, report := range reports {
		for i := range report.Services {
			s := &report.Services[i]
			against := s.disabled || s.forcedDown || !s.Up
			for _, uuid := range s.named() {
				if against || known[uuid] {
					of[uuid] = true
				}
			}
		}
	}
	all := map[string]statusReading{}
	if len(of) == 0 {
		return all
	}
	for _, report := range reports {
		one := map[string]statusReading{}
		var rows time.Time
		for i := range report.Services {
			rows = Later(rows, report.Services[i].changedAt)
		}
		for i := range report.Services {
			s := &report.Services[i]
			for _, uuid := range s.named() {
				if !of[uuid] {
					continue
				}
				r := s.statusReading()
				r.rows = rows
				if s.Up {
					r.seen = report.readTo
				}
				if other, is := one[uuid]; is {
					r = r.beside(other)
				}
				one[uuid] = r
			}
		}
		for uuid, r := range one {
			if other, is := all[uuid]; is {
				r = r.or(other)
			}
			all[uuid] = r
		}
	}
	return all
}

// hasBeaten reports whether the row of a host that is silent, by tables as new as was, has moved since, and
// the host is up by tables that are no older. Its own clock, by which its row is dated, may be behind those of
// the tables; and a gateway that takes longer to judge has it up by the row as it was. What it was is what the
// word was written by, where this replica did, and else the first reading here of rows that are as new: a
// replica that starts, and is first told a row that has moved, waits for the next move, or for a row that is
// dated after the word.
func (n *Statuses) hasBeaten(uuid string, r statusReading, was time.Time) bool {
	beat, is := n.silentAt[uuid]
	if !is && !r.rows.Before(was) {
		n.silentAt[uuid] = r.beat
	}
	return is && r.status() == (serviceStatus{}) && !r.seen.Before(was) && !r.beat.Equal(beat)
}

// forgetSilent lets go of hosts that are silent no more.
func (n *Statuses) forgetSilent(rows map[string]HostStatus, now time.Time) {
	if n.silentAt == nil {
		n.silentAt = map[string]time.Time{}
	}
	maps.DeleteFunc(n.silentAt, func(uuid string, _ time.Time) bool { return rows[uuid].silentSince(now).IsZero() })
}
