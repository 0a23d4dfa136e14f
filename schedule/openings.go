package schedule

import (
	"cmp"
	"container/heap"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Opening is room for further instances of a request that some hosts have after a change of the request. The rooms of
// several openings add up if one change contains the changes of all of them.
type Opening struct {
	// Misses are the conditions to change (Request.Relaxed), in no order. Cost is the sum of their costs.
	Misses []Miss
	Cost   float64
	// Instances is how many find room. Together: all instances of the request find room on one host; do not add it to
	// other rooms.
	Instances int
	Together  bool
}

const (
	// MostOpenings bounds the instances for which a table searches openings, and how many of them it gives.
	MostOpenings = 256
	// leastOpenings is how many are searched for even if fewer instances need room: an amount that is small enough
	// for one host may be below another's min_unit.
	leastOpenings = 64
	// mostTogether bounds the hosts that are tried with all instances.
	mostTogether = 64
)

// openings gives a table's openings, the least change first. They have room for as many instances as the query asks
// for, and include all that cost less than those together; MostOpenings instances at most.
func (n *nearMissSearch) openings() ([]Opening, error) {
	var found openingList
	apart, soft := n, []Miss(nil)
	if n.s.q.Together > 0 {
		// After a change, the host of the first instance binds the others. They find room on one host together, or
		// under a soft policy.
		q := *n.s.q
		q.TentativePlacements, q.Known = nil, nil
		together, err := n.again(&q, q.Together, false)
		if err != nil {
			return nil, err
		}
		next := together.firstOpeners()
		for range mostTogether {
			if next.Len() == 0 {
				break
			}
			o := heap.Pop(&next).(*opener)
			found.add(o.misses, true, q.Together)
			together.pushFirst(&next, o.like, o.at+1)
		}
		soft = []Miss{n.s.q.Request.miss(AffinityFilter, "", nil, 1)}
		q = *n.s.q
		q.Request = q.Request.Relaxed(soft)
		if apart, err = n.again(&q, 0, true); err != nil {
			return nil, err
		}
	}
	want := min(n.s.q.Openings, MostOpenings)
	next, all := apart.firstOpeners(), []Miss(nil)
	for instances, bound := 0, math.Inf(1); next.Len() > 0 && instances < MostOpenings; instances++ {
		o := heap.Pop(&next).(*opener)
		if instances >= max(want, leastOpenings) && o.cost >= bound {
			break
		}
		found.add(union(o.misses, soft), false, 1)
		if all = union(all, o.misses); instances+1 == want {
			bound = costOf(all)
		}
		if o.units < want {
			if more, ok := apart.opening(&o.like.near[o.at], o.placed+1, o.misses); ok {
				heap.Push(&next, &opener{like: o.like, at: o.at, placed: o.placed + 1, units: o.units + 1, misses: more, cost: costOf(more)})
			}
		}
		if o.units == 1 {
			apart.pushFirst(&next, o.like, o.at+1)
		}
	}
	slices.SortStableFunc(found, func(a, b Opening) int { return cmp.Compare(a.Cost, b.Cost) })
	return found, nil
}

// again searches the same hosts by another query. With passing, hosts that pass without a change have openings too.
func (n *nearMissSearch) again(q *Query, together int, passing bool) (*nearMissSearch, error) {
	other, err := n.s.before.newNearMissSearch(q, together)
	if err == nil {
		other.passing = passing
		_, err = other.search()
	}
	return other, err
}

// openingList joins openings with the same change.
type openingList []Opening

func (l *openingList) add(misses []Miss, together bool, instances int) {
	misses = slices.Clone(misses)
	slices.SortFunc(misses, compareMisses)
	at := slices.IndexFunc(*l, func(o Opening) bool { return o.Together == together && slices.EqualFunc(o.Misses, misses, sameChange) })
	switch {
	case at < 0:
		*l = append(*l, Opening{Misses: misses, Cost: costOf(misses), Instances: instances, Together: together})
	case !together:
		(*l)[at].Instances += instances
	}
}

// opener is a host that can hold one more instance than placed, after a change.
type opener struct {
	like   *alikeHosts
	at     int // in like.near
	placed int
	units  int // how many openings of the host there are up to this one
	misses []Miss
	cost   float64
}

// openers is a heap, the least change first.
type openers []*opener

func (h openers) Len() int           { return len(h) }
func (h openers) Less(i, k int) bool { return h[i].cost < h[k].cost }
func (h openers) Swap(i, k int)      { h[i], h[k] = h[k], h[i] }
func (h *openers) Push(x any)        { *h = append(*h, x.(*opener)) }
func (h *openers) Pop() any {
	last := len(*h) - 1
	o := (*h)[last]
	*h = (*h)[:last]
	return o
}

// firstOpeners has, for each set of failed checks, the nearest host that a change of the request can open.
func (n *nearMissSearch) firstOpeners() openers {
	var next openers
	for _, like := range n.alike {
		if !slices.ContainsFunc(like.checks, func(i int) bool { return n.s.checks[i].filter == HostFilter }) {
			n.pushFirst(&next, like, 0)
		}
	}
	return next
}

// pushFirst adds the first opening of a host, or of the next host of its kind that has one.
func (n *nearMissSearch) pushFirst(next *openers, like *alikeHosts, at int) {
	for ; at < len(like.near) && !n.s.halted; at++ {
		h := &like.near[at]
		placed := n.unitsOn(h.chunk.rows.v[h.slot].host.UUID) - 1
		m, _ := n.nearMiss(like, h)
		misses, ok := m.Misses, m.Changeable
		if !ok && !slices.ContainsFunc(misses, func(x Miss) bool { return !x.Changeable }) {
			misses, ok = n.opening(h, placed, misses) // more misses may appear after these are changed
		}
		if ok && (len(misses) > 0 || n.passing) {
			heap.Push(next, &opener{like: like, at: at, placed: placed, units: 1, misses: misses, cost: costOf(misses)})
			return
		}
	}
}

// opening gives the change with which a host holds one more instance than placed. It extends misses, the change for
// those that are placed; false if no change of the request suffices.
func (n *nearMissSearch) opening(h *nearHost, placed int, misses []Miss) ([]Miss, bool) {
	before := n.s.before.row(number(h.at)*chunkSize + number(h.slot))
	for {
		s, at := n.scanWithout(misses, h, placed)
		if s == nil {
			return nil, false
		}
		if s.filter(h.at, at) != 0 {
			return misses, true
		}
		more := misses
		s.spread = 0
		for i := range s.checks {
			k := &s.checks[i]
			if at.valid&k.pass(h.at, at, at.valid) != 0 {
				continue
			}
			m := n.s.q.Request.miss(k.filter, k.detail, before, placed+1)
			if !m.Changeable {
				return nil, false
			}
			more = union(more, []Miss{m})
		}
		if slices.EqualFunc(more, misses, sameChange) {
			return nil, false
		}
		misses = more
	}
}

// askTogether makes checks of amounts fail if the host does not have the amount for all instances together.
func (n *nearMissSearch) askTogether(c *chunk) {
	for _, i := range n.amounts {
		class := n.s.checks[i].detail
		asked := amountOf(n.s.q.Request.Resources, class)
		for m := c.valid; m != 0; m &= m - 1 {
			slot := bits.TrailingZeros64(m)
			if now, _ := c.rows.v[slot].most(class, asked, n.together, n.s.q.Request.Tree != nil); now < asked {
				n.passed[i] &^= 1 << slot
			}
		}
	}
}

// amountOf gives the amount of a class; 0 if it is not in the list.
func amountOf(list []Amount, class string) int64 {
	for _, a := range list {
		if a.Class == class {
			return a.N
		}
	}
	return 0
}

func compareMisses(a, b Miss) int {
	return cmp.Or(cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Detail, b.Detail))
}

