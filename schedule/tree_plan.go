package schedule

import (
	"slices"

	"cellgate/schedule/hardware"
)

// treePlan is what a request asks of trees, with numbers for names. It is made once and used for any host.
type treePlan struct {
	request *Request
	nova    *NovaRequest
	// classes are all classes that the request asks for.
	classes []string
	// questions are the request's own query and its fallback's.
	questions []treeQuestion
}

// treeQuestion is one of the two queries.
type treeQuestion struct {
	*Fallback
	// rootRequired and rootForbidden are the root's traits.
	rootRequired  []string
	rootForbidden []string
	// together are traits that the providers of the unsuffixed group must have between them.
	together []string
	// slots are to be placed: first the groups, then each of Resources.
	slots  []treeSlot
	groups int
	// totals are the sums of all slots' amounts, by class.
	totals []int64
}

// treeSlot is placed on one provider.
type treeSlot struct {
	// group is nil for an amount of the unsuffixed group.
	group     *ResourceGroup
	amounts   []treeAmount
	required  []string
	forbidden []string
	// twin: the slot is equal to the one before it, and neither depends on another.
	twin bool
	// sets are the sets of SameSubtree that contain the slot.
	sets [][]int
}

// treeAmount is an amount of one of the plan's classes.
type treeAmount struct {
	class int
	n     int64
}

func newTreePlan(q *Request) *treePlan {
	p := &treePlan{request: q, nova: q.nova()}
	p.add(&Fallback{q.Resources, q.Required, q.Forbidden})
	if q.Fallback != nil {
		p.add(q.Fallback)
	}
	for i := range p.questions {
		a := &p.questions[i]
		a.totals = make([]int64, len(p.classes))
		for k := range a.slots {
			for _, x := range a.slots[k].amounts {
				a.totals[x.class] += x.n
			}
		}
	}
	return p
}

func (p *treePlan) add(f *Fallback) {
	a, tree := treeQuestion{Fallback: f}, p.request.Tree
	if tree == nil {
		p.questions = append(p.questions, a)
		return
	}
	for _, t := range f.Required {
		if slices.Contains(tree.Required, t) {
			a.together = append(a.together, t)
		}
		if !tree.spreads(t, tree.Required) {
			a.rootRequired = append(a.rootRequired, t)
		}
	}
	var forbidden []string
	for _, t := range f.Forbidden {
		if slices.Contains(tree.Forbidden, t) {
			forbidden = append(forbidden, t)
		}
		if !tree.spreads(t, tree.Forbidden) {
			a.rootForbidden = append(a.rootForbidden, t)
		}
	}
	a.groups = len(tree.Groups)
	for i := range tree.Groups {
		g := &tree.Groups[i]
		a.slots = append(a.slots, treeSlot{
			group: g, amounts: p.amounts(g.Resources), required: g.Required, forbidden: g.Forbidden, twin: tree.twin(i, p.nova),
		})
	}
	for i := range f.Resources {
		a.slots = append(a.slots, treeSlot{amounts: p.amounts(f.Resources[i : i+1]), forbidden: forbidden})
	}
	for _, set := range tree.SameSubtree {
		var of []int
		for i := range tree.Groups {
			if slices.Contains(set, tree.Groups[i].Suffix) {
				of = append(of, i)
			}
		}
		for _, i := range of {
			a.slots[i].sets = append(a.slots[i].sets, of)
		}
	}
	p.questions = append(p.questions, a)
}

func (p *treePlan) amounts(of []Amount) []treeAmount {
	out := make([]treeAmount, len(of))
	for i, a := range of {
		class := slices.Index(p.classes, a.Class)
		if class < 0 {
			class = len(p.classes)
			p.classes = append(p.classes, a.Class)
		}
		out[i] = treeAmount{class, a.N}
	}
	return out
}

// twin reports whether a group equals the one before it, and neither depends on other groups. Then the two need not
// be tried in each other's place.
func (t *Tree) twin(at int, n *NovaRequest) bool {
	if at == 0 {
		return false
	}
	a, b := &t.Groups[at-1], &t.Groups[at]
	return slices.Equal(a.Resources, b.Resources) && slices.Equal(a.Required, b.Required) && slices.Equal(a.Forbidden, b.Forbidden) &&
		slices.EqualFunc(a.MemberOf, b.MemberOf, slices.Equal) && slices.Equal(a.ForbiddenAggregates, b.ForbiddenAggregates) &&
		!slices.ContainsFunc(t.SameSubtree, func(set []string) bool {
			return slices.Contains(set, a.Suffix) || slices.Contains(set, b.Suffix)
		}) &&
		!slices.ContainsFunc(n.PCI, func(r hardware.PCIRequest) bool {
			return slices.Contains(r.Groups, a.Suffix) != slices.Contains(r.Groups, b.Suffix)
		})
}
