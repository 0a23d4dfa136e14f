package novaconf

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/internal/novarelease"
)

// everything knows all of Nova's names except those listed.
func everything(but ...string) Known {
	has := func(name string) bool { return !slices.Contains(but, name) }
	return Known{Filter: has, Weigher: has}
}

// write puts texts into files and gives their paths.
func write(t *testing.T, texts ...string) []string {
	t.Helper()
	var paths []string
	dir := t.TempDir()
	for i, text := range texts {
		path := filepath.Join(dir, string(rune('a'+i))+".conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func settings(t *testing.T, known Known, texts ...string) *Settings {
	t.Helper()
	s, err := Read(write(t, texts...), known)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// notesText gives the notes as text, without the folder of their files.
func (s *Settings) notesText() string {
	var b strings.Builder
	for _, n := range s.Notes {
		b.WriteString(filepath.Base(n.Where) + " " + n.What + ": " + n.Why + "\n")
	}
	return b.String()
}

var novas = []string{"ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"}

// A scheduler option in a section where Nova does not read it is reported, and has no effect.
func TestParse_OptionInAnotherSection_HasANote(t *testing.T) {
	s := settings(t, everything(), "[pci]\npci_in_placement = true\nreport_in_placement = true\n[DEFAULT]\npci_in_placement = true\nhost_subset_size = 3\n[cinder]\nhost_subset_size = 3\n")
	if s.Values["[filter_scheduler] pci_in_placement"] != false || s.Values["[filter_scheduler] host_subset_size"] != 1 {
		t.Errorf("they count: %v", s.Values)
	}
	const why = " alone; move the line there, or delete it\n"
	if got, want := s.notesText(), "a.conf:2 [pci] pci_in_placement: does not count: Nova reads [filter_scheduler] pci_in_placement"+why+
		"a.conf:5 [DEFAULT] pci_in_placement: does not count: Nova reads [filter_scheduler] pci_in_placement"+why+
		"a.conf:6 [DEFAULT] host_subset_size: does not count: Nova reads [filter_scheduler] host_subset_size"+why; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestNothingSetIsNovasDefault(t *testing.T) {
	s := settings(t, everything(), "[DEFAULT]\ndebug = true\n")
	if want := append(slices.Clone(always), novas...); !slices.Equal(s.Filters, want) {
		t.Errorf("filters %v, want %v", s.Filters, want)
	}
	want := []Weigher{
		{"RAMWeigher", 1},
		{"CPUWeigher", 1},
		{"DiskWeigher", 1},
		{"IoOpsWeigher", -1},
		{"ServerGroupSoftAffinityWeigher", 1},
		{"ServerGroupSoftAntiAffinityWeigher", 1},
		{"BuildFailureWeigher", 1e6},
		{"CrossCellWeigher", 1e6},
		{"PCIWeigher", 1},
		{"HypervisorVersionWeigher", 1},
		{"NumInstancesWeigher", 0},
		{"ImagePropertiesWeigher", 0},
	}
	if !slices.Equal(s.Weighers, want) {
		t.Errorf("weighers %v", s.Weighers)
	}
	for name, want := range map[string]any{
		"[filter_scheduler] host_subset_size": 1, "[filter_scheduler] max_io_ops_per_host": 8, "[filter_scheduler] max_instances_per_host": 50,
		"[filter_scheduler] restrict_isolated_hosts_to_isolated_images": true, "[filter_scheduler] aggregate_image_properties_isolation_separator": ".",
		"[metrics] required": true, "[metrics] weight_of_unavailable": -10000.0, "[filter_scheduler] isolated_hosts": []string{}, "[filter_scheduler] isolated_images": []string{},
		"[metrics] weight_setting": []string{}, "[filter_scheduler] image_props_weight_setting": []string{}, "[DEFAULT] default_availability_zone": "nova",
		"[scheduler] limit_tenants_to_placement_aggregate": false, "[scheduler] image_metadata_prefilter": false, "[filter_scheduler] pci_in_placement": false,
	} {
		if got := s.Values[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", name, got, want)
		}
	}
	if len(s.Notes) != 0 || len(s.From) != 0 {
		t.Errorf("notes %v, from %v", s.Notes, s.From)
	}
}

// The files that deployment tools write, shortened.
func TestFilesOfDeployments(t *testing.T) {
	for name, c := range map[string]struct {
		texts   []string
		release novarelease.Release
		// Expected: filters besides those that always run; weights by name; notes.
		filters []string
		weights map[string]float64
		values  map[string]any
		zone    string
		notes   []string
	}{
		"kolla": {
			texts: []string{`[DEFAULT]
debug = False
log_dir = /var/log/kolla/nova
state_path = /var/lib/nova
my_ip = 192.0.2.11
transport_url = rabbit://openstack:Sq$$uid@192.0.2.11:5672//

[scheduler]
max_attempts = 10
discover_hosts_in_cells_interval = 60
workers = 5

[filter_scheduler]
enabled_filters = ComputeFilter, ComputeCapabilitiesFilter, ImagePropertiesFilter, ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter, PciPassthroughFilter
available_filters = nova.scheduler.filters.all_filters
`},
			filters: append(slices.Clone(novas), "PciPassthroughFilter"),
			notes: []string{
				"a.conf:10 [scheduler] discover_hosts_in_cells_interval: has no effect here: only nova-scheduler maps new hosts",
				"a.conf:11 [scheduler] workers: has no effect here",
			},
		},
		"devstack": {
			texts: []string{`[DEFAULT]
logging_context_format_string = %(color)s%(levelname)s %(name)s [%(global_request_id)s] %(message)s
instances_path = $state_path/instances
default_availability_zone = nova-$site
site = lab

[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,SameHostFilter,DifferentHostFilter
track_instance_changes = False
`},
			filters: append(slices.Clone(novas), "SameHostFilter", "DifferentHostFilter"),
			zone:    "nova-lab",
			notes:   []string{"a.conf:9 [filter_scheduler] track_instance_changes: has no effect here: computes"},
		},
		"RDO of old, two files": {
			release: 15,
			texts: []string{`[DEFAULT]
# distribution's defaults
scheduler_host_subset_size=1
ram_weight_multiplier = 1.0
`, `[DEFAULT]
scheduler_available_filters=nova.scheduler.filters.all_filters
scheduler_available_filters=nova.scheduler.filters.pci_passthrough_filter.PciPassthroughFilter
scheduler_default_filters=RetryFilter,AvailabilityZoneFilter,RamFilter,CoreFilter,DiskFilter,ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
ram_weight_multiplier=-1.0
scheduler_host_subset_size=10
scheduler_max_attempts=5
scheduler_driver=nova.scheduler.filter_scheduler.FilterScheduler
max_io_ops_per_host=16
`},
			filters: append([]string{"RetryFilter", "RamFilter", "CoreFilter", "DiskFilter"}, novas...),
			weights: map[string]float64{"RAMWeigher": -1},
			values:  map[string]any{"[filter_scheduler] host_subset_size": 10, "[filter_scheduler] max_io_ops_per_host": 16},
			notes: []string{
				"b.conf:4 [DEFAULT] scheduler_default_filters: is [filter_scheduler] enabled_filters today",
				"b.conf:4 RetryFilter: redundant: delete it from enabled_filters; a build that failed",
				"b.conf:4 AvailabilityZoneFilter: redundant: delete it",
				"b.conf:4 RamFilter: redundant: delete it from enabled_filters; ResourceFilter(MEMORY_MB)",
				"b.conf:4 CoreFilter: redundant: delete it from enabled_filters; ResourceFilter(VCPU)",
				"b.conf:4 DiskFilter: redundant: delete it from enabled_filters; ResourceFilter(DISK_GB)",
				"b.conf:5 [DEFAULT] ram_weight_multiplier: is [filter_scheduler] ram_weight_multiplier today",
				"b.conf:6 [DEFAULT] scheduler_host_subset_size: is [filter_scheduler] host_subset_size today",
				"b.conf:7 [DEFAULT] scheduler_max_attempts: is [scheduler] max_attempts today",
				"b.conf:8 [DEFAULT] scheduler_driver: has no effect here: there is one scheduler",
				"b.conf:9 [DEFAULT] max_io_ops_per_host: is [filter_scheduler] max_io_ops_per_host today",
			},
		},
		"an aggregate of windows hosts, values over lines": {
			texts: []string{`[filter_scheduler]
enabled_filters =
  ComputeFilter,
  ComputeCapabilitiesFilter,ImagePropertiesFilter,
  ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,
  nova.scheduler.filters.isolated_hosts_filter.IsolatedHostsFilter,
weight_classes = nova.scheduler.weights.ram.RAMWeigher,
  nova.scheduler.weights.metrics.MetricsWeigher
isolated_hosts = "win1,win2"
isolated_images: 342b492c-128f-4a42-8d3a-c5088cf27d13 , ebd267a6-ca86-4d6c-9a0e-bd132d6b7d09
[Metrics]
weight_setting = cpu.percent=1.0, memory.bandwidth=-2
`},
			filters: append(slices.Clone(novas), "IsolatedHostsFilter"),
			weights: map[string]float64{"RAMWeigher": 1, "MetricsWeigher": 1},
			values: map[string]any{
				"[filter_scheduler] isolated_hosts":  []string{"win1", "win2"},
				"[filter_scheduler] isolated_images": []string{"342b492c-128f-4a42-8d3a-c5088cf27d13", "ebd267a6-ca86-4d6c-9a0e-bd132d6b7d09"},
				"[metrics] weight_setting":           []string{"cpu.percent=1.0", "memory.bandwidth=-2"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			known := everything()
			known.Release = c.release
			s := settings(t, known, c.texts...)
			if got := s.Filters[len(always):]; !slices.Equal(got, c.filters) {
				t.Errorf("filters\n %v, want\n %v", got, c.filters)
			}
			for _, w := range s.Weighers {
				if want, ok := c.weights[w.Name]; ok && w.Multiplier != want {
					t.Errorf("%s: %v, want %v", w.Name, w.Multiplier, want)
				}
			}
			if strings.Contains(strings.Join(c.texts, ""), "weight_classes") && len(s.Weighers) != len(c.weights) {
				t.Errorf("weighers %v", s.Weighers)
			}
			for name, standard := range settings(t, everything(), "").Values {
				if strings.HasPrefix(name, "[DEFAULT]") || name == "[scheduler] max_attempts" || strings.HasSuffix(name, "_filters") || name == "[filter_scheduler] weight_classes" {
					continue
				}
				want, other := c.values[name]
				if !other {
					want = standard
				}
				if !reflect.DeepEqual(s.Values[name], want) {
					t.Errorf("%s is %v, want %v", name, s.Values[name], want)
				}
			}
			if c.zone == "" {
				c.zone = "nova"
			}
			if s.Values["[DEFAULT] default_availability_zone"] != c.zone {
				t.Errorf("zone %q, want %q", s.Values["[DEFAULT] default_availability_zone"], c.zone)
			}
			lines := strings.FieldsFunc(s.notesText(), func(r rune) bool { return r == '\n' })
			if len(lines) != len(c.notes) {
				t.Fatalf("%d notes, want %d:\n%s", len(lines), len(c.notes), s.notesText())
			}
			for i, want := range c.notes {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("note %q, want %q", lines[i], want)
				}
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lacks []string
		want  []string
	}{
		"misspelt filter":     {text: "enabled_filters = ComputFilter", want: []string{"a.conf:2: [filter_scheduler] enabled_filters: there is no filter ComputFilter; did you mean ComputeFilter?"}},
		"no such filter":      {text: "enabled_filters = ComputeFilter,Zebra", want: []string{"there is no filter Zebra; there are AggregateIm"}},
		"not yet there":       {text: "enabled_filters = NUMATopologyFilter", lacks: []string{"NUMATopologyFilter"}, want: []string{"NUMATopologyFilter: cellgate does not have this filter yet; it has AggregateImage"}},
		"default not there":   {text: "", lacks: []string{"ImagePropertiesFilter"}, want: []string{"Nova's default of [filter_scheduler] enabled_filters: ImagePropertiesFilter: cellgate does not have this filter yet"}},
		"removed":             {text: "enabled_filters = TrustedFilter", lacks: []string{"TrustedFilter"}, want: []string{"TrustedFilter: cellgate does not have it: Nova removed it in 16.0.0"}},
		"out of tree, path":   {text: "enabled_filters = acme.filters.GpuFilter", want: []string{"GpuFilter is not Nova's own (acme.filters.GpuFilter)"}},
		"out of tree, class":  {text: "available_filters = nova.scheduler.filters.all_filters\navailable_filters = acme.filters.GpuFilter\nenabled_filters = ComputeFilter,GpuFilter", want: []string{"a.conf:4: ", "GpuFilter is not Nova's own (acme.filters.GpuFilter): cellgate runs no Python"}},
		"not available":       {text: "available_filters = nova.scheduler.filters.compute_filter.ComputeFilter\nenabled_filters = ComputeFilter,JsonFilter", want: []string{"JsonFilter is enabled, but not in [filter_scheduler] available_filters"}},
		"missing comma":       {text: "enabled_filters = ComputeFilter\n  JsonFilter", want: []string{"is a comma missing?"}},
		"empty name":          {text: "enabled_filters = ComputeFilter,,JsonFilter", want: []string{"has an empty name"}},
		"out of tree weigher": {text: "weight_classes = acme.Cheapest", want: []string{"weight_classes: acme.Cheapest is not Nova's own"}},
		"no such weigher":     {text: "weight_classes = nova.scheduler.weights.ram.RamWeigher", want: []string{"there is no weigher RamWeigher; did you mean RAMWeigher?"}},
		"weigher not there":   {text: "num_instances_weight_multiplier = 2", lacks: []string{"NumInstancesWeigher"}, want: []string{"NumInstancesWeigher has the multiplier 2: cellgate does not have this weigher yet"}},
		"not a number":        {text: "cpu_weight_multiplier = high", want: []string{`a.conf:2: [filter_scheduler] cpu_weight_multiplier: "high" is not a number`}},
		"not finite":          {text: "cpu_weight_multiplier = nan", want: []string{`"nan" is not a number`}},
		"not whole":           {text: "host_subset_size = 1.5", want: []string{`"1.5" is not a whole number`}},
		"too small":           {text: "host_subset_size = 0\npci_weight_multiplier = -1", want: []string{"0 is below 1, the least that Nova takes", "-1 is below 0"}},
		"neither":             {text: "restrict_isolated_hosts_to_isolated_images = maybe", want: []string{`"maybe" is neither true nor false`}},
		"no such option":      {text: "cpu_weigth_multiplier = 2\nRestrict-isolated-hosts = true", want: []string{"a.conf:2: [filter_scheduler] cpu_weigth_multiplier: Nova's scheduler has no such option: delete it, or did you mean cpu_weight_multiplier?", "a.conf:3: [filter_scheduler] Restrict-isolated-hosts: Nova's"}},
		"dashes":              {text: "host-subset-size = 2", want: []string{"a.conf:2: [filter_scheduler] host-subset-size: Nova reads no name with dashes: write host_subset_size"}},
		"no architecture":     {text: "image_properties_default_architecture = z80", want: []string{`"z80" is none of alpha, `}},
		"dangling reference":  {text: "isolated_hosts = $nobody", want: []string{"isolated_hosts refers to $nobody, which the files do not set"}},
		"round":               {text: "isolated_hosts = $a\na = ${filter_scheduler.b}\nb = $a", want: []string{"refers to itself"}},
		"not ini":             {text: "what is this\n[nonsense\n= 3", want: []string{`a.conf:2: "what is this" is not an option`, `a.conf:3: "[nonsense" is not a section`, `a.conf:4: "= 3" is`}},
		"continues nothing":   {text: "\n  more", want: []string{"a.conf:3: begins with a blank"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(write(t, "[filter_scheduler]\n"+c.text+"\n"), everything(c.lacks...))
			var p *Problems
			if !errors.As(err, &p) {
				t.Fatalf("error %v, want *Problems", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("does not say %q:\n%v", w, err)
				}
			}
		})
	}
}

// weight_classes are summed in their order, a class that is named twice counts twice, and a
// multiplier of 0 leaves those of aggregates.
func TestWeighersInTheirOrder(t *testing.T) {
	s := settings(t, everything(), `[filter_scheduler]
weight_classes = nova.scheduler.weights.cpu.CPUWeigher,nova.scheduler.weights.ram.RAMWeigher,nova.scheduler.weights.metrics.MetricsWeigher,nova.scheduler.weights.ram.RAMWeigher
[metrics]
weight_multiplier = 0
weight_setting = cpu.percent=1
`)
	want := []Weigher{{"CPUWeigher", 1}, {"RAMWeigher", 1}, {"MetricsWeigher", 0}, {"RAMWeigher", 1}}
	if !slices.Equal(s.Weighers, want) || !strings.Contains(s.notesText(), "RAMWeigher: is named twice") {
		t.Errorf("weighers %v, notes %s", s.Weighers, s.notesText())
	}
}

func TestMissingFileAndStrayLines(t *testing.T) {
	_, err := Read([]string{"/nonexistent/nova.conf"}, everything())
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/nova.conf") {
		t.Errorf("error %v", err)
	}
	_, err = Read(write(t, "debug = true\n"), everything())
	if err == nil || !strings.Contains(err.Error(), "debug stands before the first section") {
		t.Errorf("error %v", err)
	}
}

func TestRead_OptionThatRefusesRequests_IsSetAndNoted(t *testing.T) {
	s := settings(t, everything(), "[scheduler]\nquery_placement_for_routed_network_aggregates = yes\n[filter_scheduler]\npci_in_placement = yes\n")
	if !s.Values["[scheduler] query_placement_for_routed_network_aggregates"].(bool) || !s.Values["[filter_scheduler] pci_in_placement"].(bool) {
		t.Errorf("values %+v, want both on", s.Values)
	}
	const want = "a.conf:2 [scheduler] query_placement_for_routed_network_aggregates: is on, and [neutron] has no account: requests that name ports or networks are refused"
	if notes := s.notesText(); !strings.Contains(notes, want) || strings.Contains(notes, "pci_in_placement") {
		t.Errorf("notes do not say %q alone:\n%s", want, notes)
	}
}

func TestRead_ServiceDownTime_IsLongerThanReportInterval(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "report_interval = 20": time.Minute, "report_interval = 60": 150 * time.Second,
		"report_interval = 61\nservice_down_time = 50": 152 * time.Second, "report_interval = 61\nservice_down_time = 62": 62 * time.Second,
	} {
		if got := settings(t, everything(), "[DEFAULT]\n"+text+"\n").ServiceDownTime; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestNotesOfFilters(t *testing.T) {
	s := settings(t, everything("CoreFilter", "RetryFilter"), `[filter_scheduler]
enabled_filters = AllHostsFilter, CoreFilter, RetryFilter, AvailabilityZoneFilter, JsonFilter, JsonFilter
available_filters = acme.Unused
available_filters = nova.scheduler.filters.all_filters
host_subset_size =
[DEFAULT]
service_down_time = 300
cpu_weight_multiplier = 3
scheduler_zebra = 1
ram_allocation_ratio = 1.5
reserved_host_memory_mb = 512
`)
	if got, want := s.Filters[len(always):], []string{"AllHostsFilter", "JsonFilter", "ComputeFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"}; !slices.Equal(got, want) {
		t.Errorf("filters %v, want %v", got, want)
	}
	for _, want := range []string{
		"a.conf:2 CoreFilter: redundant: delete it from enabled_filters; ResourceFilter(VCPU)",
		"a.conf:2 AllHostsFilter: redundant", "a.conf:2 JsonFilter: is enabled twice",
		"a.conf:2 ComputeFilter: is not enabled, and runs all the same", "a.conf:2 ServerGroupAffinityFilter: is not enabled, and runs",
		"a.conf:3 acme.Unused: is not Nova's own and not enabled: delete it",
		"a.conf:5 [filter_scheduler] host_subset_size: is empty: to Nova that is no number; here its default counts, 1",
		"a.conf:7 [DEFAULT] service_down_time: has no effect here: a cell says",
		"a.conf:8 [DEFAULT] cpu_weight_multiplier: does not count: Nova reads [filter_scheduler] cpu_weight_multiplier alone", "a.conf:9 [DEFAULT] scheduler_zebra: ",
	} {
		if !strings.Contains(s.notesText(), want) {
			t.Errorf("not told: %s\n%s", want, s.notesText())
		}
	}
	if s.ServiceDownTime != 5*time.Minute {
		t.Errorf("service_down_time is %v", s.ServiceDownTime)
	}
	if strings.Contains(s.notesText(), "reserved_host_memory_mb") {
		t.Errorf("told of an option that is not the scheduler's:\n%s", s.notesText())
	}
	if got := s.From["[filter_scheduler] enabled_filters"]; !strings.HasSuffix(got, "a.conf:2") {
		t.Errorf("enabled_filters come from %q", got)
	}
}

func TestLaterFilesAndNamesWin(t *testing.T) {
	// As in oslo.config: the last file that has the option under any name counts. Within it,
	// today's name does.
	s := settings(t, of(23),
		"[filter_scheduler]\nhost_subset_size = 2\nhost_subset_size = 3\n",
		"[DEFAULT]\nscheduler_host_subset_size = 4\n")
	if s.Values["[filter_scheduler] host_subset_size"].(int) != 4 {
		t.Errorf("host_subset_size %d, want 4, of the later file", s.Values["[filter_scheduler] host_subset_size"].(int))
	}
	s = settings(t, of(23), "[filter_scheduler]\nhost_subset_size = 2\nhost_subset_size = 3\n[DEFAULT]\nscheduler_host_subset_size = 4\n")
	if s.Values["[filter_scheduler] host_subset_size"].(int) != 3 {
		t.Errorf("host_subset_size %d, want 3, today's name and the last of them", s.Values["[filter_scheduler] host_subset_size"].(int))
	}
}

// Each option of the table has an effect or a reason why not, and its default can be read.
func TestTableOfOptions(t *testing.T) {
	seen := map[place]bool{}
	for _, o := range tableOfOptions() {
		if o.idle != "" && o.missing != "" {
			t.Errorf("%s says two things", o.place)
		}
		for _, p := range append([]place{o.place}, o.old...) {
			if seen[p] {
				t.Errorf("%s stands twice", p)
			}
			seen[p] = true
		}
	}
	for _, w := range weighers {
		if s := settings(t, everything(), ""); !slices.ContainsFunc(s.Weighers, func(x Weigher) bool { return x.Name == w }) && w != "MetricsWeigher" {
			t.Errorf("%s has no multiplier", w)
		}
	}
}

// In the section workarounds, which other services of Nova read too, one option is the scheduler's.
// Other names are not reported as unknown.
func TestWorkarounds(t *testing.T) {
	s := settings(t, everything(), "[workarounds]\ndisable_fallback_pcpu_query = true\nskip_cpu_compare_on_dest = true\n")
	if !s.Values["[workarounds] disable_fallback_pcpu_query"].(bool) || strings.Contains(s.notesText(), "workarounds") {
		t.Errorf("fallback off: %v; notes %q", s.Values["[workarounds] disable_fallback_pcpu_query"].(bool), s.notesText())
	}
}
