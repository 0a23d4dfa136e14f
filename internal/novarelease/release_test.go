package novarelease

import (
	"slices"
	"strings"
	"testing"
)

func TestReleasesByName(t *testing.T) {
	for name, want := range map[string]Release{
		"": 0, "ocata": 15, "Pike": 16, "zed": 26, "2023.1": 27, "antelope": 27, "2023.2": 28, "2025.1": 31, " gazpacho ": 33, "2026.2": 34,
	} {
		if got, err := Parse(name); got != want || err != nil {
			t.Errorf("%q is %d, %v; want %d", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"newton": "is no release of Nova that is known: ocata, pike,", "zedd": "did you mean zed?", "2025.3": "did you mean 2025.", "26": "is no release",
	} {
		if _, err := Parse(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if s := Release(0).String(); s != "Nova 34 (2026.2)" {
		t.Errorf("the newest is %s", s)
	}
	if s := Zed.String(); s != "Nova 26 (zed)" {
		t.Errorf("Zed is %s", s)
	}
}

// Compared with nova/scheduler/weights and nova/conf/scheduler.py at the release tags.
func TestWhatReleasesHave(t *testing.T) {
	for _, c := range []struct {
		release                   Release
		retry, zone, ram          bool
		cpu, cross, version, prop bool
		oldNames, exactTenants    bool
	}{
		{release: 15, retry: true, zone: true, ram: true, oldNames: true, exactTenants: true},
		{release: 16, retry: true, zone: true, oldNames: true, exactTenants: true},
		{release: 19, retry: true, zone: true, cpu: true, oldNames: true, exactTenants: true},
		{release: 20, zone: true, cpu: true, oldNames: true, exactTenants: true},
		{release: 23, zone: true, cpu: true, cross: true, oldNames: true, exactTenants: true},
		{release: 24, cpu: true, cross: true, exactTenants: true},
		{release: 27, cpu: true, cross: true, exactTenants: true},
		{release: 28, cpu: true, cross: true, version: true, exactTenants: true},
		{release: 30, cpu: true, cross: true, version: true},
		{release: 31, cpu: true, cross: true, version: true, prop: true},
		{release: 0, cpu: true, cross: true, version: true, prop: true},
	} {
		has := func(filter string) bool { return slices.Contains(c.release.DefaultFilters(), filter) }
		for what, ok := range map[string]bool{
			"RetryFilter":            has("RetryFilter") == c.retry,
			"AvailabilityZoneFilter": has("AvailabilityZoneFilter") == c.zone,
			"RamFilter":              has("RamFilter") == c.ram && has("DiskFilter") == c.ram,
			"ComputeFilter":          has("ComputeFilter"),
			"RAMWeigher":             c.release.HasWeigher("RAMWeigher"),
			"CPUWeigher":             c.release.HasWeigher("CPUWeigher") == c.cpu,
			"CrossCellWeigher":       c.release.HasWeigher("CrossCellWeigher") == c.cross,
			"versions":               c.release.HasWeigher("HypervisorVersionWeigher") == c.version,
			"instances":              c.release.HasWeigher("NumInstancesWeigher") == c.version,
			"properties":             c.release.HasWeigher("ImagePropertiesWeigher") == c.prop,
			"old names":              c.release.ReadsOldNames() == c.oldNames,
			"tenants":                c.release.ExactTenantKey() == c.exactTenants,
		} {
			if !ok {
				t.Errorf("%s: %s", c.release, what)
			}
		}
	}
}
