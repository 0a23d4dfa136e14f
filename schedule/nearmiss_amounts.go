package schedule

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"cellgate/schedule/hardware"
)

// triesAmounts reports whether only a trial shows how much of a class fits on a host: CPUs and memory must fit on
// NUMA cells together, or there is a fallback.
func (r *Request) triesAmounts() bool { return r.nova().NUMA != nil || r.Fallback != nil }

// scaledAmount is an amount of a request that can be lowered together with the parts of the request that depend on
// it.
type scaledAmount struct {
	class string
	asked int64
	// cells is the number of the guest's NUMA cells, which have equal parts of the amount; 1 without NUMA. extra is
	// only in the first cell: a CPU for emulator threads.
	cells, extra int64
	// fallback is the class that the fallback asks for instead; empty for none.
	fallback string
}

// scaleOf gives the scaledAmount of a class; false if the request does not define what a lower amount would be.
func (r *Request) scaleOf(class string) (s scaledAmount, ok bool) {
	s = scaledAmount{class: class, asked: amountOf(r.Resources, class), cells: 1}
	if mixed := amountOf(r.Resources, "PCPU") > 0 && amountOf(r.Resources, "VCPU") > 0; !neededClasses[class] || s.asked == 0 || mixed && class != "MEMORY_MB" {
		return s, false // under the policy mixed, a mask says which CPUs are dedicated
	}
	if guest := r.nova().NUMA; guest != nil {
		s.cells, s.extra = int64(len(guest.Cells)), s.asked
		for i := range guest.Cells {
			c := &guest.Cells[i]
			if c.Policy == hardware.CPUMixed || cellAmount(c, class) == 0 || cellAmount(c, class) != cellAmount(&guest.Cells[0], class) {
				return s, false
			}
			s.extra -= cellAmount(c, class)
		}
		if s.extra != 0 && (s.extra != 1 || !guest.IsolateEmulator || class == "MEMORY_MB") {
			return s, false
		}
	}
	if f := r.Fallback; f != nil {
		other := cmp.Or(fallbackClass[class], class)
		n := amountOf(f.Resources, other)
		if other != class && r.nova().NUMA == nil {
			s.extra = s.asked - n
		}
		if other != class {
			s.fallback = other
		}
		if n == 0 || s.extra < 0 || s.extra > 1 || n != s.asked-s.extra {
			return s, false
		}
	}
	return s, true
}

// fallbackClass is the class that a fallback asks for instead of another.
var fallbackClass = map[string]string{"PCPU": "VCPU"}

// cellAmount is a guest cell's part of a class.
func cellAmount(c *hardware.InstanceCell, class string) int64 {
	if class == "MEMORY_MB" {
		return c.MemoryMB
	}
	return int64(c.CPUs + c.Dedicated)
}

// allows reports whether an amount can be requested.
func (s *scaledAmount) allows(n int64) bool {
	return n > s.extra && n <= s.asked && (n-s.extra)%s.cells == 0
}

// scales gives the scaledAmounts of CPUs and memory.
func (r *Request) scales() (list []scaledAmount) {
	for _, class := range slices.Sorted(maps.Keys(neededClasses)) {
		if s, ok := r.scaleOf(class); ok {
			list = append(list, s)
		}
	}
	return list
}

// amountSteps are amounts at equal distances. A host with room for one has room for each smaller one.
type amountSteps struct{ first, step, count int64 }

func (a amountSteps) at(i int64) int64 { return a.first + i*a.step }

