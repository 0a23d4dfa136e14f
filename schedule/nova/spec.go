package nova

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// Spec is a request in the one structure that all forms are converted to. Compile makes a schedule.Request of it.
type Spec struct {
	// Path begins the path of every field: "request_spec".
	Path   string
	Flavor Flavor
	// BootFromVolume leaves the root disk out of DISK_GB.
	BootFromVolume bool
	// ImageProperties are texts; trait:NAME=required adds a required trait.
	ImageProperties map[string]string
	// DiskFormat is the image's; empty if it is not known.
	DiskFormat string
	// ImageID may be empty. HasImage: there is an image, even if it has neither id nor properties.
	ImageID  string
	HasImage bool
	// Typed are the properties of a form with types; their texts are Python's str of the values. Nil: they are read
	// from ImageProperties.
	Typed     []schedule.Property
	ProjectID string
	// Retry are the hosts and nodes that were already tried.
	Retry []schedule.RetryHost
	// Resources override the flavor's amounts, including its extra specs; 0 removes a class.
	Resources       map[string]int64
	RequiredTraits  []string
	ForbiddenTraits []string
	AnyTraits       [][]string
	// MemberOf: the host is in at least one aggregate of each set (uuids).
	MemberOf            [][]string
	ForbiddenAggregates []string
	AvailabilityZone    string
	IgnoreHosts         []string
	ForceHosts          []string
	ForceNodes          []string
	// Destination's cell is a uuid.
	Destination *schedule.Destination
	Group       *Group
	Hints       map[string][]string
	// Resolved: the form is Nova's RequestSpec, which has what Nova made from the NUMA, CPU and PCI keys of flavor and
	// image: NUMA (nil for none), PCI and Networks. Else resolve makes NUMA and PCI.
	Resolved bool
	NUMA     *hardware.InstanceNUMA
	PCI      []hardware.PCIRequest
	Networks *hardware.NetworkNeeds
	// Requested are the ports and networks that the request names.
	Requested []RequestedNetwork
	// aliased are the requests in PCI that were made from aliases.
	aliased []aliasRequest
	// Groups are those besides the flavor's. SameSubtree are sets of their suffixes: one provider of each set's
	// groups is an ancestor of the others, or the same.
	Groups      []SpecGroup
	SameSubtree [][]string
}

// at is the path of a field, which has another name in the typed form than in a RequestSpec.
func (s *Spec) at(typed, primitive string) string {
	if s.Resolved {
		return s.Path + "." + primitive
	}
	return s.Path + "." + typed
}

// Rebuild reports whether the request only checks the host that its instance is on: the hint _nova_check_type is
// ["rebuild"] (Nova, scheduler/utils.py, request_is_rebuild).
func (s *Spec) Rebuild() bool {
	v := s.Hints[checkTypeHint]
	return len(v) == 1 && v[0] == "rebuild"
}

// Group is a server group as a request names it.
type Group struct {
	UUID   string
	Policy string
	// MaxPerHost is anti-affinity's limit; 0 means 1.
	MaxPerHost int64
	// Members are instance uuids; Hosts are service hosts with some of them.
	Members []string
	Hosts   []string
}

// Limits of lists, as in the typed form.
const (
	maxHosts      = 1024
	maxSets       = 64
	maxAggregates = 1024
	maxTraits     = 256
	maxMembers    = 4096
	maxPairs      = 256
	maxName       = 255
	// maxValue bounds the characters of an extra spec's value and of a hint's value.
	maxValue      = 4096
	maxHintValues = 1024
	// maxQueryTerms bounds the terms that JsonFilter evaluates for every host.
	maxQueryTerms = 1000
)

func (f *findings) compile(s *Spec) schedule.Request {
	if !s.Resolved {
		f.resolve(s)
	}
	f.resolved, f.numa, f.pci = s.Resolved, s.NUMA != nil, len(s.PCI) > 0
	f.pciGroups(s)
	asked := f.resourceRequest(s)
	r := schedule.Request{
		AvailabilityZone: f.name(s.Path+".availability_zone", s.AvailabilityZone),
		IgnoreHosts:      f.names(s.Path+".ignore_hosts", s.IgnoreHosts, maxHosts),
		ForceHosts:       f.names(s.Path+".force_hosts", s.ForceHosts, maxHosts),
		ForceNodes:       f.names(s.Path+".force_nodes", s.ForceNodes, maxHosts),
		Destination:      f.destination(s.Path+".requested_destination", s.Destination),
		Group:            f.group(s.Path+".instance_group", s.Group),
	}
	t := asked.root
	t.require(s.at("required_traits", "request_level_params.root_required"), s.RequiredTraits)
	t.forbid(s.at("forbidden_traits", "request_level_params.root_forbidden"), s.ForbiddenTraits)
	r.AnyOf = t.any(s.Path+".any_traits", s.AnyTraits)
	r.MemberOf = f.memberOf(s.at("member_of", "requested_destination.aggregates"), s.MemberOf)
	r.ForbiddenAggregates = f.aggregates(s.at("forbidden_aggregates", "requested_destination.forbidden_aggregates"), s.ForbiddenAggregates)
	f.prefilter(s, asked, &r)
	r.Resources = f.resources(s, asked)
	r.Required, r.Forbidden = asked.rootTraits()
	r.Tree = f.tree(s, asked, r.Resources)
	r.Fallback = f.fallback(s, asked)
	r.CheckForced = f.hints(s)
	r.Nova = f.novaRequest(s)
	r.Consume = consumption(r.Resources)
	return r
}

