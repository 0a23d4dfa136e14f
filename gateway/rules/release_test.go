package rules

import (
	"slices"
	"strings"
	"testing"
)

// The release of the Nova that is replaced decides which of Nova's weighers are on by
// default, in the strategies too, and how tenants are isolated.
func TestTheReleaseHasItsWeighers(t *testing.T) {
	const version = "HypervisorVersionWeigher"
	for release, want := range map[string]struct{ weighs, exact bool }{
		"": {true, false}, "2026.2": {true, false}, "2024.1": {true, true}, "2023.2": {true, true}, "2023.1": {false, true}, "ocata": {false, true},
	} {
		cfg := Config{Options: &Options{Release: release}}.WithDefaults()
		if got := slices.ContainsFunc(cfg.Weighers, func(w WeigherConfig) bool { return w.Name == version }); got != want.weighs {
			t.Errorf("%q: %s by default: %v", release, version, got)
		}
		for strategy, more := range map[string]int{"nova": 0, "pack": 0, "balanced": 1} {
			rules := rulesFor(cfg, strategy)
			if len(rules.Weighers) != len(cfg.Weighers)+more {
				t.Errorf("%q, %s: %v", release, strategy, rules.Weighers)
			}
			if rules.Options.ExactTenantKey != want.exact {
				t.Errorf("%q: exact tenant key %v", release, rules.Options.ExactTenantKey)
			}
		}
	}
	if err := Check(Config{Options: &Options{Release: "newton"}}, false); err == nil || !strings.Contains(err.Error(), `nova.nova_release: "newton" is no release of Nova`) {
		t.Errorf("error %v", err)
	}
	// Configured weighers run, whatever the release.
	cfg := Config{Options: &Options{Release: "ocata"}, Weighers: []WeigherConfig{{Name: version, Multiplier: 1}}}.WithDefaults()
	if len(rulesFor(cfg, "").Weighers) != 1 {
		t.Errorf("configured weighers are left out")
	}
}
