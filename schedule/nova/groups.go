package nova

import (
	"fmt"
	"slices"
	"strings"

	"cellgate/schedule"
)

// SpecGroup is a request group besides the flavor's: of a port or of a device profile (Nova's requested_resources).
type SpecGroup struct {
	Path string
	// Requester is the group's suffix.
	Requester string
	Resources map[string]int64
	Required  []string
	Forbidden []string
	// The remaining fields are as in schedule.ResourceGroup; InTree is a uuid.
	MemberOf            [][]string
	ForbiddenAggregates []string
	InTree              string
}

const (
	// maxGroups bounds the suffixed groups of all sources.
	maxGroups = 64
	// deviceProfile is the prefix of the requesters of a device profile's groups (nova/accelerator/cyborg.py,
	// get_device_profile_group_requester_id).
	deviceProfile = "device_profile_"
)

// requestedResources reads requested_resources: a list of RequestGroup.
func (s *Spec) requestedResources(spec *object) {
	for i, e := range spec.list("requested_resources") {
		o := spec.object(fmt.Sprintf("%s[%d]", spec.at("requested_resources"), i), e, "RequestGroup")
		if o == nil {
			continue
		}
		g := SpecGroup{Path: o.path, Requester: o.text("requester_id"), Required: o.texts("required_traits"), Forbidden: o.texts("forbidden_traits")}
		g.Resources = map[string]int64{}
		for class, v := range o.dict("resources") {
			n, problem := integer(v)
			if problem != "" {
				o.invalid(at(o.at("resources"), class), "%s", problem)
			}
			g.Resources[class] = n
		}
		// Nova does not send this to Placement: a group with a suffix is always on one provider.
		if same, ok := o.get("use_same_provider").(bool); ok && !same {
			o.ignore(o.at("use_same_provider"))
		}
		g.MemberOf = o.aggregateSets("aggregates")
		g.ForbiddenAggregates = o.texts("forbidden_aggregates")
		g.InTree = o.text("in_tree")
		// Nova writes the providers of an earlier choice there.
		o.known("provider_uuids")
		o.rest()
		s.Groups = append(s.Groups, g)
	}
}

// sameSubtree reads the sets of same_subtree.
func (s *Spec) sameSubtree(o *object) {
	for i, e := range o.list("same_subtree") {
		s.SameSubtree = append(s.SameSubtree, o.findings.texts(fmt.Sprintf("%s[%d]", o.at("same_subtree"), i), e))
	}
}

// requested adds the groups besides the flavor's (ResourceRequest._add_request_group).
func (r *resourceRequest) requested(s *Spec) {
	for i := range s.Groups {
		g := &s.Groups[i]
		where := g.Path + ".requester_id"
		switch {
		case !suffix.MatchString(g.Requester):
			r.invalid(where, "must be 1 to 64 letters, digits, _ and -, not %q: it is the group's suffix", shorten(g.Requester))
			continue
		case r.groups[g.Requester] != nil:
			r.invalid(where, "%q is another group's suffix already", g.Requester)
			continue
		case len(g.Resources)+len(g.Required)+len(g.Forbidden)+len(g.MemberOf)+len(g.ForbiddenAggregates) == 0:
			r.invalid(g.Path, "asks for nothing")
			continue
		}
		to := r.group(g.Requester)
		to.memberOf = r.memberOf(g.Path+".aggregates", g.MemberOf)
		to.forbiddenAggregates = r.aggregates(g.Path+".forbidden_aggregates", g.ForbiddenAggregates)
		if g.InTree != "" {
			to.inTree, _ = r.uuid(g.Path+".in_tree", g.InTree)
			if len(g.Resources) == 0 {
				r.invalid(g.Path+".in_tree", "not supported without resources: Placement does not hold such a group to a tree")
			}
		}
		for _, class := range sortedKeys(g.Resources) {
			path := at(g.Path+".resources", class)
			if r.class(path, class) && r.inRange(path, g.Resources[class]) {
				to.resources[class] = g.Resources[class]
			}
		}
		to.require(g.Path+".required_traits", g.Required)
		to.forbid(g.Path+".forbidden_traits", g.Forbidden)
	}
}

// accelerators refuses a device profile if the request does not have its groups.
func (f *findings) accelerators(s *Spec) {
	const key = "accel:device_profile"
	if s.Flavor.ExtraSpecs[key] == "" || slices.ContainsFunc(s.Groups, func(g SpecGroup) bool { return strings.HasPrefix(g.Requester, deviceProfile) }) {
		return
	}
	f.invalid(at(s.Path+".flavor.extra_specs", key),
		"not supported without the profile's groups, which Nova has from Cyborg and puts into requested_resources of nova_request_spec")
}

// tree gives what is asked of the whole tree of a host's providers; unsuffixed are the request's own amounts. Nil on
// a rebuild, which asks Placement for nothing.
func (f *findings) tree(s *Spec, asked *resourceRequest, unsuffixed []schedule.Amount) *schedule.Tree {
	if s.Rebuild() {
		return nil
	}
	t := &schedule.Tree{Isolate: asked.policy == "isolate", SameSubtree: s.SameSubtree}
	root := asked.root
	path := s.Path + ".flavor"
	if g := asked.groups[""]; g != nil {
		for _, name := range sortedKeys(g.required) {
			t.Required = append(t.Required, name)
			if _, ok := root.required[name]; ok {
				t.Both = append(t.Both, name)
			}
		}
		for _, name := range sortedKeys(g.forbidden) {
			t.Forbidden = append(t.Forbidden, name)
			if _, ok := root.forbidden[name]; ok {
				t.Both = append(t.Both, name)
			}
		}
		if len(unsuffixed) == 0 && len(t.Required)+len(t.Forbidden) > 0 && len(f.fields) == 0 {
			f.invalid(path, "asks for traits, but outside of the suffixed groups for no amount: Placement refuses that")
		}
	}
	for _, suffix := range sortedKeys(asked.groups) {
		if suffix == "" {
			continue
		}
		g := asked.groups[suffix]
		group := schedule.ResourceGroup{
			Suffix: suffix, Resources: f.amounts(path, g.resources),
			MemberOf: g.memberOf, ForbiddenAggregates: g.forbiddenAggregates, InTree: g.inTree,
		}
		group.Required, group.Forbidden = g.sets()
		if len(group.Resources) == 0 && !slices.ContainsFunc(s.SameSubtree, func(set []string) bool { return slices.Contains(set, suffix) }) {
			f.invalid(path, "group %q asks for no amount, and no same_subtree names it: Placement refuses that", suffix)
		}
		t.Groups = append(t.Groups, group)
	}
	switch n := len(t.Groups); {
	case n > maxGroups:
		f.invalid(path, "%d suffixed groups are asked for, the most is %d", n, maxGroups)
	case n >= 2 && asked.policy == "" && asked.fromFlavor > 1:
		f.invalid(at(path+".extra_specs", "group_policy"), "must be none or isolate with more than one suffixed group")
	case n == 0 && s.Flavor.ExtraSpecs["group_policy"] != "":
		f.ignore(at(path+".extra_specs", "group_policy"))
	}
	for i, set := range s.SameSubtree {
		for _, suffix := range set {
			if suffix == "" || asked.groups[suffix] == nil {
				f.invalid(fmt.Sprintf("%s.request_level_params.same_subtree[%d]", s.Path, i), "%q is no group's suffix", shorten(suffix))
			}
		}
	}
	return t
}
