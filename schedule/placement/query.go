package placement

import (
	"fmt"
	"slices"
)

// Query is GET /allocation_candidates.
type Query struct {
	// Groups have distinct suffixes. The one without, if any, asks for resources, which may be of several providers of
	// a tree and of those that share with it. Those with a suffix are each of one provider, and ask for resources
	// unless a set of SameSubtrees names them.
	Groups []Group
	// Isolate is group_policy=isolate: groups with a suffix are of different providers.
	Isolate bool
	// SameSubtrees are sets of suffixes: of the providers of each set one is the ancestor of the others, or the same.
	SameSubtrees [][]string
	// RootTraits is root_required: of the root of the tree, whatever it provides.
	RootTraits Filter
	// Limit is how many requests the answer has at most; 0 for all.
	Limit int
	// Nested is microversion 1.29 and newer. Without it a request takes from one provider of a tree only.
	Nested bool
	// MaxRequests and MaxSteps bound answer and search; 0 for DefaultMaxRequests and DefaultMaxSteps. Candidates
	// returns a *BoundError when one does not suffice.
	MaxRequests, MaxSteps int
}

// DefaultMaxRequests of an answer take about 50 MB.
const DefaultMaxRequests = 100_000

// DefaultMaxSteps, each of which puts one group on one provider, take about a second.
const DefaultMaxSteps = 10_000_000

// Group is what one group asks for.
type Group struct {
	Suffix string
	// Resources are amounts by class, each at least 1.
	Resources map[string]int64
	// Traits and Aggregates (uuids) are of the provider of a group with a suffix. Without a suffix: providers have the
	// traits together, and each of them lacks those forbidden; the aggregates are of each provider or of its root.
	Traits, Aggregates Filter
	// InTree is the uuid of any provider of the tree that provides the resources; empty for any tree.
	InTree string
}

// Filter asks for names: of every set in AnyOf at least one, and none of Forbidden.
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

// Result is the answer.
type Result struct {
	// Requests in the order of the trees that they are of; Placement has none that one could rely on.
	Requests []Request
	// Providers are those to be summarized: all of every tree that a request takes from, or, when the query is not
	// Nested, those that a request takes from. Before microversion 1.27 a summary has only those classes that some
	// group asks for.
	Providers []*Provider
}

// Request is one way to allocate what is asked for.
type Request struct {
	// Allocations have each provider and class once, those of a provider together.
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

// Mapping says which providers serve a group, each once.
type Mapping struct {
	Suffix    string
	Providers []*Provider
}

// QueryError is a query that asks for nothing sensible.
type QueryError struct{ Reason string }

func (e *QueryError) Error() string { return "allocation candidates: " + e.Reason }

// BoundError says that the query has more ways than Candidates returns or tries. Fewer groups, a limit, in_tree or
// more traits help.
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
