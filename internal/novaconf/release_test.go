package novaconf

import (
	"slices"
	"strings"
	"testing"

	"cellgate/internal/novarelease"
)

func of(release novarelease.Release) Known {
	known := everything()
	known.Release = release
	return known
}

// Names from before Ocata count until Wallaby. The newer names always count.
func TestOldNamesCountWhereNovaReadsThem(t *testing.T) {
	const text = `[DEFAULT]
scheduler_host_subset_size = 7
ram_weight_multiplier = -1
scheduler_default_filters = ComputeFilter,JsonFilter
scheduler_available_filters = nova.scheduler.filters.all_filters
io_ops_weight_multiplier = 3
default-availability-zone = north
[filter_scheduler]
io_ops_weight_multiplier = 2
`
	old := settings(t, of(23), text)
	if old.Values["[filter_scheduler] host_subset_size"].(int) != 7 || old.multipliers["RAMWeigher"] != -1 || !slices.Contains(old.Filters, "JsonFilter") || old.multipliers["IoOpsWeigher"] != 2 {
		t.Errorf("with Wallaby: %+v, %v, %v", old.Values, old.Filters, old.multipliers)
	}
	for _, want := range []string{
		"a.conf:2 [DEFAULT] scheduler_host_subset_size: is [filter_scheduler] host_subset_size today, and counts in Nova 23 (wallaby)",
		"a.conf:4 [DEFAULT] scheduler_default_filters: is [filter_scheduler] enabled_filters today",
	} {
		if !strings.Contains(old.notesText(), want) {
			t.Errorf("not told: %s\n%s", want, old.notesText())
		}
	}
	for _, release := range []novarelease.Release{novarelease.Xena, 0} {
		s := settings(t, of(release), text)
		if s.Values["[filter_scheduler] host_subset_size"].(int) != 1 || s.multipliers["RAMWeigher"] != 1 || slices.Contains(s.Filters, "JsonFilter") || s.multipliers["IoOpsWeigher"] != 2 {
			t.Errorf("with %s: %+v, %v, %v", release, s.Values, s.Filters, s.multipliers)
		}
		if s.Values["[DEFAULT] default_availability_zone"] != "nova" {
			t.Errorf("with %s a name with dashes counts", release)
		}
		for _, want := range []string{
			"a.conf:2 [DEFAULT] scheduler_host_subset_size: does not count: Nova has read [filter_scheduler] host_subset_size alone since 24.0.0 (xena)",
			"a.conf:3 [DEFAULT] ram_weight_multiplier: does not count", "a.conf:4 [DEFAULT] scheduler_default_filters: does not count",
			"a.conf:5 [DEFAULT] scheduler_available_filters: does not count", "a.conf:6 [DEFAULT] io_ops_weight_multiplier: does not count",
			"a.conf:7 [DEFAULT] default-availability-zone: Nova reads no name with dashes: write default_availability_zone",
		} {
			if !strings.Contains(s.notesText(), want) {
				t.Errorf("with %s not told: %s\n%s", release, want, s.notesText())
			}
		}
	}
}

// all_weighers are the release's, and so are the filters of a file that enables none.
func TestDefaultsAreTheReleases(t *testing.T) {
	has := func(s *Settings, weigher string) bool {
		return slices.ContainsFunc(s.Weighers, func(w Weigher) bool { return w.Name == weigher })
	}
	ocata, zed, newest := settings(t, of(15), ""), settings(t, of(novarelease.Zed), ""), settings(t, of(0), "")
	for weigher, since := range map[string][3]bool{
		"RAMWeigher": {true, true, true}, "CPUWeigher": {false, true, true}, "CrossCellWeigher": {false, true, true},
		"HypervisorVersionWeigher": {false, false, true}, "NumInstancesWeigher": {false, false, true}, "ImagePropertiesWeigher": {false, false, true},
	} {
		if got := [3]bool{has(ocata, weigher), has(zed, weigher), has(newest, weigher)}; got != since {
			t.Errorf("%s: %v, want %v", weigher, got, since)
		}
	}
	if got, want := ocata.Filters[len(always):], append([]string{"RetryFilter", "RamFilter", "DiskFilter"}, novas...); !slices.Equal(got, want) {
		t.Errorf("Ocata filters by %v, want %v", got, want)
	}
	if got := zed.Filters[len(always):]; !slices.Equal(got, novas) {
		t.Errorf("Zed filters by %v", got)
	}
	if noteTexts := ocata.notesText() + zed.notesText() + newest.notesText(); noteTexts != "" {
		t.Errorf("of nothing that files say is told: %s", noteTexts)
	}
}

func TestWeighersThatTheReleaseLacks(t *testing.T) {
	const option = "[filter_scheduler]\nhypervisor_version_weight_multiplier = 2\n"
	if s := settings(t, of(novarelease.Zed), option); !strings.Contains(s.notesText(), "a.conf:2 [filter_scheduler] hypervisor_version_weight_multiplier: has no effect: Nova 26 (zed) has no HypervisorVersionWeigher, which came with Nova 28 (2023.2)") {
		t.Errorf("told %q", s.notesText())
	}
	if s := settings(t, of(novarelease.Bobcat), option); s.notesText() != "" {
		t.Errorf("told %q", s.notesText())
	}
	const class = "[filter_scheduler]\nweight_classes = nova.scheduler.weights.hypervisor_version.HypervisorVersionWeigher\n"
	_, err := Read(write(t, class), of(novarelease.Zed))
	if err == nil || !strings.Contains(err.Error(), "weight_classes: Nova 26 (zed) has no HypervisorVersionWeigher, which came with Nova 28 (2023.2)") {
		t.Errorf("error %v", err)
	}
	if s := settings(t, of(novarelease.Bobcat), class); len(s.Weighers) != 1 {
		t.Errorf("weighers %v", s.Weighers)
	}
}
