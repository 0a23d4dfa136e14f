package placement

import (
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var candidateResources = []resource{
	at("/allocation_candidates",
		endpoint{method: http.MethodGet, since: 10, accepts: true, rule: "placement:allocation_candidates:list", serve: (*call).listCandidates}),
}

const (
	mappingsSince    version = 34
	nestedSince      version = 29
	sameSubtreeSince version = 36
	anySuffixSince   version = 33
	allClassesSince  version = 27
	traitsShownSince version = 17
)

func (c *call) listCandidates() error {
	if err := c.query.check(listCandidates.at(c.version)); err != nil {
		return err
	}
	q, err := c.candidateQuery()
	if err != nil {
		return err
	}
	found, err := c.Backend.Candidates(c.ctx, q)
	if err != nil {
		return err
	}
	requests := make([]any, len(found.Requests))
	for i, one := range found.Requests {
		requests[i] = c.showsCandidate(one)
	}
	asked := map[string]bool{}
	for _, g := range q.Groups {
		for class := range g.Resources {
			asked[class] = true
		}
	}
	summaries := map[string]any{}
	for _, p := range found.Providers {
		summaries[p.UUID] = c.summary(p, asked)
	}
	return c.reply(http.StatusOK, map[string]any{"allocation_requests": requests, "provider_summaries": summaries})
}

func (c *call) showsCandidate(one Candidate) map[string]any {
	if c.version < allocationsByProviderSince {
		list := []any{}
		for _, id := range keys(one.Allocations) {
			list = append(list, map[string]any{"resource_provider": map[string]any{"uuid": id}, "resources": one.Allocations[id]})
		}
		return map[string]any{"allocations": list}
	}
	allocations := map[string]any{}
	for id, resources := range one.Allocations {
		allocations[id] = map[string]any{"resources": resources}
	}
	out := map[string]any{"allocations": allocations}
	if c.version >= mappingsSince {
		out["mappings"] = one.Mappings
	}
	return out
}

func (c *call) summary(p *Provider, asked map[string]bool) map[string]any {
	resources := map[string]any{}
	for class, i := range p.Inventories {
		if c.version >= allClassesSince || asked[class] {
			resources[class] = map[string]any{"capacity": int64(math.Trunc(i.capacity())), "used": p.Used[class]}
		}
	}
	out := map[string]any{"resources": resources}
	if c.version >= traitsShownSince {
		out["traits"] = standardFirst(p.Traits)
	}
	if c.version >= nestedSince {
		out["parent_provider_uuid"], out["root_provider_uuid"] = orNull(p.ParentUUID), p.RootUUID
	}
	return out
}

// standardFirst lists traits as Placement does, in the order of their ids.
func standardFirst(traits []string) []string {
	out := []string{}
	for _, custom := range []bool{false, true} {
		for _, t := range traits {
			if strings.HasPrefix(t, customPrefix) == custom {
				out = append(out, t)
			}
		}
	}
	return out
}

var (
	groupParameter   = regexp.MustCompile("^(resources|required|member_of|in_tree)(" + groupPattern + ")?$")
	groupParameter33 = regexp.MustCompile("^(resources|required|member_of|in_tree)(" + groupPattern33 + ")?$")
)

func (c *call) candidateQuery() (CandidateQuery, error) {
	q := CandidateQuery{Nested: c.version >= nestedSince}
	if limits := c.query.all("limit"); len(limits) > 0 {
		// The schema has checked the last one.
		n, err := strconv.Atoi(limits[0])
		if err != nil || n < 1 {
			return q, badRequest("Invalid query string parameters: '%s' is not a limit", limits[0])
		}
		q.Limit = n
	}
	policies := c.query.all("group_policy")
	q.Isolate = len(policies) > 0 && policies[0] == "isolate"
	if err := c.requestWide(&q); err != nil {
		return q, err
	}
	suffixes, err := c.groups(&q)
	if err != nil {
		return q, err
	}
	if err := c.checkGroups(q, suffixes); err != nil {
		return q, err
	}
	if err := checkForbidden(q, suffixes); err != nil && c.version >= forbiddenTraitsSince {
		return q, err
	}
	granular := 0
	for _, suffix := range suffixes {
		if suffix != "" {
			granular++
		}
	}
	if len(policies) == 0 && granular > 1 {
		return q, badRequest(`The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.`)
	}
	return q, c.checkNames(q, suffixes)
}

// requestWide reads root_required and same_subtree.
func (c *call) requestWide(q *CandidateQuery) error {
	if roots := c.query.all("root_required"); len(roots) > 1 {
		return badParameter(codeDuplicateParameter, "Query parameter 'root_required' may be specified only once.")
	} else if len(roots) == 1 {
		var err error
		if q.RootTraits, err = parseTraits(roots[0], true, false); err != nil {
			return err
		}
		var both []string
		for _, one := range q.RootTraits.AnyOf {
			if slices.Contains(q.RootTraits.Forbidden, one[0]) {
				both = append(both, one[0])
			}
		}
		if len(both) > 0 {
			return badParameter(codeBadParameter, "Conflicting required and forbidden traits found in root_required: %s", strings.Join(both, ", "))
		}
	}
	for _, value := range c.query.all("same_subtree") {
		suffixes := trimmed(value)
		if slices.Contains(suffixes, "") {
			return badParameter(codeBadParameter, "Empty string (unsuffixed group) can not be specified in `same_subtree` ")
		}
		slices.Sort(suffixes)
		q.SameSubtrees = append(q.SameSubtrees, slices.Compact(suffixes))
	}
	return nil
}

// groups reads the groups into q, and gives their suffixes in the order of the query.
func (c *call) groups(q *CandidateQuery) ([]string, error) {
	pattern := groupParameter
	if c.version >= anySuffixSince {
		pattern = groupParameter33
	}
	q.Groups = map[string]CandidateGroup{}
	var suffixes []string
	for _, p := range c.query {
		parts := pattern.FindStringSubmatch(p.name)
		if parts == nil {
			continue
		}
		suffix := parts[2]
		group, known := q.Groups[suffix]
		if !known {
			suffixes = append(suffixes, suffix)
		}
		var err error
		switch parts[1] {
		case "resources":
			group.Resources, err = parseResources(p.value)
		case "required":
			group.Traits, err = c.traits(suffix)
		case "member_of":
			group.Aggregates, err = c.memberOf(suffix)
		case "in_tree":
			id, ok := canonicalUUID(strings.TrimSpace(p.value))
			if !ok {
				err = badRequest("Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: %s", p.value)
			}
			group.InTree = id
		}
		if err != nil {
			return nil, err
		}
		q.Groups[suffix] = group
	}
	return suffixes, nil
}

// checkGroups refuses groups without resources, except those that same_subtree names.
func (c *call) checkGroups(q CandidateQuery, suffixes []string) error {
	var bare []string
	for _, suffix := range suffixes {
		if len(q.Groups[suffix].Resources) == 0 {
			bare = append(bare, suffix)
		}
	}
	if c.version < sameSubtreeSince {
		return checkOrphans(q, suffixes, bare)
	}
	if len(bare) == len(suffixes) {
		return badParameter(codeMissingParameter, "There must be at least one resources or resources[$S] parameter.")
	}
	related := map[string]bool{}
	for _, set := range q.SameSubtrees {
		for _, suffix := range set {
			related[suffix] = true
		}
	}
	alone := slices.DeleteFunc(slices.Clone(bare), func(suffix string) bool { return related[suffix] })
	if len(alone) > 0 {
		return badParameter(codeBadParameter, "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - %s.", pyRepr(alone))
	}
	var unknown []string
	for _, suffix := range slices.Sorted(maps.Keys(related)) {
		if _, ok := q.Groups[suffix]; !ok {
			unknown = append(unknown, suffix)
		}
	}
	if len(unknown) > 0 {
		return badParameter(codeBadParameter, "Real suffixes should be specified in `same_subtree`: %s not found in %s.", pyRepr(unknown), pyRepr(suffixes))
	}
	return nil
}

func checkOrphans(q CandidateQuery, suffixes, bare []string) error {
	var traits, aggregates []string
	for _, suffix := range bare {
		g := q.Groups[suffix]
		if len(g.Traits.AnyOf) > 0 {
			traits = append(traits, "required"+suffix)
		}
		if len(g.Aggregates.names()) > 0 {
			aggregates = append(aggregates, "member_of"+suffix)
		}
	}
	switch {
	case len(traits) > 0:
		return badRequest("All traits parameters must be associated with resources.  Found the following orphaned traits keys: %s", strings.Join(traits, ", "))
	case len(aggregates) > 0:
		return badRequest("All member_of parameters must be associated with resources. Found the following orphaned member_of keys: %s", strings.Join(aggregates, ", "))
	case len(bare) > 0:
		return badRequest("All request groups must specify resources.")
	case len(suffixes) == 0:
		return badRequest("At least one request group (`resources` or `resources{$S}`) is required.")
	}
	return nil
}

// checkForbidden refuses a group that forbids all traits of which it requires one.
func checkForbidden(q CandidateQuery, suffixes []string) error {
	var both []string
	for _, suffix := range suffixes {
		traits := q.Groups[suffix].Traits
		for _, any := range traits.AnyOf {
			if !slices.ContainsFunc(any, func(t string) bool { return !slices.Contains(traits.Forbidden, t) }) {
				both = append(both, "required"+suffix+": ("+strings.Join(any, ", ")+")")
			}
		}
	}
	if len(both) == 0 {
		return nil
	}
	slices.Sort(both)
	return badRequest("Conflicting required and forbidden traits found in the following traits keys: %s", strings.Join(both, ", "))
}

// checkNames refuses unknown classes and traits.
func (c *call) checkNames(q CandidateQuery, suffixes []string) error {
	traits := q.RootTraits.names()
	for _, suffix := range suffixes {
		g := q.Groups[suffix]
		unknown, err := c.firstUnknown(ClassName, keys(g.Resources))
		if err != nil {
			return err
		}
		if unknown != "" {
			return badRequest("Invalid resource class in resources parameter: No such resource class %s.", unknown)
		}
		traits = append(traits, g.Traits.names()...)
	}
	unknown, err := c.firstUnknown(TraitName, traits)
	if err != nil {
		return err
	}
	if unknown != "" {
		return badRequest("No such trait(s): %s.", unknown)
	}
	return nil
}
