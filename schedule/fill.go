package schedule

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Filled is how many instances of a request fit on a table.
type Filled struct {
	// Instances fit, on HostsUsed hosts.
	Instances, HostsUsed int
	// Limited: as many as wanted were counted, so that more may fit. Else Rejects say why the next one finds no host:
	// the sum of their Hosts is Hosts.
	Limited bool
	Hosts   int
	Rejects []Reject
	// NovaException is what Nova raises instead of an answer; only with Options.StrictNova.
	NovaException *NovaException
}

// fillWork is after how many instances, or chunks filtered, Fill rests.
const fillWork = 1024

// Fill counts how many instances of the query's request fit, most at most, if they are placed one after the other with
// Propose and Take. Each instance is a member of the request's group. The table does not change. rest is called after a
// few milliseconds of work; its error ends the count. Not for the policy Affinity: the first pick decides about it.
//
// What fits on a host depends on that host alone. So each round places one instance on every host that passes, and the
// order of hosts does not matter.
func (t *Table) Fill(r *Request, rules *Rules, most int, rest func() error) (*Filled, error) {
	r = r.OfNewMembers()
	q := &Query{Request: r, Rules: rules, Limit: 1}
	if rules.options().StrictNova {
		p, err := t.Propose(q)
		if err != nil || p.NovaException != nil {
			return &Filled{NovaException: p.raised()}, err
		}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	judged := r.judging(rules)
	// Without these nothing reads which instances are on a host: a million consumers would be 200 MB.
	consumers := r.Group != nil || slices.Contains(rules.filters(), TypeAffinityFilter)
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
			if s.spent > ExpressionBudget {
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

// filler names the nth instance of a Fill. It is no uuid that anybody makes: it has no version.
func filler(n int) ID {
	id := ID{0: 0xce, 15: 0x11}
	binary.BigEndian.PutUint64(id[4:], uint64(n))
	return id
}

// newGroup is the group of instances that are placed for a question, where the request's group has no uuid.
var newGroup = ID{0: 0xce, 1: 0x11, 15: 0x01}

// OfNewMembers gives the request as each new member of its group has it: those placed before are members too, also where
// the request's group has no uuid.
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

// raised gives what Nova raises instead of an answer; nil for nothing, and without an answer.
func (p *Proposal) raised() *NovaException {
	if p == nil {
		return nil
	}
	return p.NovaException
}
