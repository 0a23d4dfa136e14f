package main

import (
	"strings"
	"testing"
)

// Cells accept every option that the start accepts. A gateway with all options of nova.conf at
// their accepted maximum, or minimum, places an instance.
func TestOptionsAtTheirExtremesServe(t *testing.T) {
	for name, text := range map[string]string{
		"most": `[filter_scheduler]
host_subset_size = 4294967296
max_io_ops_per_host = 9223372036854775807
max_instances_per_host = 9223372036854775807
ram_weight_multiplier = 1e100
image_props_weight_multiplier = 1e100
image_props_weight_setting = os_distro=1e100,,x
[metrics]
weight_multiplier = 1e100
weight_setting = cpu.percent=1e100,cpu.user.percent=-1e100,=3
required = false
weight_of_unavailable = 1e100
[DEFAULT]
default_availability_zone =
`,
		"least": `[filter_scheduler]
host_subset_size = 1
max_io_ops_per_host = 0
max_instances_per_host = 1
ram_weight_multiplier = -1e100
image_props_weight_setting = os_distro=-1e100
[metrics]
weight_multiplier = -1e100
weight_setting = cpu.percent=0,x=-1e100
required = false
weight_of_unavailable = -1e100
`,
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, false, append([]string{"dev", "--cells", "1", "--hosts", "2", "--data", t.TempDir(), "--nova-conf", novaConfFile(t, text)}, freePorts...)...)
			addr := p.await(`gRPC +(\S+)`)[1]
			out, stderr, status := typed(t.Context(), "", "select", "--addr", addr, "--vcpus", "1", "--memory-mb", "512", "--disk-gb", "1")
			if status != exitDone {
				t.Errorf("status %d\n%s%s", status, out, stderr)
			}
			p.stop()
		})
	}
}

// A value that no cell accepts ends the start, also of dev. The error names its line.
func TestOptionsBeyondTheirExtremesEndTheStart(t *testing.T) {
	for text, want := range map[string]string{
		"[metrics]\nweight_setting = a=1,cpu.percent=inf":                `gateway.nova.metrics_weight_setting[1]: the factor of "cpu.percent=inf" is not between`,
		"[metrics]\nweight_setting = cpu.percent=nan":                    `gateway.nova.metrics_weight_setting[0]: the factor of`,
		"[metrics]\nweight_setting = cpu.percent=1e300":                  `gateway.nova.metrics_weight_setting[0]: the factor of`,
		"[metrics]\nweight_setting = cpu.percent=1e999":                  `gateway.nova.metrics_weight_setting[0]: the factor of`,
		"[filter_scheduler]\nimage_props_weight_setting = os_distro=inf": `gateway.nova.image_props_weight_setting[0]: the factor of`,
		"[metrics]\nweight_of_unavailable = 1e308":                       `gateway.nova.metrics_weight_of_unavailable: 1e+308 is not between -1e+100 and 1e+100`,
	} {
		conf := novaConfFile(t, text)
		for _, args := range [][]string{
			{"gateway", "--cell", "a=h:1", "--nova-conf", conf},
			{"dev", "--data", "d", "--nova-conf", conf},
		} {
			_, stderr, status := typed(t.Context(), "", append(args, "--print-config")...)
			if status != exitUsage || !strings.Contains(stderr, conf+":2: "+want) {
				t.Errorf("%s of %q: status %d, want %s\n%s", args[0], text, status, want, stderr)
			}
		}
	}
	for flag, value := range map[string]string{
		"--nova-host-subset-size": "10001", "--nova-metrics-weight-setting": "a=nan", "--nova-metrics-weight-of-unavailable": "nan",
	} {
		_, stderr, status := typed(t.Context(), "", "gateway", "--cell", "a=h:1", flag, value, "--print-config")
		if status != exitUsage || !strings.Contains(stderr, flag) {
			t.Errorf("%s %s: status %d, %s", flag, value, status, stderr)
		}
	}
}