// stepsOn gives the amounts below the requested one that may fit on a host. There is one list for each inventory and
// each memory page size, because their bounds differ.
func (s *scaledAmount) stepsOn(r *row) (list []amountSteps) {
	sizes := []int64{1}
	if s.class == "MEMORY_MB" {
		for _, size := range r.hardware().PageSizes() {
			sizes = append(sizes, max(1, size>>10))
		}
		slices.Sort(sizes)
		sizes = slices.Compact(sizes)
	}
	add := func(least, step, of int64) { // of is how much less the inventory is asked for
		for _, size := range sizes {
			every := lcm(s.cells*size, step)
			first := s.extra + s.cells*size*max(1, (least+of-s.extra+s.cells*size-1)/(s.cells*size))
			for range step {
				if first >= s.asked || (first-of)%step == 0 {
					break
				}
				first += s.cells * size
			}
			if first < s.asked && (first-of)%step == 0 {
				list = append(list, amountSteps{first, every, (s.asked-1-first)/every + 1})
			}
		}
	}
	known := false
	inventories := func(resources []Resource) {
		for i := range resources {
			x := &resources[i]
			switch least, step := max(x.MinUnit, 1), max(x.StepSize, 1); {
			case x.Class == s.class:
				add(least, step, 0)
			case s.fallback != "" && x.Class == s.fallback:
				add(least, step, s.extra)
			default:
				continue
			}
			known = true
		}
	}
	inventories(r.host.Resources)
	for i := range r.host.Children {
		inventories(r.host.Children[i].Resources)
	}
	if !known {
		add(1, 1, 0)
	}
	slices.SortFunc(list, func(a, b amountSteps) int {
		return slices.Compare([]int64{a.first, a.step, a.count}, []int64{b.first, b.step, b.count})
	})
	return slices.Compact(list)
}

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// mostAmountTries bounds the trials of other amounts on hosts. Beyond it, the change found still fits, but may not be
// the smallest over all hosts.
const mostAmountTries = 100_000

// amountSearch finds the least changes for hosts that fail the same checks, if only a trial shows what fits.
type amountSearch struct {
	*nearMissSearch
	like *alikeHosts
	// compiled are scans of changed requests, by their change.
	compiled map[string]*scan
}

// changesByAmounts gives the least change of each kind that lets one of the alike hosts pass.
func (n *nearMissSearch) changesByAmounts(like *alikeHosts) (list []NearMiss) {
	a := &amountSearch{n, like, map[string]*scan{}}
	r := n.s.q.Request
	bases := [][]Miss{nil}
	for _, m := range []Miss{{Filter: NUMAFilter}, {Filter: TraitFilter, Detail: hyperthreading}, {Filter: TraitFilter, Detail: "!" + hyperthreading}} {
		list, detail := r.Required, m.Detail
		if forbidden, is := strings.CutPrefix(detail, "!"); is {
			list, detail = r.Forbidden, forbidden
		}
		if m.Filter == NUMAFilter && r.nova().NUMA != nil || slices.Contains(list, detail) {
			m.Changeable = true
			bases = append(bases, []Miss{m})
		}
	}
	for _, dropped := range bases {
		scales := r.Relaxed(dropped).scales()
		alone := math.Inf(1) // the least cost with at most one amount lowered
		for lowered := 0; lowered < 1<<len(scales); lowered++ {
			var some []scaledAmount
			for i := range scales {
				if lowered>>i&1 != 0 {
					some = append(some, scales[i])
				}
			}
			below := math.Inf(1)
			if len(some) > 1 {
				below = alone
			}
			m := a.least(dropped, some, below)
			if !m.Changeable {
				continue
			}
			list = append(list, m)
			alone = min(alone, m.Cost)
		}
	}
	return list
}

// least gives the host that passes with the least change that lowers these amounts, of at most two classes, if it
// costs less than below. Only conditions that are needed stay in the change.
func (a *amountSearch) least(dropped []Miss, scales []scaledAmount, below float64) (best NearMiss) {
	var at *nearHost
	for i := range a.like.near {
		if a.s.stop() {
			return NearMiss{}
		}
		h := &a.like.near[i]
		base, ok := a.otherMisses(h, dropped)
		if !ok {
			return best // nor can the others: they are alike
		}
		if len(base)+len(scales) == 0 || costOf(base) >= below {
			continue
		}
		if misses := a.leastOn(h, base, scales, below); misses != nil {
			below, at = costOf(misses), h
			best.Misses = misses
		}
	}
	if at == nil {
		return best
	}
	misses := a.nearMissSearch.least(best.Misses, at)[0]
	best = a.describe(a.like, at)
	best.Misses, best.Cost, best.Changeable = misses, costOf(misses), true
	for i := range misses {
		m := &misses[i]
		for _, class := range []string{m.Detail, fallbackClass[m.Detail]} {
			if bound, value := at.chunk.rows.v[at.slot].boundOf(class, m.Asked, true); m.Filter == ResourceFilter && m.Bound == "" && value == m.Most {
				m.Bound, m.BoundAt = bound, value // else its NUMA cells bound it
			}
		}
	}
	return best
}

