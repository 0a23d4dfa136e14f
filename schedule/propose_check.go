package schedule

import (
	"fmt"
	"math"
	"slices"
)

// QueryError describes an invalid query.
type QueryError struct {
	// Field is the path in Query, with Go's names: "Request.Resources[1].N".
	Field string
	// Problem is a clause: "must be above 0".
	Problem string
}

func (e *QueryError) Error() string { return e.Field + " " + e.Problem }

func bad(field, format string, args ...any) error {
	return &QueryError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// check returns an error if the query is invalid; it does not check names of filters and weighers.
func (q *Query) check() error {
	switch {
	case q == nil:
		return bad("Query", "is missing")
	case q.Request == nil:
		return bad("Request", "is missing")
	case q.Rules == nil:
		return bad("Rules", "are missing")
	case q.Limit < 1:
		return bad("Limit", "is %d, must be at least 1", q.Limit)
	}
	if err := checkAmounts("Request.Resources", q.Request.Resources); err != nil {
		return err
	}
	if f := q.Request.Fallback; f != nil {
		if err := checkAmounts("Request.Fallback.Resources", f.Resources); err != nil {
			return err
		}
	}
	if err := q.Request.Tree.check(); err != nil {
		return err
	}
	if g := q.Request.Group; g != nil {
		switch g.Policy {
		case "", Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity:
		default:
			return bad("Request.Group.Policy", "%q is not a policy", g.Policy)
		}
	}
	weighers := q.Rules.weighers()
	for i, w := range weighers {
		field := func() string { return fmt.Sprintf("Rules.Weighers[%d].Multiplier", i) }
		if math.IsNaN(w.Multiplier) || math.Abs(w.Multiplier) > maxMultiplier {
			return bad(field(), "is %v, must be a number of at most %v", w.Multiplier, maxMultiplier)
		}
		if weigherNotNegative(w.Name) && w.Multiplier < 0 {
			return bad(field(), "is %v, must not be negative for %s", w.Multiplier, w.Name)
		}
	}
	if q.Known == nil || len(q.Known.Bounds) == 0 {
		return nil
	}
	if n := len(q.Known.Bounds); n != len(weighers) {
		return bad("Known.Bounds", "has %d, must have one for each of %d weighers", n, len(weighers))
	}
	for i, b := range q.Known.Bounds {
		// NoBounds has infinities, but with Min > Max.
		if math.IsNaN(b.Min) || math.IsNaN(b.Max) || b.Min <= b.Max && math.IsInf(b.Max-b.Min, 0) {
			return bad(fmt.Sprintf("Known.Bounds[%d]", i), "are [%v, %v], must be finite", b.Min, b.Max)
		}
	}
	return nil
}

// maxMultiplier keeps sums of weights finite.
const maxMultiplier = 1e100

func (r *Rules) weighers() []Weigher {
	if r.Weighers == nil {
		return DefaultWeighers()
	}
	return r.Weighers
}

// filters gives the filters in the configured order, with HostFilter first if it is not among them.
func (r *Rules) filters() []string {
	switch {
	case r.Filters == nil:
		return DefaultFilters()
	case slices.Contains(r.Filters, HostFilter):
		return r.Filters
	}
	return append([]string{HostFilter}, r.Filters...)
}

// HasFilter reports whether the rules name a filter, or the default filters do if the rules name none.
func (r *Rules) HasFilter(name string) bool { return slices.Contains(r.filters(), name) }

func checkAmounts(field string, amounts []Amount) error {
	for i, a := range amounts {
		if a.N < 1 {
			return bad(fmt.Sprintf("%s[%d].N", field, i), "is %d, must be above 0", a.N)
		}
		if slices.ContainsFunc(amounts[:i], func(b Amount) bool { return a.Class == b.Class }) {
			return bad(fmt.Sprintf("%s[%d].Class", field, i), "%q stands twice", a.Class)
		}
	}
	return nil
}

func (t *Tree) check() error {
	if t == nil {
		return nil
	}
	suffixes := map[string]bool{}
	for i, g := range t.Groups {
		field := fmt.Sprintf("Request.Tree.Groups[%d]", i)
		if g.Suffix == "" || suffixes[g.Suffix] {
			return bad(field+".Suffix", "is %q: must not be empty, nor stand twice", g.Suffix)
		}
		suffixes[g.Suffix] = true
		if err := checkAmounts(field+".Resources", g.Resources); err != nil {
			return err
		}
		if g.InTree != (ID{}) && len(g.Resources) == 0 {
			return bad(field+".InTree", "is set without Resources")
		}
	}
	for i, set := range t.SameSubtree {
		for _, suffix := range set {
			if !suffixes[suffix] {
				return bad(fmt.Sprintf("Request.Tree.SameSubtree[%d]", i), "names %q, which is no group", suffix)
			}
		}
	}
	return nil
}
