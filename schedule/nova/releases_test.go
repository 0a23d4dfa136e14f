package nova

import (
	"maps"
	"slices"
	"testing"

	"cellgate/schedule"
)

// Keys that are newer than the configured release are ignored and named, and no filter gets them.
// Before Train, dedicated CPUs are VCPU.
func TestReleasesLackYoungerKeys(t *testing.T) {
	s := Spec{
		Path: "r",
		Flavor: Flavor{VCPUs: 2, ExtraSpecs: map[string]string{
			"hw:maxphysaddr_bits": "40", "hw:maxphysaddr_mode": "bogus", "hw:cpu_policy": "dedicated",
		}},
		HasImage:        true,
		ImageProperties: map[string]string{"hw_maxphysaddr_bits": "no number", "os_secure_boot": "required"},
	}
	given := maps.Clone(s.Flavor.ExtraSpecs)
	younger := []string{
		`r.flavor.extra_specs["hw:maxphysaddr_bits"]`, `r.flavor.extra_specs["hw:maxphysaddr_mode"]`,
		`r.image.properties["hw_maxphysaddr_bits"]`,
	}
	for release, class := range map[int]string{19: "VCPU", 20: "PCPU", 28: "PCPU"} {
		o := Options{Release: release}
		r, ignored, err := o.Compile(s)
		if err != nil || !maps.Equal(s.Flavor.ExtraSpecs, given) {
			t.Fatalf("%d: %v, the flavor is %v", release, err, s.Flavor)
		}
		for _, path := range younger {
			if !slices.Contains(ignored, path) {
				t.Errorf("%d: %s is not among %q", release, path, ignored)
			}
		}
		bits := func(p schedule.Property) bool { return p.Name == "hw_maxphysaddr_bits" }
		boot := func(p schedule.Property) bool { return p.Name == "os_secure_boot" }
		if len(r.Nova.Flavor.ExtraSpecs) > 0 || slices.ContainsFunc(r.Nova.Image.Properties, bits) || !slices.ContainsFunc(r.Nova.Image.Properties, boot) {
			t.Errorf("%d: the filters have %+v and %+v", release, r.Nova.Flavor.ExtraSpecs, r.Nova.Image.Properties)
		}
		if len(r.Resources) != 1 || r.Resources[0].Class != class || (r.Fallback != nil) != (class == "PCPU") {
			t.Errorf("%d: asks for %v, or else %v", release, r.Resources, r.Fallback)
		}
	}
	s.Flavor.ExtraSpecs["hw:maxphysaddr_mode"], s.ImageProperties["hw_maxphysaddr_bits"] = "emulate", "41"
	r, _, err := (&Options{Release: 29}).Compile(s)
	if want := []schedule.Pair{{Key: "hw:maxphysaddr_bits", Value: "40"}}; err != nil || !slices.Equal(r.Nova.Flavor.ExtraSpecs, want) {
		t.Errorf("2024.1: %v, %+v", err, r.Nova)
	}
}

// If a message's image has a property of a newer release, no filter gets it, and no trait is
// required for it.
func TestReleasesLackYoungerProperties(t *testing.T) {
	m := primitive(t)
	put(m, "/image", object1("ImageMeta", "1.8", map[string]any{"properties": object1("ImageMetaProps", "1.34", map[string]any{
		"hw_maxphysaddr_bits": 40, "hw_maxphysaddr_mode": "emulate",
	})}))
	for release, want := range map[int]int{28: 0, 29: 2, 0: 2} {
		tr, err := (&Options{Release: release}).FromPrimitive(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.Request.Nova.Image.Properties; len(got) != want {
			t.Errorf("%d: %+v, want %d properties", release, got, want)
		}
		if got := tr.Request.Required; slices.Contains(got, "COMPUTE_ADDRESS_SPACE_EMULATED") != (want > 0) {
			t.Errorf("%d: asks for %v", release, got)
		}
	}
}
