package novaconf

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A value that Nova accepts but cellgate does not use as it stands is reported, and does not end
// the start.
func TestValuesThatCountOtherwise(t *testing.T) {
	for text, c := range map[string]struct {
		note string
		is   func(*Settings) bool
	}{
		"[filter_scheduler]\nhost_subset_size = 10000": {"", func(s *Settings) bool { return s.Values["[filter_scheduler] host_subset_size"].(int) == 10_000 }},
		"[filter_scheduler]\nhost_subset_size = 10001": {
			"a.conf:2 [filter_scheduler] host_subset_size: counts as 10000, the most",
			func(s *Settings) bool { return s.Values["[filter_scheduler] host_subset_size"].(int) == 10_000 },
		},
		"[filter_scheduler]\nhost_subset_size = 99999999999999999999": {
			"counts as 10000", func(s *Settings) bool { return s.Values["[filter_scheduler] host_subset_size"].(int) == 10_000 },
		},
		"[filter_scheduler]\nmax_io_ops_per_host = 9223372036854775807": {
			"", func(s *Settings) bool {
				return s.Values["[filter_scheduler] max_io_ops_per_host"].(int) == math.MaxInt64
			},
		},
		"[metrics]\nweight_setting = cpu.percent=1.0,,cpu.user.percent= 2 ,x,=3,y=abc,z=0x1p3": {
			`a.conf:2 [metrics] weight_setting: "" does not count, as in Nova: it is not NAME=NUMBER
a.conf:2 [metrics] weight_setting: "x" does not count, as in Nova: it is not NAME=NUMBER
a.conf:2 [metrics] weight_setting: "=3" does not count, as in Nova: it is not NAME=NUMBER
a.conf:2 [metrics] weight_setting: "y=abc" does not count, as in Nova: it is not NAME=NUMBER
a.conf:2 [metrics] weight_setting: "z=0x1p3" does not count, as in Nova: it is not NAME=NUMBER
`,
			func(s *Settings) bool {
				return slices.Equal(s.Values["[metrics] weight_setting"].([]string), []string{"cpu.percent=1.0", "cpu.user.percent= 2"})
			},
		},
		"[filter_scheduler]\nimage_props_weight_setting = os_distro": {
			`image_props_weight_setting: "os_distro" does not count`,
			func(s *Settings) bool {
				return len(s.Values["[filter_scheduler] image_props_weight_setting"].([]string)) == 0
			},
		},
		// Nova reads it as a number. The check of the configuration refuses it.
		"[metrics]\nweight_setting = a=inf,b=1e999": {"", func(s *Settings) bool { return len(s.Values["[metrics] weight_setting"].([]string)) == 2 }},
		"[DEFAULT]\ndefault_availability_zone =": {
			"a.conf:2 [DEFAULT] default_availability_zone: is empty: cellgate has no zone without a name",
			func(s *Settings) bool { return s.Values["[DEFAULT] default_availability_zone"] == "nova" },
		},
		"[filter_scheduler]\naggregate_image_properties_isolation_namespace = \"": {
			"", func(s *Settings) bool {
				return s.Values["[filter_scheduler] aggregate_image_properties_isolation_namespace"].(string) == ""
			},
		},
	} {
		s := settings(t, everything(), text)
		if !c.is(s) || c.note == "" && len(s.Notes) > 0 || !strings.Contains(s.notesText(), c.note) {
			t.Errorf("%s: %+v, zone %q, notes\n%s", text, s.Values, s.Values["[DEFAULT] default_availability_zone"], s.notesText())
		}
	}
}

func TestValuesThatNovaRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"[metrics]\nrequired =":                                                 `"" is neither true nor false`,
		"[metrics]\nrequired = \"":                                              `"" is neither true nor false`,
		"[metrics]\nweight_of_unavailable = 0x1p3":                              `"0x1p3" is not a number`,
		"[filter_scheduler]\nhost_subset_size = 0":                              "0 is below 1",
		"[filter_scheduler]\nhost_subset_size = 1.5":                            `"1.5" is not a whole number`,
		"[filter_scheduler]\nmax_io_ops_per_host = -" + strings.Repeat("9", 20): "is below 0",
	} {
		files := write(t, text)
		if _, err := Read(files, everything()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), filepath.Base(files[0])+":2") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
