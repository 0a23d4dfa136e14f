package gateway

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// suspects are hosts, by uuid, that two answers to one query place otherwise, and how;
// under the empty name it is the number of hosts that pass, where nobody knows which.
type suspects map[string]string

// and gives those that are in both, as s has them.
func (s suspects) and(other suspects) suspects {
	both := suspects{}
	for h, how := range s {
		if _, too := other[h]; too {
			both[h] = how
		}
	}
	return both
}

// String tells of a few.
func (s suspects) String() string {
	const most = 3
	var hows []string
	for _, h := range slices.Sorted(maps.Keys(s)) {
		if len(hows) == most {
			hows = append(hows, fmt.Sprintf("%d more", len(s)-most))
			break
		}
		hows = append(hows, s[h])
	}
	return strings.Join(hows, "; ")
}

// suspectsOf compares two answers to one query, but for busy hosts. counts is false when
// there were busy hosts alone.
func suspectsOf(old, native *schedule.Proposal, busy map[string]bool) (found suspects, counts bool) {
	found = suspects{}
	a, b := idle(old, busy), idle(native, busy)
	missing := func(in, from []schedule.Candidate, other *schedule.Proposal, format string) {
		there := map[schedule.ID]bool{}
		for _, c := range from {
			there[c.Host] = true
		}
		// A list that was cut off says nothing of who stands further down in the other. Of
		// equal answers one is the beginning of the other.
		if len(other.Candidates) < other.Passed {
			in = in[:min(len(in), len(from))]
		}
		for i, c := range in {
			if !there[c.Host] {
				found[c.Host.String()] = fmt.Sprintf(format, c.ServiceHost, i+1)
			}
		}
	}
	missing(a, b, native, "%s is in place %d by the legacy rows, and in none by the cell's table")
	missing(b, a, old, "%s is in place %d by the cell's table, and in none by the legacy rows")
	places := map[schedule.ID]int{}
	for i, c := range b {
		places[c.Host] = i
	}
	var both []schedule.Candidate
	var order []int
	for _, c := range a {
		if place, too := places[c.Host]; too {
			both, order = append(both, c), append(order, place)
		}
	}
	keep := rising(order)
	for i, c := range both {
		if !keep[i] {
			found[c.Host.String()] = fmt.Sprintf("%s stands elsewhere by the legacy rows than by the cell's table, in place %d", c.ServiceHost, order[i]+1)
		}
	}
	return found, len(found) > 0 || len(both) > 0 || old.Passed == 0 && native.Passed == 0
}

// rising marks a longest rising part of order, the same one each time.
func rising(order []int) []bool {
	longest, before := make([]int, len(order)), make([]int, len(order))
	end := -1
	for i := range order {
		longest[i], before[i] = 1, -1
		for j := range i {
			if order[j] < order[i] && longest[j]+1 > longest[i] {
				longest[i], before[i] = longest[j]+1, j
			}
		}
		if end < 0 || longest[i] > longest[end] {
			end = i
		}
	}
	keep := make([]bool, len(order))
	for ; end >= 0; end = before[end] {
		keep[end] = true
	}
	return keep
}

// idle gives the candidates whose hosts are not busy.
func idle(p *schedule.Proposal, busy map[string]bool) []schedule.Candidate {
	var out []schedule.Candidate
	for _, c := range p.Candidates {
		if !busy[c.Host.String()] {
			out = append(out, c)
		}
	}
	return out
}

func firstNames(p *schedule.Proposal) string {
	var names []string
	for _, c := range p.Candidates[:min(3, len(p.Candidates))] {
		names = append(names, c.ServiceHost)
	}
	text := strings.Join(names, ", ")
	return strings.ToValidUTF8(text[:min(len(text), 500)], "")
}

// freer gives the hosts that have more free by the cell's table than by the legacy rows:
// claims would take what instances have already. Less free is legal, since the shard
// holds claims that no row shows yet. How measured disks differ is told with it.
func freer(rows *knownRows, table []*cellv1.HostRoom, busy map[string]bool, disks suspects) suspects {
	found := suspects{}
	if rows == nil || len(table) == 0 {
		return found
	}
	for _, in := range table {
		id := in.GetHostUuid()
		uuid, err := schedule.ParseID(id)
		if err != nil || busy[id] {
			continue
		}
		row := rows.host(uuid)
		if row == nil {
			continue
		}
		var more []string
		if text := disks[id]; text != "" {
			more = append(more, text)
		}
		for _, of := range proposing.FreeOf(&row.View) {
			for _, r := range in.GetRooms() {
				if r.GetResourceClass() == of.GetResourceClass() && r.GetAmount() > max(of.GetAmount(), 0) {
					more = append(more, fmt.Sprintf("%s free %d by the rows, %d by the shard", r.GetResourceClass(), of.GetAmount(), r.GetAmount()))
				}
			}
		}
		if len(more) > 0 {
			found[id] = row.ServiceHost + ": " + strings.Join(more, ", ")
		}
	}
	return found
}
