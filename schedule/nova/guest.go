package nova

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// guest combines a flavor's hw: extra specs and an image's hw_ properties (nova/virt/hardware.py). If Nova raises an
// exception, the request is invalid here, at the extra spec's path. Keys that the release does not know are left out.
type guest struct {
	*findings
	spec *Spec
	// image are the properties as text, by name.
	image map[string]string
}

func newGuest(f *findings, s *Spec) *guest {
	g := &guest{findings: f, spec: s, image: map[string]string{}}
	props := s.Typed
	if props == nil {
		props = f.properties(s)
	}
	for _, p := range props {
		if f.options.knows(p.Name) {
			g.image[p.Name] = p.Text
		}
	}
	for key := range s.Flavor.ExtraSpecs {
		if !f.options.knows(key) {
			known := *s
			known.Flavor.ExtraSpecs = maps.Clone(s.Flavor.ExtraSpecs)
			maps.DeleteFunc(known.Flavor.ExtraSpecs, func(key, _ string) bool { return !f.options.knows(key) })
			g.spec = &known
			break
		}
	}
	return g
}

// at is the path of the flavor's extra spec if it exists, else of the image's property.
func (g *guest) at(key, property string) string {
	if _, ok := g.spec.Flavor.ExtraSpecs[key]; ok {
		return at(g.spec.Path+".flavor.extra_specs", key)
	}
	return at(g.spec.Path+".image.properties", property)
}

// property is the name of the image property for an extra spec: hw:cpu_policy becomes hw_cpu_policy.
func property(key string) string { return strings.Replace(key, ":", "_", 1) }

// choices gives the values of the flavor and the image; empty for none. A value that is not allowed is invalid, and
// counts as none.
func (g *guest) choices(key string, allowed ...string) (flavor, image string) {
	flavor, image = g.spec.Flavor.ExtraSpecs[key], g.image[property(key)]
	if flavor != "" && !slices.Contains(allowed, flavor) {
		g.invalid(at(g.spec.Path+".flavor.extra_specs", key), "must be one of %s, not %q", strings.Join(allowed, ", "), shorten(flavor))
		flavor = ""
	}
	if image != "" && !slices.Contains(allowed, image) {
		g.invalid(at(g.spec.Path+".image.properties", property(key)), "must be one of %s, not %q", strings.Join(allowed, ", "), shorten(image))
		image = ""
	}
	return flavor, image
}

// oneOf is the value of the flavor or the image; they must not differ.
func (g *guest) oneOf(key string, allowed ...string) string {
	flavor, image := g.choices(key, allowed...)
	if flavor != "" && image != "" && flavor != image {
		g.invalid(g.at(key, property(key)), "is %s, but the image has %s=%s", flavor, property(key), image)
	}
	return cmp.Or(flavor, image)
}

// flag reports whether the flavor or the image has true. It is invalid if both are set and they differ.
func (g *guest) flag(key string) bool {
	text, inFlavor := g.spec.Flavor.ExtraSpecs[key]
	image, inImage := g.image[property(key)]
	flavor, on := truthy(text), truthy(image)
	if inFlavor && inImage && flavor != on {
		g.invalid(g.at(key, property(key)), "is %q, but the image has %s=%s", shorten(text), property(key), image)
	}
	return flavor || on
}
