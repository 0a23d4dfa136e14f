package schedule

import (
	"cmp"
	"encoding/binary"
	"math/bits"
)

// Filled is how many instances of a request fit on a table.
type Filled struct {
	// Instances is how many fit, HostsUsed on how many hosts.
	Instances, HostsUsed int
	// Limited: the count stopped at the requested most, so more may fit. Else Rejects say why the next instance finds
	// no host; the sum of their Hosts is Hosts.
	Limited bool
	Hosts   int
	Rejects []Reject
	// NovaException is what Nova raises instead of an answer; only with Options.StrictNova.
	NovaException *NovaException
}

// fillWork is how many instances or chunks Fill handles between calls of rest.
const fillWork = 16

// Fill counts how many instances of the query's request fit, up to most, placed one after the other with Propose and
// Take. Each instance is a member of the request's group. The table does not change. Fill calls rest after every few
// milliseconds of work; an error of rest ends the count. Do not use it for the policy Affinity, where everything
// depends on the first pick.
//
// What fits on a host depends on that host alone. So each round places one instance on every host that passes, and the
// order of hosts does not matter.
func (t *Table) Fill(r *Request, rules *Rules, most int, rest func() error) (*Filled, error) {
	r = r.OfNewMembers()
	var stopped error
	q := &Query{Request: r, Rules: rules, Limit: 1, Stop: func() bool {
		stopped = rest()
		return stopped != nil
	}}
	if rules.options().StrictNova {
		p, err := t.Propose(q)
		if err != nil || p.NovaException != nil {
			return &Filled{NovaException: p.raised()}, cmp.Or(stopped, err)
		}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	judged := r.judging(rules)
	// If nothing reads which instances are on a host, do not add them: a million consumers would take 200 MB.
	consumers := r.Group != nil || rules.HasFilter(TypeAffinityFilter)
	out, work := &Filled{}, 0
	for {
		s, err := t.compile(q, t)
		if err != nil {
			return nil, err
		}
		masks, passed := make([]uint64, len(t.chunks)), 0
		for i, c := range t.chunks {
			masks[i] = s.filter(i, c)
			passed += bits.OnesCount64(masks[i])
			switch {
			case s.halted:
				return nil, stopped
			case s.spent > ExpressionBudget:
				return nil, ErrCostly
			}
			if work++; work%fillWork == 0 {
				if err := rest(); err != nil {
					return nil, err
				}
			}
		}
		if out.Instances == 0 {
			out.HostsUsed = min(passed, most)
		}
		if passed == 0 || out.Instances == most {
			out.Hosts, out.Limited = t.n, out.Instances == most
			if !out.Limited {
				out.Rejects = s.rejects()
			}
			return out, nil
		}
		e := t.Edit()
		for i, m := range masks {
			for ; m != 0 && out.Instances < most; m &= m - 1 {
				slot := bits.TrailingZeros64(m)
				if consumers {
					e.place(TentativePlacement{Host: t.chunks[i].rows.v[slot].host.UUID, Instance: filler(out.Instances)}, r, judged)
				} else {
					e.consume(number(i*chunkSize+slot), r, judged)
				}
				out.Instances++
				if work++; work%fillWork == 0 {
					if err := rest(); err != nil {
						return nil, err
					}
				}
			}
		}
		t = e.Table()
	}
}

// filler is the uuid of the nth instance of a Fill. No generator makes such uuids: they have no version.
func filler(n int) ID {
	id := ID{0: 0xce, 15: 0x11}
	binary.BigEndian.PutUint64(id[4:], uint64(n))
	return id
}

// newGroup is the uuid of the group of tentatively placed instances, if the request's group has none.
var newGroup = ID{0: 0xce, 1: 0x11, 15: 0x01}

// OfNewMembers gives the request as each new member of its group has it: instances placed before are members too,
// even if the request's group has no uuid.
func (r *Request) OfNewMembers() *Request {
	if r.Group == nil {
		return r
	}
	g, out := *r.Group, *r
	g.MembersExact = false
	if g.UUID == (ID{}) {
		g.UUID = newGroup
	}
	out.Group = &g
	return &out
}

// raised gives the exception that Nova raises instead of an answer; nil for none, or if p is nil.
func (p *Proposal) raised() *NovaException {
	if p == nil {
		return nil
	}
	return p.NovaException
}
