package placement

import (
	"fmt"
	"slices"
)

// Query is the query of GET /allocation_candidates.
type Query struct {
	// Groups have distinct suffixes. The group without a suffix, if any, asks for resources, which may come from
	// several providers of a tree and those that share with it. Each group with a suffix is on one provider, and asks
	// for resources unless a set of SameSubtrees names it.
	Groups []Group
	// Isolate is group_policy=isolate: groups with a suffix are on different providers.
	Isolate bool
	// SameSubtrees are sets of suffixes: one provider of each set's groups is an ancestor of the others, or the same.
	SameSubtrees [][]string
	// RootTraits is root_required: traits of the tree's root, whether it provides anything or not.
	RootTraits Filter
	// Limit bounds the number of requests in the answer; 0 for all.
	Limit int
	// Nested is true for microversion 1.29 and newer. Else a request takes from only one provider of a tree.
	Nested bool
	// MaxRequests and MaxSteps bound the answer and the search; 0 for DefaultMaxRequests and DefaultMaxSteps. If one
	// does not suffice, Candidates returns a *BoundError.
	MaxRequests, MaxSteps int
}

// DefaultMaxRequests requests take about 50 MB.
const DefaultMaxRequests = 100_000

// DefaultMaxSteps steps take about a second. A step puts one group on one provider.
const DefaultMaxSteps = 10_000_000

// Group is what one group asks for.
type Group struct {
	Suffix string
	// Resources are amounts by class, each at least 1.
	Resources map[string]int64
	// Traits and Aggregates (uuids) are those of the provider, for a group with a suffix. Without a suffix, the
	// providers have the required traits together, and none has a forbidden one. Each provider or its root is in the
	// aggregates.
	Traits, Aggregates Filter
	// InTree is the uuid of any provider of the tree that the resources come from; empty for any tree.
	InTree string
}

// Filter restricts names: at least one of every set in AnyOf, and none of Forbidden.
type Filter struct {
	AnyOf     [][]string
	Forbidden []string
}

// matches reports whether sorted names pass.
func (f *Filter) matches(names []string) bool {
	return f.hasAll(names) && !f.hasForbidden(names)
}

func (f *Filter) hasAll(names []string) bool {
	for _, set := range f.AnyOf {
		if !slices.ContainsFunc(set, func(s string) bool { return contains(names, s) }) {
			return false
		}
	}
	return true
}

func (f *Filter) hasForbidden(names []string) bool {
	return slices.ContainsFunc(f.Forbidden, func(s string) bool { return contains(names, s) })
}

// Result is the answer to a Query.
type Result struct {
	// Requests are in the order of their trees; Placement's order is undefined.
	Requests []Request
	// Providers are those to be summarized: all of every tree that a request takes from. If the query is not Nested,
	// they are only those that a request takes from. Before microversion 1.27 a summary lists only classes that some
	// group asks for.
	Providers []*Provider
}

// Request is one way to allocate what the query asks for.
type Request struct {
	// Allocations list each provider and class once, those of a provider together.
	Allocations []Allocation
	// Mappings are in the order of the query's groups.
	Mappings []Mapping
}

// Allocation is an amount of a class of a provider.
type Allocation struct {
	Provider *Provider
	Class    string
	Amount   int64
}

// Mapping lists the providers that serve a group, each once.
type Mapping struct {
	Suffix    string
	Providers []*Provider
}

// QueryError is the error of an invalid query.
type QueryError struct{ Reason string }

func (e *QueryError) Error() string { return "allocation candidates: " + e.Reason }

// BoundError is the error of a query with more ways than Candidates returns or tries. Fewer groups, a limit, in_tree
// or more traits help.
type BoundError struct {
	// Requests or Steps is the bound that did not suffice; the other is 0.
	Requests, Steps int
	// Root is the uuid of the tree in which the search ended.
	Root string
}

func (e *BoundError) Error() string {
	if e.Requests > 0 {
		return fmt.Sprintf("there are more than %d allocation candidates: ask with a limit", e.Requests)
	}
	return fmt.Sprintf("no answer after trying %d ways to put groups on providers, in the tree of %s: ask for fewer groups, or narrow them", e.Steps, e.Root)
}

func (q *Query) validate() error {
	suffixes := make(map[string]bool, len(q.Groups))
	for i := range q.Groups {
		g := &q.Groups[i]
		if suffixes[g.Suffix] {
			return &QueryError{fmt.Sprintf("two groups have the suffix %q", g.Suffix)}
		}
		suffixes[g.Suffix] = true
		for class, amount := range g.Resources {
			if amount < 1 {
				return &QueryError{fmt.Sprintf("the amount %d of %s is less than 1", amount, class)}
			}
		}
	}
	for _, set := range q.SameSubtrees {
		for _, s := range set {
			if s == "" || !suffixes[s] {
				return &QueryError{fmt.Sprintf("same_subtree names the suffix %q, which no group has", s)}
			}
		}
	}
	for i := range q.Groups {
		g := &q.Groups[i]
		if len(g.Resources) == 0 && !slices.ContainsFunc(q.SameSubtrees, func(set []string) bool { return slices.Contains(set, g.Suffix) }) {
			return &QueryError{fmt.Sprintf("the group with the suffix %q has no resources, and same_subtree does not name it", g.Suffix)}
		}
	}
	return nil
}