// sameChange reports whether two misses make the same change of a request.
func sameChange(a, b Miss) bool {
	return a.Filter == b.Filter && a.Detail == b.Detail && a.Most == b.Most
}

// changeKey is equal for changes with equal misses in the same order.
func changeKey(misses []Miss) string {
	var key []byte
	for i := range misses {
		m := &misses[i]
		key = append(append(append(append(key, m.Filter...), 0), m.Detail...), 0)
		key = append(strconv.AppendInt(key, m.Most, 10), 0)
	}
	return string(key)
}

func costOf(misses []Miss) float64 {
	sum := 0.0
	for i := range misses {
		sum += misses[i].cost()
	}
	return sum
}

// union gives the least change that contains both.
func union(a, b []Miss) []Miss {
	out := slices.Clone(a)
	for _, m := range b {
		at := slices.IndexFunc(out, func(x Miss) bool { return compareMisses(x, m) == 0 })
		if at < 0 {
			out = append(out, m)
		} else if m.Most < out[at].Most {
			out[at] = m
		}
	}
	return out
}

// contains reports whether change a contains change b.
func contains(a, b []Miss) bool {
	return !slices.ContainsFunc(b, func(m Miss) bool {
		return !slices.ContainsFunc(a, func(x Miss) bool { return compareMisses(x, m) == 0 && x.Most <= m.Most })
	})
}

