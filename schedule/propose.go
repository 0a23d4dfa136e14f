package schedule

import (
	"math/bits"
	"slices"
	"strings"
)

// Propose answers a query: which hosts pass, which checks reject the others, the bounds of the raw weights, and the
// best hosts. If no host passes, that is an answer, not an error. Errors are *QueryError for an invalid query,
// ErrStopped, and ErrCostly. Tentative placements on hosts that are not in the table are ignored.
//
// In principle: ask every filter about every host, weigh each host that passed,
// sort, cut. Here:
//
//  1. The request is compiled into checks on names the table knows, and
//     weighers on its columns.
//  2. Each chunk's hosts go through the checks as one word of bits.
//  3. The bounds of what passed are widened, mostly from what the columns
//     already know of themselves.
//  4. Chunks are ranked into a bounded heap: at once when the bounds to rank by
//     are known beforehand, else in a second pass over the words kept.
//  5. Only the best become candidates.
func (t *Table) Propose(q *Query) (*Proposal, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	before := t
	t = t.taken(q)
	s, err := t.compile(q, before)
	if err != nil {
		return nil, err
	}
	var misses *NearMisses
	if q.NearMisses > 0 {
		if misses, err = before.findNearMisses(q); err != nil {
			return nil, err
		}
	}
	known := q.Known != nil && len(q.Known.Bounds) > 0
	if known {
		s.rankBy(q.Known.Bounds, q.Known.Passed == 1)
	}
	w := wordsPool.Get().(*words)
	defer wordsPool.Put(w)
	w.v = w.v[:0]
	passed := 0
	for i, c := range t.chunks {
		if q.stopped(i) {
			return nil, ErrStopped
		}
		m := s.filter(i, c)
		switch {
		case s.halted:
			return nil, ErrStopped
		case s.spent > ExpressionBudget:
			return nil, ErrCostly
		}
		passed += bits.OnesCount64(m)
		if m != 0 {
			s.widen(i, c, m)
		}
		w.v = append(w.v, m)
		if known && m != 0 {
			s.rank(i, c, m)
		}
	}
	p := &Proposal{
		Hosts: t.n, Passed: passed, Rejects: s.rejects(), NearMisses: misses,
		Bounds: s.bounds(), GroupHosts: s.groupHosts(),
	}
	bounds, single := p.Bounds, passed <= 1
	if known {
		bounds, single = q.Known.Bounds, q.Known.Passed == 1
	} else {
		s.rankBy(bounds, single)
		for i, m := range w.v {
			if m != 0 {
				s.rank(i, t.chunks[i], m)
			}
		}
	}
	p.Candidates = s.candidates()
	p.Multipliers, p.Warnings = s.multipliers(), s.warnings()
	if s.options.StrictNova {
		p.NovaException = s.strictly()
	}
	p.Forecast = s.forecast(p, q.Forecast, bounds, single, w.v, func(weigher, at int) Bounds {
		return s.weighers[weigher].spanOf(at, t.chunks[at], w.v[at])
	})
	return p, nil
}

// taken gives the table with the query's takes.
func (t *Table) taken(q *Query) *Table {
	if len(q.TentativePlacements) == 0 {
		return t
	}
	e := t.Edit()
	judged := q.Request.judging(q.Rules)
	for _, take := range q.TentativePlacements {
		if q.Request.Group != nil {
			e.place(take, q.Request, judged)
		} else if at, ok := t.slots.get(take.Host); ok {
			// As in Nova, the pick is no instance of the host yet (nova/scheduler/manager.py, _consume_selected_host).
			e.consume(at, q.Request, judged)
		}
	}
	return e.Table()
}

// filter gives the hosts of a chunk that pass all checks.
func (s *scan) filter(at int, c *chunk) uint64 {
	m := c.valid
	s.spread = 0
	for i := range s.checks {
		if m == 0 {
			return 0
		}
		k := &s.checks[i]
		kept := m & k.pass(at, c, m)
		gone := bits.OnesCount64(m &^ kept)
		k.rejected += gone
		if s.counts != nil {
			s.counts[i] = uint8(gone)
		}
		if s.unreadable != 0 {
			k.unread(c, m&^kept&s.unreadable)
			s.unreadable = 0
		}
		m = kept
	}
	if len(s.asked) > 0 && m != 0 {
		s.weighHosts(at, c, m)
	}
	return m
}

// unread moves hosts from those rejected to those not readable.
func (k *check) unread(c *chunk, m uint64) {
	if m == 0 {
		return
	}
	n := bits.OnesCount64(m)
	k.unreadable += n
	k.rejected -= n
	if k.example == nil {
		k.example = c.rows.v[bits.TrailingZeros64(m)]
	}
}

// Unreadable is the detail of hosts rejected because Nova would raise an
// exception for them.
const Unreadable = "unreadable"

// rejects gives the checks that rejected a host, in order; what counts under
// one filter and detail is joined.
func (s *scan) rejects() []Reject {
	rejecting := 0
	for i := range s.checks {
		if k := &s.checks[i]; k.rejected+k.unreadable > 0 {
			rejecting++
		}
	}
	if rejecting == 0 {
		return nil
	}
	list := make([]Reject, 0, rejecting+1)
	add := func(filter, detail string, hosts int) *Reject {
		at := slices.IndexFunc(list, func(r Reject) bool { return r.Filter == filter && r.Detail == detail })
		if at < 0 {
			list = append(list, Reject{Filter: filter, Detail: detail})
			at = len(list) - 1
		}
		list[at].Hosts += hosts
		return &list[at]
	}
	for i := range s.checks {
		k := &s.checks[i]
		if k.rejected > 0 {
			add(k.filter, k.detail, k.rejected)
		}
		if k.unreadable > 0 {
			if r := add(k.filter, Unreadable, k.unreadable); r.Example == "" {
				r.Example = k.example.host.ServiceHost
				s.explain(r)
			}
		}
	}
	return list
}

// groupHosts gives the hosts with members, by service host, then uuid.
func (s *scan) groupHosts() []GroupHost {
	var list []GroupHost
	for _, m := range s.members {
		h := s.t.row(m.slot).host
		list = append(list, GroupHost{Host: h.UUID, ServiceHost: h.ServiceHost, Members: m.n})
	}
	slices.SortFunc(list, func(a, b GroupHost) int {
		if c := strings.Compare(a.ServiceHost, b.ServiceHost); c != 0 {
			return c
		}
		return strings.Compare(string(a.Host[:]), string(b.Host[:]))
	})
	return list
}
