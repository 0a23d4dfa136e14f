package nova

import (
	"regexp"
	"slices"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule"
)

// resourceRequest is what a flavor and an image ask of Placement, by group (nova/scheduler/utils.py,
// ResourceRequest). The unsuffixed group has the suffix "".
type resourceRequest struct {
	*findings
	groups map[string]*requestGroup
	policy string
	// root are the traits of the root provider.
	root *traits
	// fromFlavor is how many suffixed groups the flavor named.
	fromFlavor int
	// pinned: dedicated CPUs are asked for. Nova then makes a second query, for VCPU, unless
	// disable_fallback_pcpu_query is set.
	pinned bool
}

// requestGroup is what one provider must have; the unsuffixed group may be spread over a tree.
type requestGroup struct {
	resources map[string]int64
	*traits
	memberOf            [][]string
	forbiddenAggregates []string
	inTree              schedule.ID
}

// specKey matches an extra spec for resources or a trait, and its suffix. Like Python's $ it allows a final newline.
var specKey = regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)\n?$`)

// suffix matches the suffix of a group.
var suffix = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Releases that changed the translation of keys that older releases have too. They brought PCPU for dedicated CPUs,
// and the traits for the PCI policy socket, secure boot, a virtual TPM's model, and memory encryption by SEV
// (nova/scheduler/utils.py at the tags).
const (
	releasePCPU       = 20
	releaseSocket     = 23
	releaseSecureBoot = 23
	releaseTPMModel   = 30
	releaseSEV        = 32
)

// build makes the resource request of a flavor and an image. Without pinning it is Nova's second query for dedicated
// CPUs: VCPU instead of PCPU, and no traits of CPU policies.
func (f *findings) build(s *Spec, pinning bool) *resourceRequest {
	r := newResourceRequest(f)
	g := newGuest(f, s)
	r.extraSpecs(s)
	for suffix := range r.groups {
		if suffix != "" {
			r.fromFlavor++
		}
	}
	r.imageTraits(s)
	if pinning && f.options.has(releasePCPU) {
		r.pinning(g)
	}
	r.requested(s)
	r.flavor(s)
	r.memoryEncryption(g)
	r.persistentMemory(g)
	r.tpm(g)
	r.pciAffinity(g)
	r.secureBoot(g)
	r.addressWidth(g)
	r.statelessFirmware(g)
	r.stripZeros()
	return r
}

func newResourceRequest(f *findings) *resourceRequest {
	return &resourceRequest{findings: f, groups: map[string]*requestGroup{}, root: newTraits(f)}
}

func (r *resourceRequest) group(suffix string) *requestGroup {
	g := r.groups[suffix]
	if g == nil {
		g = &requestGroup{resources: map[string]int64{}, traits: newTraits(r.findings)}
		r.groups[suffix] = g
	}
	return g
}

// extraSpecs reads resources[S]:CLASS, trait[S]:NAME and group_policy. A group_policy other than none and isolate has
// no effect.
func (r *resourceRequest) extraSpecs(s *Spec) {
	path := s.Path + ".flavor.extra_specs"
	for _, key := range sortedKeys(s.Flavor.ExtraSpecs) {
		where, value := at(path, key), s.Flavor.ExtraSpecs[key]
		if key == "group_policy" {
			if value == "none" || value == "isolate" {
				r.policy = value
			}
			continue
		}
		m := specKey.FindStringSubmatch(key)
		if m == nil {
			// Placement does not read keys without a colon; filters may.
			if strings.Contains(key, ":") && (strings.HasPrefix(key, "resources") || strings.HasPrefix(key, "trait")) {
				r.readOver(where, "names no group: a suffix is 1 to 64 letters, digits, _ and -, before a colon")
			}
			continue
		}
		if m[1] == "trait" {
			r.group(m[2]).extraSpec(where, m[3], value)
			continue
		}
		r.group(m[2]).amount(where, m[3], value)
	}
}

// amount reads resources:CLASS (RequestGroup.add_resource).
func (g *requestGroup) amount(where, class, value string) {
	n, ok := python.Int(value)
	switch {
	case !KnownResourceClass(class) && !strings.HasPrefix(class, customPrefix):
		g.readOver(where, unknownClass, shorten(class))
	case !ok:
		g.readOver(where, "must be an integer, not %q", shorten(value))
	case n < 0:
		g.readOver(where, "%s", amountProblem(n))
	case g.class(where, class) && g.inRange(where, n):
		g.resources[class] = n
	}
}

// imageTraits reads trait:NAME=required; images can ask for nothing else.
func (r *resourceRequest) imageTraits(s *Spec) {
	path := s.Path + ".image.properties"
	for _, key := range sortedKeys(s.ImageProperties) {
		name, ok := strings.CutPrefix(key, "trait:")
		if !ok {
			continue
		}
		where, value := at(path, key), s.ImageProperties[key]
		if value != "required" {
			r.readOver(where, "must be required, not %q: images only require traits", shorten(value))
			continue
		}
		g := r.group("")
		g.add(g.required, where, name)
	}
}

// flavor adds the flavor's own amounts of classes that no group names, not even with 0. PCPU replaces VCPU.
func (r *resourceRequest) flavor(s *Spec) {
	own := s.Flavor.Resources(s.BootFromVolume)
	asked := func(class string) bool {
		for _, g := range r.groups {
			if _, ok := g.resources[class]; ok {
				return true
			}
		}
		return false
	}
	for _, class := range sortedKeys(own) {
		if !asked(class) && (class != vcpu || !asked(pcpu)) {
			r.group("").resources[class] = own[class]
		}
	}
}

// stripZeros drops amounts of 0, and groups that are then empty.
func (r *resourceRequest) stripZeros() {
	for suffix, g := range r.groups {
		for class, n := range g.resources {
			if n == 0 {
				delete(g.resources, class)
			}
		}
		if len(g.resources)+len(g.required)+len(g.forbidden)+len(g.memberOf)+len(g.forbiddenAggregates) == 0 {
			delete(r.groups, suffix)
		}
	}
}

// requiredTraits are the required traits of all groups, sorted.
func (r *resourceRequest) requiredTraits() []string {
	var out []string
	for _, g := range r.groups {
		out = append(out, sortedKeys(g.required)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// rootTraits joins the traits of the root provider and of the unsuffixed group. The Tree says which of them children
// may provide instead.
func (r *resourceRequest) rootTraits() (required, forbidden []string) {
	all := newTraits(r.findings)
	all.join(r.root)
	if g := r.groups[""]; g != nil {
		all.join(g.traits)
	}
	return all.sets()
}
