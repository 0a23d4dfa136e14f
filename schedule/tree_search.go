package schedule

import (
	"cmp"
	"slices"

	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// maxTreeSteps bounds the tries of providers for one host's groups and classes; beyond it the host counts as
// unreadable.
const maxTreeSteps = 50_000

// stopEverySteps is the number of these tries between calls of stop.
const stopEverySteps = 64

// treeSearch finds an allocation candidate on one host, by Placement's rules
// (placement/objects/allocation_candidate.py). Each suffixed group is on one provider that has all of its traits.
// Each class of the unsuffixed group is on any provider of the tree. All amounts on one provider must be within its
// capacity and max_unit together.
//
// The naive way makes every combination and then checks it. Here each group and class first gets a list of the
// providers that suit it by themselves, so most hosts without a candidate fail at an empty list. Then they are placed
// one after the other, those with the fewest providers first, with backtracking. Each tries the root before its
// children, and these in their order.
//
// The zero value is ready. A search is reused from host to host, and keeps its buffers.
type treeSearch struct {
	plan     *treePlan
	question *treeQuestion
	// root is the current host's root; providers has it first.
	root       Provider
	aggregates []Aggregate
	providers  []treeProvider
	// By provider and class: resource is the index in its Resources, below 0 for none; room is how much this
	// allocation may still take.
	resource []int
	room     []int64
	// choices are the providers that suit each slot; order is the order in which slots are placed. By slot, at is the
	// index of its current choice, below 0 for none yet, and of is that provider.
	choices [][]int
	order   []int
	at      []int
	of      []int
	steps   int
	// devices judge the providers of PCI devices; err is an exception of theirs, which ends the search.
	devices deviceJudge
	err     *python.Exception
}

// treeProvider is a provider of the host.
type treeProvider struct {
	*Provider
	used []int64
	// groups is how many suffixed groups are on it.
	groups int
	// parent is computed on demand.
	parent int
}

const (
	unknownParent = -2
	noParent      = -1
)

// fits reports whether an instance of the request fits on the host, or the exception that ended the search.
func (s *treeSearch) fits(r *row, q *Request, by judging) (bool, *python.Exception) {
	_, ok, err := s.find(r, q, by)
	return ok, err
}

// allocation gives what an instance of the request takes of the host. It is nil if that is the request's Resources of
// the root, or if the instance does not fit.
func (s *treeSearch) allocation(r *row, q *Request, by judging) *Allocation {
	question, ok, _ := s.find(r, q, by)
	switch {
	case !ok:
		return nil
	case s.question != nil:
		return s.found()
	case question > 0:
		return AtRoot(r.host.UUID, s.plan.questions[question].Resources)
	}
	return nil
}

// find tries the questions in order. If a search finds the candidate, s.question is set; if the root alone suffices,
// it is nil.
func (s *treeSearch) find(r *row, q *Request, by judging) (question int, ok bool, err *python.Exception) {
	if s.plan == nil || s.plan.request != q {
		s.plan = newTreePlan(q)
	}
	s.devices.begin(r, s.plan.nova, by)
	for i := range s.plan.questions {
		a := &s.plan.questions[i]
		s.question = nil
		if !q.Tree.groups() && r.rootFits(a.Resources, a.Required, a.Forbidden) {
			return i, true, nil
		}
		if q.Tree == nil || !q.Tree.groups() && len(r.host.Children) == 0 {
			continue
		}
		if !qualifies(r.host.Traits, a.rootRequired, a.rootForbidden) || !r.host.has(q.Tree.Groups) {
			continue
		}
		s.question, s.steps, s.err = a, 0, nil
		s.begin(r)
		if s.choose() && s.place(0) {
			return i, true, nil
		}
		if s.steps > maxTreeSteps {
			s.err = errTooManyWays
		}
		err = cmp.Or(err, s.err)
	}
	return 0, false, err
}

// has reports whether the host's tree has the provider InTree of every group.
func (h *Host) has(groups []ResourceGroup) bool {
	for i := range groups {
		in := groups[i].InTree
		if in != (ID{}) && in != h.UUID && !slices.ContainsFunc(h.Children, func(c Provider) bool { return c.UUID == in }) {
			return false
		}
	}
	return true
}

// begin loads the host's providers.
func (s *treeSearch) begin(r *row) {
	h, classes := r.host, len(s.plan.classes)
	s.aggregates = h.Aggregates
	s.root = Provider{UUID: h.UUID, Traits: h.Traits, Resources: h.Resources}
	s.providers = append(s.providers[:0], treeProvider{Provider: &s.root, used: r.used, parent: noParent})
	for i := range h.Children {
		s.providers = append(s.providers, treeProvider{Provider: &h.Children[i], used: r.childUsed[i], parent: unknownParent})
	}
	s.resource, s.room = s.resource[:0], s.room[:0]
	for p := range s.providers {
		x, from := &s.providers[p], p*classes
		for range classes {
			s.resource, s.room = append(s.resource, -1), append(s.room, 0)
		}
		for i := range x.Resources {
			if class := slices.Index(s.plan.classes, x.Resources[i].Class); class >= 0 {
				s.resource[from+class], s.room[from+class] = i, most(&x.Resources[i], x.used[i])
			}
		}
	}
}

// choose lists the providers that suit each slot; false if a slot has none, or all providers together do not have
// enough.
func (s *treeSearch) choose() bool {
	classes := len(s.plan.classes)
	for class, left := range s.question.totals {
		for p := class; left > 0 && p < len(s.room); p += classes {
			left -= max(0, min(left, s.room[p]))
		}
		if left > 0 {
			return false
		}
	}
	slots := s.question.slots
	for len(s.choices) < len(slots) {
		s.choices = append(s.choices, nil)
	}
	s.at, s.of, s.order = s.at[:0], s.of[:0], s.order[:0]
	for i := range slots {
		s.at, s.of, s.order = append(s.at, -1), append(s.of, 0), append(s.order, i)
		of := s.choices[i][:0]
		if slots[i].twin {
			of = append(of, s.choices[i-1]...)
		} else {
			for p := range s.providers {
				if s.suitsSlot(p, &slots[i]) {
					of = append(of, p)
				}
			}
		}
		if s.choices[i] = of; len(of) == 0 {
			return false
		}
	}
	// Stable, so twins stay next to each other.
	slices.SortStableFunc(s.order, func(a, b int) int { return cmp.Compare(len(s.choices[a]), len(s.choices[b])) })
	return true
}

// suitsSlot reports whether a provider suits a slot, if it serves no other slot.
func (s *treeSearch) suitsSlot(p int, slot *treeSlot) bool {
	x, from := &s.providers[p], p*len(s.plan.classes)
	g := slot.group
	if g != nil && len(slot.amounts)+len(g.Required)+len(g.MemberOf) == 0 {
		return false // Placement finds no provider for a group that only forbids.
	}
	for _, a := range slot.amounts {
		i := s.resource[from+a.class]
		if i < 0 || !x.Resources[i].fits(a.n, x.used[i]) {
			return false
		}
	}
	if g != nil && (len(g.MemberOf) > 0 || len(g.ForbiddenAggregates) > 0) {
		var in []Aggregate // Children are in no aggregate.
		if p == 0 {
			in = s.aggregates
		}
		if !member(in, g.MemberOf, g.ForbiddenAggregates) {
			return false
		}
	}
	return qualifies(x.Traits, slot.required, slot.forbidden)
}

// member reports whether in has an aggregate of each set, and none that is forbidden.
func member(in []Aggregate, sets [][]string, forbidden []string) bool {
	for _, set := range sets {
		if !slices.ContainsFunc(in, func(a Aggregate) bool { return slices.Contains(set, a.UUID) }) {
			return false
		}
	}
	return !slices.ContainsFunc(in, func(a Aggregate) bool { return slices.Contains(forbidden, a.UUID) })
}

// place finds providers for the slots from the n-th in order on.
func (s *treeSearch) place(n int) bool {
	if n == len(s.order) {
		return s.hasUnsuffixedTraits() && s.devicesPass()
	}
	at := s.order[n]
	slot := &s.question.slots[at]
	isolated := slot.group != nil && s.plan.request.Tree.Isolate
	i := 0
	if slot.twin {
		i = s.at[at-1]
	}
	for ; i < len(s.choices[at]); i++ {
		if s.steps++; s.steps > maxTreeSteps || s.err != nil {
			return false
		}
		if s.steps%stopEverySteps == 0 && s.devices.stop != nil && s.devices.stop() {
			s.err = hardware.Stopped
			return false
		}
		p := s.choices[at][i]
		if isolated && s.providers[p].groups > 0 {
			continue
		}
		if s.at[at], s.of[at] = i, p; !s.subtrees(slot.sets) || !s.takeAmounts(p, slot.amounts) {
			continue
		}
		if slot.group != nil {
			s.providers[p].groups++
		}
		if s.place(n + 1) {
			return true
		}
		if slot.group != nil {
			s.providers[p].groups--
		}
		s.give(p, slot.amounts)
	}
	s.at[at] = -1
	return false
}

// takeAmounts takes amounts of different classes from a provider, all or none.
func (s *treeSearch) takeAmounts(p int, amounts []treeAmount) bool {
	room := s.room[p*len(s.plan.classes):]
	for _, a := range amounts {
		if a.n > room[a.class] {
			return false
		}
	}
	for _, a := range amounts {
		room[a.class] -= a.n
	}
	return true
}

func (s *treeSearch) give(p int, amounts []treeAmount) {
	room := s.room[p*len(s.plan.classes):]
	for _, a := range amounts {
		room[a.class] += a.n
	}
}

func qualifies(traits, required, forbidden []string) bool {
	for _, t := range required {
		if !slices.Contains(traits, t) {
			return false
		}
	}
	for _, t := range forbidden {
		if slices.Contains(traits, t) {
			return false
		}
	}
	return true
}

// hasUnsuffixedTraits reports whether the providers of the unsuffixed group have its required traits between them.
func (s *treeSearch) hasUnsuffixedTraits() bool {
	of := s.of[s.question.groups:]
	for _, t := range s.question.together {
		if !slices.ContainsFunc(of, func(p int) bool { return slices.Contains(s.providers[p].Traits, t) }) {
			return false
		}
	}
	return true
}

// devicesPass applies the filters for NUMA cells and devices to the candidate found.
func (s *treeSearch) devicesPass() (ok bool) {
	if s.devices.idle() {
		return true
	}
	ok, s.err = s.devices.pass(s.groupMappings(nil))
	return ok
}

// groupMappings appends the providers of the suffixed groups.
func (s *treeSearch) groupMappings(to []Mapping) []Mapping {
	for i := range s.question.groups {
		to = append(to, Mapping{Suffix: s.question.slots[i].group.Suffix, Providers: []ID{s.providers[s.of[i]].UUID}})
	}
	return to
}

// subtrees checks the sets whose slots are all placed: one slot's provider must be an ancestor of the others', or the
// same.
func (s *treeSearch) subtrees(sets [][]int) bool {
	for _, set := range sets {
		if slices.ContainsFunc(set, func(i int) bool { return s.at[i] < 0 }) {
			continue
		}
		if !slices.ContainsFunc(set, func(top int) bool {
			return !slices.ContainsFunc(set, func(i int) bool { return !s.isWithin(s.of[i], s.of[top]) })
		}) {
			return false
		}
	}
	return true
}

// isWithin reports whether provider p is top or below it.
func (s *treeSearch) isWithin(p, top int) bool {
	for ; p >= 0; p = s.parentOf(p) {
		if p == top {
			return true
		}
	}
	return false
}

func (s *treeSearch) parentOf(p int) int {
	x := &s.providers[p]
	if x.parent == unknownParent {
		x.parent = max(0, slices.IndexFunc(s.providers, func(of treeProvider) bool { return of.UUID == x.Parent }))
	}
	return x.parent
}

// found makes the allocation of the candidate found, by provider; the root comes first.
func (s *treeSearch) found() *Allocation {
	a, classes, slots := &Allocation{}, len(s.plan.classes), s.question.slots
	taken := make([]int64, len(s.room))
	for i := range slots {
		for _, x := range slots[i].amounts {
			taken[s.of[i]*classes+x.class] += x.n
		}
	}
	for p := range s.providers {
		x := &s.providers[p]
		for i := range x.Resources {
			class := slices.Index(s.plan.classes, x.Resources[i].Class)
			if class >= 0 && taken[p*classes+class] > 0 {
				a.Amounts = append(a.Amounts, ProviderAmount{Provider: x.UUID, Class: x.Resources[i].Class, N: taken[p*classes+class]})
			}
		}
	}
	if of := slices.Clone(s.of[s.question.groups:]); len(of) > 0 {
		slices.Sort(of)
		m := Mapping{}
		for _, p := range slices.Compact(of) {
			m.Providers = append(m.Providers, s.providers[p].UUID)
		}
		a.Mappings = append(a.Mappings, m)
	}
	a.Mappings = s.groupMappings(a.Mappings)
	return a
}
