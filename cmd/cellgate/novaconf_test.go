package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/rules"
	"cellgate/internal/config"
	"cellgate/internal/novaconf"
)

// novaConfFile writes a nova.conf.
func novaConfFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nova.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// printed runs --print-config. It returns the rows, [source, value] by key, and the notes below
// them.
func printed(t *testing.T, args ...string) (rows map[string][2]string, notes string) {
	t.Helper()
	out, stderr, status := typed(t.Context(), "", append(args, "--print-config")...)
	if status != exitDone || stderr != "" {
		t.Fatalf("%v: status %d\n%s%s", args, status, out, stderr)
	}
	table, notes, _ := strings.Cut(out, "\n\n")
	rows = map[string][2]string{}
	for line := range strings.Lines(table) {
		f := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), 3)
		if len(f) != 3 {
			t.Fatalf("line %q has %d columns", line, len(f))
		}
		rows[f[0]] = [2]string{f[1], f[2]}
	}
	return rows, notes
}

func TestGatewayTakesNovaConfWhereNothingElseIsSet(t *testing.T) {
	conf := novaConfFile(t, `[filter_scheduler]
enabled_filters = ComputeFilter,JsonFilter,CoreFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
cpu_weight_multiplier = 2
host_subset_size = 5
max_io_ops_per_host = 4
isolated_hosts = h1,h2
[metrics]
weight_setting = cpu.percent=1.5
[DEFAULT]
default_availability_zone = north
`)
	rows, notes := printed(t, "gateway", "--cell", "a=h:1", "--nova-conf", conf, "--nova-host-subset-size", "5", "--nova-max-instances-per-host", "9")
	for key, want := range map[string][2]string{
		"gateway.filters":                     {conf + ":2", "HostFilter,AvailabilityZoneFilter,AggregateFilter,TraitFilter,ResourceFilter,ComputeFilter,JsonFilter,CoreFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"},
		"gateway.default_availability_zone":   {conf + ":10", "north"},
		"gateway.nova.host_subset_size":       {"--nova-host-subset-size", "5"},
		"gateway.nova.max_io_ops_per_host":    {conf + ":5", "4"},
		"gateway.nova.max_instances_per_host": {"--nova-max-instances-per-host", "9"},
		"gateway.nova.isolated_hosts":         {conf + ":6", "h1,h2"},
		"gateway.nova.metrics_weight_setting": {conf + ":8", "cpu.percent=1.5"},
		"gateway.nova_conf":                   {"--nova-conf", conf},
		"gateway.cells":                       {"--cell", "a=h:1"},
		"gateway.nova.strict_nova":            {"default", "false"},
		"gateway.nova.metrics_required":       {"Nova's default", "true"},
	} {
		if rows[key] != want {
			t.Errorf("%s: %q, want %q", key, rows[key], want)
		}
	}
	if named := strings.Split(rows["gateway.filters"][1], ","); !slices.Equal(rules.FiltersInForce(named), named) {
		t.Errorf("filters %v are shown, %v run", named, rules.FiltersInForce(named))
	}
	if w := rows["gateway.weighers"]; !strings.Contains(w[1], "CPUWeigher=2,") || !strings.Contains(w[1], "MetricsWeigher=1") || w[0] != conf+":3" {
		t.Errorf("weighers %q", w)
	}
	for _, want := range []string{"CoreFilter", "redundant: delete it"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes do not say %q:\n%s", want, notes)
		}
	}
}

// Settings that pci_in_placement does not support are reported, wherever it is set.
// Nova's services count as down by Nova's own option, unless the cell of gateway.legacy has another.
func TestNovaConf_ServiceDownTime_IsThatOfLegacyCells(t *testing.T) {
	conf := novaConfFile(t, "[DEFAULT]\nservice_down_time = 300\n")
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := "gateway:\n  nova_conf: [" + conf + "]\n  cells: [{name: a, replicas: [h:1]}, {name: b, replicas: [h:2]}]\n" +
		"  legacy: [{cell: a, database: mysql://u@127.0.0.1/a, api: mysql://u@127.0.0.1/api}, {cell: b, database: mysql://u@127.0.0.1/b, api: mysql://u@127.0.0.1/api, service_down_time: 90s}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadGateway(file, nil)
	if err != nil || c.Gateway.Legacy[0].ServiceDownTime != 5*time.Minute || c.Gateway.Legacy[1].ServiceDownTime != 90*time.Second {
		t.Errorf("%v, %+v", err, c.Gateway.Legacy)
	}
}