const (
	// mostLooked bounds the changes that LeastChanges examines; mostUnfit bounds how many of them may fail fits.
	mostLooked, mostUnfit = 2000, 8
)

// LeastChanges gives changes with which the openings have room for that many further instances, and fits reports that
// the whole request fits. They are the cheapest ones, one of each kind (LeastOfEachKind), most at most. After
// mostLooked changes, or mostUnfit that do not fit, it may miss others, also cheaper ones.
func LeastChanges(openings []Opening, instances, most int, fits func([]Miss) bool) (found []Change) {
	slices.SortStableFunc(openings, func(a, b Opening) int { return cmp.Compare(a.Cost, b.Cost) })
	openings = openings[:min(len(openings), MostOpenings)]
	enough := func(change []Miss) bool {
		found := 0
		for i := range openings {
			o := &openings[i]
			if contains(change, o.Misses) {
				if found += o.Instances; found >= instances || o.Together {
					return true
				}
			}
		}
		return false
	}
	// Changes are examined in order of cost. Each is a union of openings, and grows by the smallest openings that it
	// does not contain yet.
	next := openers{{}}
	seen := map[string]bool{}
	unfit := 0
	for looked := 0; next.Len() > 0 && looked < mostLooked; looked++ {
		o := heap.Pop(&next).(*opener)
		key := changeKey(o.misses)
		if seen[key] || slices.ContainsFunc(found, func(c Change) bool { return sameConditions(o.misses, c.Misses) }) {
			continue
		}
		seen[key] = true
		if enough(o.misses) {
			if fits(o.misses) {
				if found = append(found, Change{Misses: o.misses, Cost: o.cost}); len(found) == most {
					return found
				}
				continue
			}
			if unfit++; unfit == mostUnfit {
				return found
			}
		}
		var least [][]Miss
		for i := range openings {
			m := openings[i].Misses
			if contains(o.misses, m) || slices.ContainsFunc(least, func(x []Miss) bool { return contains(m, x) }) {
				continue
			}
			least = append(least, m)
			grown := union(o.misses, m)
			slices.SortFunc(grown, compareMisses)
			heap.Push(&next, &opener{misses: grown, cost: costOf(grown)})
		}
	}
	var all []Miss
	for i := range openings {
		if all = union(all, openings[i].Misses); len(found) == 0 && !openings[i].Together && enough(all) {
			if fits(all) {
				return []Change{{Misses: all, Cost: costOf(all)}}
			}
			break
		}
	}
	return found
}