// resourceRequest gives what flavor and image ask for, after it triaged their keys.
func (f *findings) resourceRequest(s *Spec) *resourceRequest {
	for _, a := range []struct {
		field string
		n     int64
	}{
		{"vcpus", s.Flavor.VCPUs},
		{"memory_mb", s.Flavor.MemoryMB},
		{"root_gb", s.Flavor.RootGB},
		{"ephemeral_gb", s.Flavor.EphemeralGB},
		{"swap_mb", s.Flavor.SwapMB},
	} {
		if p := amountProblem(a.n); p != "" {
			f.invalid(s.Path+".flavor."+a.field, "%s", p)
		}
	}
	f.values(s.Path+".flavor.extra_specs", s.Flavor.ExtraSpecs)
	f.triageAll(s.Path+".flavor.extra_specs", "keys", extraSpecs, s.Flavor.ExtraSpecs)
	f.accelerators(s)
	props := s.ImageProperties
	if f.options.ImageMetadata {
		props = maps.Clone(props)
		maps.DeleteFunc(props, func(key, _ string) bool { return readsImageMetadata(key) })
	}
	f.triageAll(s.Path+".image.properties", "properties", imageProperties, props)
	if len(f.fields) > 0 {
		// If something is refused, nothing more is read.
		return newResourceRequest(f)
	}
	return f.build(s, true)
}

// values bounds keys and values, because filters may read each of them for every host.
func (f *findings) values(path string, pairs map[string]string) {
	if len(pairs) > maxPairs {
		return // triageAll reports it
	}
	for _, key := range sortedKeys(pairs) {
		f.longest(at(path, key), "the key", key, maxName)
		f.longest(at(path, key), "the value", pairs[key], maxValue)
	}
}

// longest reports whether a text has at most most characters.
func (f *findings) longest(path, what, text string, most int) bool {
	if len(text) <= most {
		return true
	}
	n := utf8.RuneCountInString(text)
	if n > most {
		f.invalid(path, "%s has %d characters, the most is %d", what, n, most)
	}
	return n <= most
}

// hintFits reports whether a hint is within the bounds; it records a problem if not.
func (f *findings) hintFits(path, name string, values []string) bool {
	if !f.longest(path, "the name", name, maxName) {
		return false
	}
	if len(values) > maxHintValues {
		f.invalid(path, "has %d values, the most is %d", len(values), maxHintValues)
		return false
	}
	for i, v := range values {
		if !f.longest(fmt.Sprintf("%s[%d]", path, i), "the value", v, maxValue) {
			return false
		}
	}
	if name != queryHint || len(values) != 1 {
		return true
	}
	if n := schedule.JSONTerms(values[0]); n > maxQueryTerms {
		f.invalid(path, "asks with %d terms, the most is %d", n, maxQueryTerms)
		return false
	}
	return true
}

// triageAll triages every key by the rules.
func (f *findings) triageAll(path, what string, rules []rule, pairs map[string]string) {
	if len(pairs) > maxPairs {
		f.invalid(path, "has %d %s, the most is %d", len(pairs), what, maxPairs)
		return
	}
	for _, key := range sortedKeys(pairs) {
		f.triage(rules, at(path, key), key, pairs[key])
	}
}

// resources joins the amounts of the unsuffixed group and the overrides.
func (f *findings) resources(s *Spec, asked *resourceRequest) []schedule.Amount {
	path, by := s.Path+".flavor", map[string]int64{}
	if g := asked.groups[""]; g != nil {
		by = g.resources
	}
	f.overrides(s.Path+".resources", s.Resources, by)
	out := f.amounts(path, by)
	suffixed := func(suffix string) bool { return suffix != "" && len(asked.groups[suffix].resources) > 0 }
	if len(out) == 0 && len(f.fields) == 0 && !slices.ContainsFunc(sortedKeys(asked.groups), suffixed) {
		f.invalid(path, "asks for no amount of any resource class")
	}
	return out
}

func (f *findings) overrides(path string, amounts, by map[string]int64) {
	if len(amounts) > maxSets {
		f.invalid(path, "names %d classes, the most is %d", len(amounts), maxSets)
		return
	}
	for _, class := range sortedKeys(amounts) {
		if f.class(at(path, class), class) && f.inRange(at(path, class), amounts[class]) {
			by[class] = amounts[class]
		}
	}
}

// hints reports whether filters must also run on forced hosts.
func (f *findings) hints(s *Spec) (checkForced bool) {
	path := s.Path + ".scheduler_hints"
	if len(s.Hints) > maxPairs {
		f.invalid(path, "has %d hints, the most is %d", len(s.Hints), maxPairs)
		return false
	}
	for _, name := range sortedKeys(s.Hints) {
		values := s.Hints[name]
		if !f.hintFits(at(path, name), name, values) || len(values) == 0 || !f.triage(schedulerHints, at(path, name), name, values[0]) {
			continue
		}
		switch name {
		case checkTypeHint:
			checkForced = true
		case groupHint:
			if s.Group == nil {
				f.invalid(at(path, name), "not supported without instance_group, which says what the group is")
			}
		}
	}
	return checkForced
}
