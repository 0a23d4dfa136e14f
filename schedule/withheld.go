package schedule

import (
	"math/bits"
	"slices"
	"strings"
)

// maxReasons is how many of operators' reasons have their own reject count, those of the most hosts. The others share
// otherReasons.
const (
	maxReasons   = 16
	otherReasons = "for other reasons of operators"
)

// reasons are the reasons for which operators keep new instances from hosts (Host.Withheld), by text. The edit that
// made it (owner) may write to it. Nil: no host is withheld.
type reasons struct {
	owner uint64
	list  []reason
}

type reason struct {
	why   string
	hosts int
}

// withhold records that the reason for which a host is withheld changed; empty for none.
func (e *Edit) withhold(was, is string) {
	if was == is {
		return
	}
	r := e.t.withheld
	switch {
	case r == nil:
		r = &reasons{owner: e.t.version}
	case r.owner != e.t.version:
		r = &reasons{owner: e.t.version, list: slices.Clone(r.list)}
	}
	r.count(was, -1)
	r.count(is, +1)
	if e.t.withheld = r; len(r.list) == 0 {
		e.t.withheld = nil
	}
}

func (r *reasons) count(why string, n int) {
	if why == "" {
		return
	}
	at, known := slices.BinarySearchFunc(r.list, why, func(a reason, why string) int { return strings.Compare(a.why, why) })
	if !known {
		r.list = slices.Insert(r.list, at, reason{why: why})
	}
	if r.list[at].hosts += n; r.list[at].hosts == 0 {
		r.list = slices.Delete(r.list, at, at+1)
	}
}

// topReasons gives the reasons that have their own reject count.
func (r *reasons) topReasons() []reason {
	if len(r.list) <= maxReasons {
		return r.list
	}
	most := slices.Clone(r.list)
	slices.SortStableFunc(most, func(a, b reason) int { return b.hosts - a.hosts })
	return most[:maxReasons]
}

// withheldChecks rejects the hosts that operators keep new instances from, with one check for each reason.
func (s *scan) withheldChecks() {
	r := s.t.withheld
	if r == nil {
		return
	}
	top := r.topReasons()
	for i := range top {
		why := top[i].why
		s.check(ComputeFilter, why, func(_ int, c *chunk, m uint64) uint64 {
			kept := ^uint64(0)
			for m &= c.withheld; m != 0; m &= m - 1 {
				if at := bits.TrailingZeros64(m); c.rows.v[at].host.Withheld == why {
					kept &^= 1 << at
				}
			}
			return kept
		})
	}
	if len(top) < len(r.list) {
		s.check(ComputeFilter, otherReasons, func(_ int, c *chunk, _ uint64) uint64 { return ^c.withheld })
	}
}