func TestPCIInPlacement_Unsupported_IsWarned(t *testing.T) {
	conf := novaConfFile(t, `[filter_scheduler]
pci_in_placement = true
[pci]
alias = {"name": "gpu", "resource_class": "PGPU"}
alias = {"name": "nic", "vendor_id": "8086"}
`)
	const refused = `requests by one alias are refused: PCI alias "nic" must have a resource_class`
	for _, c := range []struct {
		args  []string
		want  string
		count int
	}{
		{[]string{"dev", "--data", "d", "--nova-conf", conf, "--nova-release", "zed"}, conf + ":2 pci_in_placement has no effect: Nova 26 (zed) does not have it, it came with Nova 27 (2023.1)", 1},
		{[]string{"gateway", "--cell", "a=h:1", "--nova-conf", conf, "--nova-release", "antelope"}, conf + ":2 pci_in_placement " + refused, 1},
		{[]string{"gateway", "--cell", "a=h:1", "--nova-pci-in-placement", "--nova-release", "zed"}, "--nova-pci-in-placement pci_in_placement has no effect: Nova 26 (zed)", 1},
		{[]string{"gateway", "--cell", "a=h:1", "--nova-pci-in-placement", "--pci-alias", "name=nic,vendor_id=8086"}, "--nova-pci-in-placement pci_in_placement " + refused, 1},
		{[]string{"gateway", "--cell", "a=h:1", "--nova-pci-in-placement", "--pci-alias", "name=nic,resource_class=NIC"}, "", 0},
	} {
		_, notes := printed(t, c.args...)
		if plain := strings.Join(strings.Fields(notes), " "); !strings.Contains(plain, c.want) || strings.Count(plain, "pci_in_placement has")+strings.Count(plain, "pci_in_placement requests") != c.count {
			t.Errorf("%v: told %q, want %q", c.args, plain, c.want)
		}
	}
}

func TestNovaConfThatCannotBeGoneByEndsTheStart(t *testing.T) {
	conf := novaConfFile(t, "[filter_scheduler]\nenabled_filters = ComputeFilter,AcmeFilter\nuse_baremetal_filters = true\n")
	for _, args := range [][]string{
		{"gateway", "--cell", "a=h:1", "--nova-conf", conf},
		{"dev", "--data", t.TempDir(), "--nova-conf", conf},
	} {
		_, stderr, status := typed(t.Context(), "", args...)
		if status != exitUsage {
			t.Errorf("%v: status %d, want %d", args, status, exitUsage)
		}
		for _, want := range []string{"--nova-conf: " + args[0] + ".nova_conf: " + conf + ":2: [filter_scheduler] enabled_filters: there is no filter AcmeFilter", "use_baremetal_filters = true: cellgate does not have"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, stderr)
			}
		}
	}
}

func TestDevDecidesByNovaConf(t *testing.T) {
	conf := novaConfFile(t, `[filter_scheduler]
enabled_filters = ComputeFilter,IsolatedHostsFilter,RetryFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
isolated_hosts = cell1-r01-h001,cell1-r01-h002
`)
	p := launch(t, false, append([]string{"dev", "--cells", "1", "--hosts", "2", "--data", t.TempDir(), "--nova-conf", conf, "--nova-release", "stein"}, freePorts...)...)
	addr := p.await(`gRPC +(\S+)`)[1]
	out, stderr, _ := typed(t.Context(), "", "select", "--addr", addr, "--vcpus", "1", "--memory-mb", "512", "--disk-gb", "1")
	if !strings.Contains(out+stderr, "IsolatedHostsFilter") {
		t.Errorf("isolated hosts took an instance, or something else rejected them:\n%s%s", out, stderr)
	}
	p.stop()
	if log := p.log.String(); !strings.Contains(log, "configuration, 1 notes:\n"+conf+":2  RetryFilter  redundant: delete it") {
		t.Errorf("no note in the log:\n%s", log)
	}
}

