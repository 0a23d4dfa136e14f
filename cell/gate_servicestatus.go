package cell

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cellgate/shard"
)

// serviceStatuses keeps what Nova's services say of hosts in the shard, as gateways report it:
// beside the operator's word, so that every replica has it, and claims are checked by it.
// It is written when it changes, unless the row in the shard is of a newer reading: gateways
// may read replicas of Nova's database that are behind, and report to other replicas of the
// cell. It stays while nobody reports; a gateway that cannot read says nothing.
//
// A host of an agent that no report names counts as disabled: Nova has no such host, or has
// that machine under another uuid (an agent that lost its state_dir), with what runs there. A row
// that no gateway can answer from names its host all the same.
type serviceStatuses struct {
	// silentAt has of each host that is silent in the shard novaReading.beat as of that word. See hasBeaten.
	silentAt map[string]time.Time
}

// novaWord is what a service says of its host; the zero value is nothing against it.
type novaWord struct {
	state  shard.NovaState
	reason string
}

// novaReading is what a report says of a compute node.
type novaReading struct {
	// admin is what operators of Nova say.
	admin novaWord
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

func (s *legacyService) reading() novaReading {
	r := novaReading{up: s.up, at: s.changedAt, beat: s.changedAt}
	switch {
	case s.forcedDown:
		r.admin = novaWord{shard.NovaForcedDown, s.reason}
	case s.disabled:
		r.admin = novaWord{shard.NovaDisabled, s.reason}
	}
	return r
}

// beside joins what two services of one report say of a node: the worst.
func (r novaReading) beside(o novaReading) novaReading {
	if o.admin.worse(r.admin) {
		r.admin = o.admin
	}
	return novaReading{r.admin, r.up && o.up, later(r.at, o.at), earlier(r.seen, o.seen), earlier(r.beat, o.beat), later(r.rows, o.rows)}
}

// or joins what two reports say of a node. Of what operators said the newer reading counts, of
// two that are as new the worse: reports have no order. A heartbeat that one of them has seen
// was there: a database that is behind never shows a node alive for longer.
func (r novaReading) or(o novaReading) novaReading {
	if o.at.After(r.at) || o.at.Equal(r.at) && o.admin.worse(r.admin) {
		r.admin = o.admin
	}
	return novaReading{r.admin, r.up || o.up, later(r.at, o.at), later(r.seen, o.seen), later(r.beat, o.beat), later(r.rows, o.rows)}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// word gives what keeps new claims away: as Nova's ComputeFilter, which takes no host that is
// disabled or whose nova-compute is down.
func (r novaReading) word() novaWord {
	if r.admin.state == "" && !r.up {
		return novaWord{state: shard.NovaSilent}
	}
	return r.admin
}

// novaOrder has the states from none to the worst.
var novaOrder = []shard.NovaState{"", shard.NovaSilent, shard.NovaDisabled, shard.NovaForcedDown}

// worse orders words; those that differ in the reason alone by that, as reports have no order.
func (w novaWord) worse(than novaWord) bool {
	if c := cmp.Compare(slices.Index(novaOrder, w.state), slices.Index(novaOrder, than.state)); c != 0 {
		return c > 0
	}
	return w.reason > than.reason
}

// unknownToNova is the reason of a host that no report names, unknownWord what is said of it.
const unknownToNova = "Nova's tables have no host of this uuid"

var unknownWord = novaWord{shard.NovaDisabled, unknownToNova}

// statusRow is a host's row with what stands beside it; row is nil while there is no host.
type statusRow struct {
	row   *shard.Host
	admin *shard.AdminState
}

func (r statusRow) status() novaWord {
	if r.admin == nil {
		return novaWord{}
	}
	return novaWord{r.admin.Nova, r.admin.NovaReason}
}

// silentSince is how new the reading is by which the host is silent to Nova; zero when it is not.
func (r statusRow) silentSince(now time.Time) time.Time {
	if r.status().state != shard.NovaSilent {
		return time.Time{}
	}
	return r.admin.NovaRead(now)
}

// changes gives the statuses that the rows do not have, by host, but for those of readings that
// are older than the rows'. That a host is there or not, and is silent, is said by the tables
// as a whole, and is as new as these; else a status is as new as the row of the host's service.
//
// Of a gateway that reports to another replica the rows tell how new its readings are: the
// newest time in them, which the newest reading keeps so in one of them. While all readings that
// were reported here are behind that, they say neither that hosts are silent, which is what a copy
// of Nova's database that is behind looks like, nor that hosts are not there.
func (n *serviceStatuses) changes(reports []legacyReport, rows map[string]statusRow, now time.Time, maxLag time.Duration) []shard.SetNovaState {
	named, newest := nodesOf(reports)
	var list []shard.SetNovaState
	n.forgetSilent(rows, now)
	known, against := newestStatus(rows, now)
	behind := !newest.IsZero() && known.NovaRead(now).Sub(newest) > maxLag
	// agrees: what is refreshed is what the readings here say, too.
	agrees := true
	for uuid, r := range readingsOf(reports, against) {
		w := r.word()
		p := shard.SetNovaState{HostUUID: uuid, State: w.state, Reason: w.reason, At: r.at}
		row := rows[uuid]
		if w.state == shard.NovaSilent || row.status() == unknownWord {
			p.At = earlier(later(r.at, named[uuid]), now)
		}
		if was := row.silentSince(now); !was.IsZero() && n.hasBeaten(uuid, r, was) {
			p.At = later(p.At, was)
		}
		if known != nil && uuid == known.HostUUID {
			agrees = row.status() == w
		}
		if row.row != nil && row.status() != w && !p.Outdated(row.admin, now) && !(behind && w.state == shard.NovaSilent) {
			list = append(list, p)
			if w.state == shard.NovaSilent {
				n.silentAt[uuid] = r.beat
			} else {
				delete(n.silentAt, uuid)
			}
		}
	}
	if len(named) > 0 && !behind {
		for uuid, row := range rows {
			if row.row == nil || row.row.Imported || row.status() == unknownWord {
				continue
			}
			p := shard.SetNovaState{HostUUID: uuid, State: unknownWord.state, Reason: unknownWord.reason, At: earlier(newest, now)}
			if _, is := named[uuid]; !is && !p.Outdated(row.admin, now) {
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
func newestStatus(rows map[string]statusRow, now time.Time) (newest *shard.AdminState, against map[string]bool) {
	against = map[string]bool{}
	for uuid, row := range rows {
		if row.admin == nil {
			continue
		}
		if row.admin.Nova != "" {
			against[uuid] = true
		}
		if at := row.admin.NovaRead(now); row.row != nil && !at.IsZero() && (newest == nil || at.After(newest.NovaAt) || at.Equal(newest.NovaAt) && uuid < newest.HostUUID) {
			newest = row.admin
		}
	}
	return newest, against
}

// unreadableToNova is the reason of a host that came while no gateway could read the tables.
const unreadableToNova = "Nova's tables cannot be read, and the cell did not know this uuid before"

// nodesOf gives the compute nodes that reports name, with how new the newest of these is, and
// how new the newest report is; zero where it is not known.
func nodesOf(reports []legacyReport) (named map[string]time.Time, newest time.Time) {
	named = map[string]time.Time{}
	for _, r := range reports {
		newest = later(newest, r.readTo)
		for i := range r.services {
			for _, uuid := range r.services[i].named() {
				named[uuid] = later(named[uuid], r.readTo)
			}
		}
	}
	return named, newest
}

// readingsOf gives what reports say of those compute nodes that one of them says something
// against, and of those in known: of the others there is nothing to write.
func readingsOf(reports []legacyReport, known map[string]bool) map[string]novaReading {
	of := map[string]bool{}
	for _, report := range reports {
		for i := range report.services {
			s := &report.services[i]
			against := s.disabled || s.forcedDown || !s.up
			for _, uuid := range s.named() {
				if against || known[uuid] {
					of[uuid] = true
				}
			}
		}
	}
	all := map[string]novaReading{}
	if len(of) == 0 {
		return all
	}
	for _, report := range reports {
		one := map[string]novaReading{}
		var rows time.Time
		for i := range report.services {
			rows = later(rows, report.services[i].changedAt)
		}
		for i := range report.services {
			s := &report.services[i]
			for _, uuid := range s.named() {
				if !of[uuid] {
					continue
				}
				r := s.reading()
				r.rows = rows
				if s.up {
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
func (n *serviceStatuses) hasBeaten(uuid string, r novaReading, was time.Time) bool {
	beat, is := n.silentAt[uuid]
	if !is && !r.rows.Before(was) {
		n.silentAt[uuid] = r.beat
	}
	return is && r.word() == (novaWord{}) && !r.seen.Before(was) && !r.beat.Equal(beat)
}

// forgetSilent lets go of hosts that are silent no more.
func (n *serviceStatuses) forgetSilent(rows map[string]statusRow, now time.Time) {
	if n.silentAt == nil {
		n.silentAt = map[string]time.Time{}
	}
	maps.DeleteFunc(n.silentAt, func(uuid string, _ time.Time) bool { return rows[uuid].silentSince(now).IsZero() })
}
