package placement

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	pure "cellgate/schedule/placement"
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
			resources[class] = map[string]any{"capacity": i.capacity(), "used": p.Used[class]}
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
	if err := c.readRequestWide(&q); err != nil {
		return q, err
	}
	if err := c.readGroups(&q); err != nil {
		return q, err
	}
	if err := c.checkGroups(q); err != nil {
		return q, err
	}
	if err := checkForbidden(q.Groups); err != nil && c.version >= forbiddenTraitsSince {
		return q, err
	}
	granular := 0
	for _, g := range q.Groups {
		if g.Suffix != "" {
			granular++
		}
	}
	if len(policies) == 0 && granular > 1 {
		return q, badRequest(`The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.`)
	}
	return q, c.checkNames(q)
}

// readRequestWide reads root_required and same_subtree.
func (c *call) readRequestWide(q *CandidateQuery) error {
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

// readGroups reads the groups into q, in the order of the query.
func (c *call) readGroups(q *CandidateQuery) error {
	pattern := groupParameter
	if c.version >= anySuffixSince {
		pattern = groupParameter33
	}
	for _, p := range c.query {
		parts := pattern.FindStringSubmatch(p.name)
		if parts == nil {
			continue
		}
		suffix := parts[2]
		at := slices.IndexFunc(q.Groups, func(g pure.Group) bool { return g.Suffix == suffix })
		if at < 0 {
			at = len(q.Groups)
			q.Groups = append(q.Groups, pure.Group{Suffix: suffix})
		}
		group := &q.Groups[at]
		var err error
		switch parts[1] {
		case "resources":
			group.Resources, err = parseResources(p.value)
		case "required":
			group.Traits, err = c.traits(suffix)
		case "member_of":
			group.Aggregates, err = c.memberOf(suffix)
		case "in_tree":
			id, ok := CanonicalUUID(strings.TrimSpace(p.value))
			if !ok {
				err = badRequest("Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: %s", p.value)
			}
			group.InTree = id
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkGroups refuses groups without resources, except those that same_subtree names.
func (c *call) checkGroups(q CandidateQuery) error {
	if c.version < sameSubtreeSince {
		return checkOrphans(q.Groups)
	}
	related := slices.Concat(q.SameSubtrees...)
	var suffixes, alone []string
	bare := 0
	for _, g := range q.Groups {
		suffixes = append(suffixes, g.Suffix)
		if len(g.Resources) > 0 {
			continue
		}
		bare++
		if !slices.Contains(related, g.Suffix) {
			alone = append(alone, g.Suffix)
		}
	}
	if bare == len(suffixes) {
		return badParameter(codeMissingParameter, "There must be at least one resources or resources[$S] parameter.")
	}
	if len(alone) > 0 {
		return badParameter(codeBadParameter, "Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - %s.", pyRepr(alone))
	}
	slices.Sort(related)
	unknown := slices.DeleteFunc(slices.Compact(related), func(suffix string) bool { return slices.Contains(suffixes, suffix) })
	if len(unknown) > 0 {
		return badParameter(codeBadParameter, "Real suffixes should be specified in `same_subtree`: %s not found in %s.", pyRepr(unknown), pyRepr(suffixes))
	}
	return nil
}

func checkOrphans(groups []pure.Group) error {
	var traits, aggregates []string
	bare := false
	for _, g := range groups {
		if len(g.Resources) > 0 {
			continue
		}
		bare = true
		if len(g.Traits.AnyOf) > 0 {
			traits = append(traits, "required"+g.Suffix)
		}
		if len(namesIn(g.Aggregates)) > 0 {
			aggregates = append(aggregates, "member_of"+g.Suffix)
		}
	}
	switch {
	case len(traits) > 0:
		return badRequest("All traits parameters must be associated with resources.  Found the following orphaned traits keys: %s", strings.Join(traits, ", "))
	case len(aggregates) > 0:
		return badRequest("All member_of parameters must be associated with resources. Found the following orphaned member_of keys: %s", strings.Join(aggregates, ", "))
	case bare:
		return badRequest("All request groups must specify resources.")
	case len(groups) == 0:
		return badRequest("At least one request group (`resources` or `resources{$S}`) is required.")
	}
	return nil
}

// checkForbidden refuses a group that forbids all traits of which it requires one.
func checkForbidden(groups []pure.Group) error {
	var both []string
	for _, g := range groups {
		for _, any := range g.Traits.AnyOf {
			if !slices.ContainsFunc(any, func(t string) bool { return !slices.Contains(g.Traits.Forbidden, t) }) {
				both = append(both, "required"+g.Suffix+": ("+strings.Join(any, ", ")+")")
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
func (c *call) checkNames(q CandidateQuery) error {
	traits := namesIn(q.RootTraits)
	for _, g := range q.Groups {
		if err := c.checkKnown(ClassName, keys(g.Resources), "Invalid resource class in resources parameter: "); err != nil {
			return err
		}
		traits = append(traits, namesIn(g.Traits)...)
	}
	return c.checkKnown(TraitName, traits, "")
}