func TestExampleNovaConfIsGoneBy(t *testing.T) {
	conf := deploy + "/examples/nova.conf"
	rows, notes := printed(t, "dev", "--data", "d", "--nova-conf", conf)
	if !strings.HasSuffix(rows["gateway.filters"][1], "NumInstancesFilter,AggregateInstanceExtraSpecsFilter") || !strings.Contains(rows["gateway.weighers"][1], "RAMWeigher=-1,") {
		t.Errorf("rows %q", rows)
	}
	if n := strings.Count(notes, conf+":"); n != 4 {
		t.Errorf("%d notes, want 4:\n%s", n, notes)
	}
}

// The release decides whether old names count and which weighers all_weighers has. If none is
// named, the newest is used, and a note says so.
func TestNovaReleaseDecidesHowNovaConfIsRead(t *testing.T) {
	conf := novaConfFile(t, "[DEFAULT]\nscheduler_host_subset_size = 7\n")
	for release, want := range map[string]struct {
		subset         string
		versions, note bool
	}{
		"":       {"1", true, true},
		"2023.2": {"1", true, false},
		"zed":    {"1", false, false},
		"ocata":  {"7", false, false},
	} {
		for command, args := range map[string][]string{
			"gateway": {"gateway", "--cell", "a=h:1", "--nova-conf", conf, "--nova-release", release},
			"dev":     {"dev", "--data", "d", "--nova-conf", conf, "--nova-release", release},
		} {
			rows, notes := printed(t, args...)
			if got := rows["gateway.nova.host_subset_size"][1]; got != want.subset {
				t.Errorf("%s %q: host_subset_size %s, want %s", command, release, got, want.subset)
			}
			if got := strings.Contains(rows["gateway.weighers"][1], "HypervisorVersionWeigher"); got != want.versions {
				t.Errorf("%s %q: weighers %s", command, release, rows["gateway.weighers"][1])
			}
			if got := strings.Contains(notes, "is not set: read as Nova 34 (2026.2)"); got != want.note {
				t.Errorf("%s %q: notes %s", command, release, notes)
			}
		}
	}
	for _, args := range [][]string{
		{"gateway", "--cell", "a=h:1", "--nova-release", "zedd"},
		{"gateway", "--cell", "a=h:1", "--nova-conf", conf, "--nova-release", "zedd"},
		{"dev", "--data", "d", "--nova-release", "zedd"},
	} {
		_, stderr, status := typed(t.Context(), "", append(args, "--print-config")...)
		if status != exitUsage || !strings.Contains(stderr, `nova_release: "zedd" is no release of Nova; did you mean zed?`) {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}

// Every key that nova.conf sets too has a value there. Those of gateway.nova that it does not set are
// cellgate's own.
func TestEveryOptionOfNovaHasItsKey(t *testing.T) {
	s, err := novaconf.Read([]string{novaConfFile(t, "")}, knownToNova())
	if err != nil {
		t.Fatal(err)
	}
	fields := []string{"gateway.filters", "gateway.weighers", "gateway.pci_alias"} // of Settings
	own := []string{"gateway.nova.exact_tenant_key", "gateway.nova.strict_nova", "gateway.nova.nova_release"}
	for _, k := range config.Keys("gateway") {
		switch {
		case k.Nova != "" && s.Values[k.Nova] == nil && !slices.Contains(fields, k.Path):
			t.Errorf("%s: nova.conf has no %s", k.Path, k.Nova)
		case k.Nova == "" && strings.HasPrefix(k.Path, "gateway.nova.") && !slices.Contains(own, k.Path):
			t.Errorf("%s is not taken from nova.conf", k.Path)
		}
	}
}