// otherMisses are the dropped conditions and those that a host does not meet, except CPUs, memory and NUMA cells;
// false if the request cannot change one.
func (a *amountSearch) otherMisses(h *nearHost, dropped []Miss) (misses []Miss, ok bool) {
	for _, i := range a.like.checks {
		k := &a.s.checks[i]
		if k.filter == NUMAFilter || k.filter == ResourceFilter && (neededClasses[k.detail] || strings.ContainsAny(k.detail, "|,")) {
			continue
		}
		m := a.miss(i, h.chunk.rows.v[h.slot])
		if !m.Changeable {
			return nil, false
		}
		misses = append(misses, m)
	}
	return union(misses, dropped), true
}

// leastOn gives the least change that lowers all of these amounts and lets a host pass; nil if none costs less than
// below.
func (a *amountSearch) leastOn(h *nearHost, base []Miss, scales []scaledAmount, below float64) (found []Miss) {
	fits := func(amounts ...int64) bool { return a.fitsOn(h, withAmounts(base, scales, amounts)) }
	try := func(amounts ...int64) {
		if m := withAmounts(base, scales, amounts); costOf(m) < below {
			below, found = costOf(m), m
		}
	}
	r := h.chunk.rows.v[h.slot]
	switch len(scales) {
	case 0:
		if fits() {
			try()
		}
	case 1:
		for _, s := range scales[0].stepsOn(r) {
			from := s.above(&scales[0], below-costOf(base))
			if i := greatest(from, s.count, func(i int64) bool { return fits(s.at(i)) }); i >= 0 {
				try(s.at(i))
			}
		}
	case 2:
		for _, x := range scales[0].stepsOn(r) {
			for _, y := range scales[1].stepsOn(r) {
				// From more of the first amount to more of the second. No other pair of amounts that fits is as great
				// in both.
				k := y.above(&scales[1], below-costOf(base))
				for k < y.count {
					from := x.above(&scales[0], below-costOf(base))
					i := greatest(from, x.count, func(i int64) bool { return fits(x.at(i), y.at(k)) })
					if i < 0 {
						break
					}
					k = greatest(k, y.count, func(k int64) bool { return fits(x.at(i), y.at(k)) })
					try(x.at(i), y.at(k))
					k++
				}
			}
		}
	}
	return found
}

// above gives the index of the first amount that costs less than cost.
func (a amountSteps) above(s *scaledAmount, cost float64) int64 {
	return int64(sort.Search(int(a.count), func(i int) bool {
		return (&Miss{Asked: s.asked, Most: a.at(int64(i)), Changeable: true}).cost() < cost
	}))
}

// greatest gives the greatest index from from to count-1 that is ok, if each smaller index is ok too; -1 if from is
// not.
func greatest(from, count int64, ok func(int64) bool) int64 {
	if from >= count || !ok(from) {
		return -1
	}
	if count--; from < count && ok(count) {
		return count
	}
	for count-from > 1 {
		if mid := (from + count) / 2; ok(mid) {
			from = mid
		} else {
			count = mid
		}
	}
	return from
}

// withAmounts adds lowered amounts to a change.
func withAmounts(base []Miss, scales []scaledAmount, amounts []int64) []Miss {
	out := slices.Clip(base)
	for i, s := range scales {
		out = append(out, Miss{Filter: ResourceFilter, Detail: s.class, Asked: s.asked, Most: amounts[i], Changeable: true})
	}
	return out
}

// fitsOn reports whether a host passes the changed request.
func (a *amountSearch) fitsOn(h *nearHost, change []Miss) bool {
	if a.amountTries >= mostAmountTries || a.s.stop() {
		return false
	}
	a.amountTries++
	key := changeKey(change)
	s, ok := a.compiled[key]
	if !ok {
		s = a.scanWithout(change)
		a.compiled[key] = s
	}
	return h.passes(s)
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

// amountOf gives the amount of a class; 0 if it is not in the list.
func amountOf(list []Amount, class string) int64 {
	for _, a := range list {
		if a.Class == class {
			return a.N
		}
	}
	return 0
}
