package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// mostLeftOut is how many busy hosts a query leaves out at most. With more of them the
// numbers of hosts that pass are compared, not which.
const mostLeftOut = 65536

// answers are two to one query: the stand-in's and the cell's own.
type answers struct {
	oldWire, nativeWire *cellv1.Proposal
	old, native         *schedule.Proposal
}

// askBoth asks both a query of a comparison, which hosts pass without the busy ones, and
// with list their uuids.
func (w *gate) askBoth(ctx context.Context, j comparison, busy map[string]bool, list bool) (both answers, err error) {
	q := &cellv1.Query{Placement: j.placement, Seed: j.seed, Limit: askedHosts}
	if len(busy) <= mostLeftOut {
		q.Passing = &cellv1.PassingQuery{But: idsOf(busy), List: list}
	}
	if both.oldWire, err = w.proposeOnce(ctx, q); err != nil {
		return both, err
	}
	if both.old, err = wire.DecodeProposal(both.oldWire); err != nil {
		return both, err
	}
	own := proto.CloneOf(q)
	own.Shadow, own.RoomOf = true, j.roomOf
	own.Known = &cellv1.Knowledge{Passed: int64(both.old.Passed), Bounds: both.oldWire.GetBounds()}
	if both.nativeWire, _, err = w.cell.propose(ctx, nil, w.cell.proposeTime(), own, nil); err != nil {
		return both, err
	}
	if both.nativeWire.GetCut() {
		return both, fault.New(fault.CellUnavailable, "the replica loads its table")
	}
	if len(both.nativeWire.GetRooms()) == 0 && len(j.roomOf) > 0 {
		return both, fault.New(fault.CellUnavailable, "the replica does not say what its hosts have free: it knows none of them, or is older than this gateway")
	}
	both.native, err = wire.DecodeProposal(both.nativeWire)
	return both, err
}

// idsOf gives uuids as 16 bytes each, in order; what is none is no host.
func idsOf(hosts map[string]bool) []byte {
	ids := make([]schedule.ID, 0, len(hosts))
	for h := range hosts {
		if id, err := schedule.ParseID(h); err == nil {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b schedule.ID) int { return slices.Compare(a[:], b[:]) })
	out := make([]byte, 0, len(ids)*len(schedule.ID{}))
	for _, id := range ids {
		out = append(out, id[:]...)
	}
	return out
}

// setsAre says whether the same hosts pass by two answers, busy ones aside.
type setsAre int

const (
	setsUnknown setsAre = iota
	setsEqual
	setsDiffer
)

func (a *answers) sets() setsAre {
	old, native := a.oldWire.GetPassing(), a.nativeWire.GetPassing()
	switch {
	case old == nil || native == nil:
		return setsUnknown
	case old.GetHosts() == native.GetHosts() && old.GetSum() == native.GetSum():
		return setsEqual
	}
	return setsDiffer
}

// sets adds the hosts that pass by one of the answers alone, of which both have lists. What
// is told of a host already is as well.
func (s suspects) sets(a answers, busy map[string]bool, rows *knownRows) {
	old, native := passingOf(a.oldWire), passingOf(a.nativeWire)
	names := map[schedule.ID]string{}
	for _, c := range a.native.Candidates {
		names[c.Host] = c.ServiceHost
	}
	add := func(in, other map[schedule.ID]struct{}, format string) {
		for id := range in {
			host := id.String()
			if _, both := other[id]; both || busy[host] || s[host] != "" {
				continue
			}
			name := names[id]
			if rows != nil {
				if row := rows.host(id); row != nil {
					name = row.ServiceHost
				}
			}
			s[host] = fmt.Sprintf(format, cmp.Or(name, host))
		}
	}
	add(old, native, "%s passes by the legacy rows, and not by the cell's table")
	add(native, old, "%s passes by the cell's table, and not by the legacy rows")
}

func passingOf(p *cellv1.Proposal) map[schedule.ID]struct{} {
	const n = len(schedule.ID{})
	ids := p.GetPassing().GetUuids()
	set := make(map[schedule.ID]struct{}, len(ids)/n)
	for ; len(ids) >= n; ids = ids[n:] {
		set[schedule.ID(ids[:n])] = struct{}{}
	}
	return set
}

// numbers adds the numbers of hosts that pass, when they differ by more than there are busy
// and suspect hosts: it is all that is told with more busy hosts than a query may name.
func (s suspects) numbers(old, native *schedule.Proposal, busy map[string]bool) {
	if d := max(old.Passed-native.Passed, native.Passed-old.Passed); d > len(busy)+len(s) {
		s[""] = fmt.Sprintf("%d hosts pass by the legacy rows, %d by the cell's table", old.Passed, native.Passed)
	}
}

// withRoomOf adds suspects to the hosts whose free amounts are compared, weighedHosts of them at most:
// their disks may be what differs.
func withRoomOf(hosts []byte, found suspects) []byte {
	const n = len(schedule.ID{})
	is := make(map[schedule.ID]bool, len(hosts)/n)
	for id := range slices.Chunk(hosts, n) {
		is[schedule.ID(id)] = true
	}
	out := slices.Clone(hosts)
	for _, h := range slices.Sorted(maps.Keys(found)) {
		if id, err := schedule.ParseID(h); err == nil && !is[id] && len(out) < 2*weighedHosts*n {
			out = append(out, id[:]...)
		}
	}
	return out
}
