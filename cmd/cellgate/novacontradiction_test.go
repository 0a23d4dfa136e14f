package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// operatorsNovaConf sets the options that operators set most, each to another value than the
// default.
const operatorsNovaConf = `[filter_scheduler]
enabled_filters = ComputeFilter,JsonFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter
cpu_weight_multiplier = 2
host_subset_size = 5
max_instances_per_host = 20
isolated_hosts = h1,h2
[pci]
alias = {"name": "gpu", "vendor_id": "10de", "product_id": "1db6", "device_type": "type-PCI"}
[DEFAULT]
default_availability_zone = north
`

func TestShippedGateway_BesideNovaConf_KeepsAllOfIt(t *testing.T) {
	conf := novaConfFile(t, operatorsNovaConf)
	rows, notes := printed(t, "gateway", "--config", deploy+"/examples/gateway.yaml", "--nova-conf", conf)
	for key, want := range map[string][2]string{
		"gateway.filters":                     {conf + ":2", "JsonFilter"},
		"gateway.weighers":                    {conf + ":3", "CPUWeigher=2,"},
		"gateway.nova.host_subset_size":       {conf + ":4", "5"},
		"gateway.nova.max_instances_per_host": {conf + ":5", "20"},
		"gateway.nova.isolated_hosts":         {conf + ":6", "h1,h2"},
		"gateway.pci_alias":                   {conf + ":8", "gpu"},
		"gateway.default_availability_zone":   {conf + ":10", "north"},
	} {
		if got := rows[key]; got[0] != want[0] || !strings.Contains(got[1], want[1]) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if strings.Contains(notes, "does not count") {
		t.Errorf("notes:\n%s", notes)
	}
}

// gatewayFile writes a gateway's file. lines begin at its line 3.
func gatewayFile(t *testing.T, lines string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte("gateway:\n  cells: [{name: a, replicas: [h:1]}]\n"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestNovaConf_SaysOtherwiseThanTheGateway_StartEndsNamingBothLines(t *testing.T) {
	conf := novaConfFile(t, operatorsNovaConf)
	for lines, line := range map[string]int{
		"  filters: []\n": 2, "  filters: [ComputeFilter]\n": 2, "  weighers: []\n": 3, "  weighers: [{name: RAMWeigher, multiplier: 1}]\n": 3,
		"  nova: {host_subset_size: 1}\n": 4, "  nova: {max_instances_per_host: 50}\n": 5, "  nova: {isolated_hosts: []}\n": 6,
		"  pci_alias: []\n": 8, "  default_availability_zone: nova\n": 10,
	} {
		file := gatewayFile(t, lines)
		out, stderr, status := typed(t.Context(), "", "gateway", "--config", file, "--nova-conf", conf, "--print-config")
		for _, want := range []string{file + ":3: gateway.", fmt.Sprintf(" contradicts %s:%d: ", conf, line)} {
			if status != exitUsage || !strings.Contains(stderr, want) {
				t.Errorf("%q: status %d, stderr does not say %q:\n%s%s", lines, status, want, stderr, out)
			}
		}
	}
	// All contradictions are reported at once. A flag and a variable are named as such.
	var stderr strings.Builder
	status := run(t.Context(), []string{"gateway", "--config", gatewayFile(t, "  filters: []\n"), "--nova-conf", conf, "--nova-host-subset-size", "7"},
		terminal{out: &stderr, err: &stderr, env: []string{"CELLGATE_GATEWAY_DEFAULT_AVAILABILITY_ZONE=nova"}})
	for _, want := range []string{
		"3 problems", "gateway.yaml:3: gateway.filters: [] contradicts ", conf + ":2: [filter_scheduler] enabled_filters, which makes it JsonFilter",
		"--nova-host-subset-size: gateway.nova.host_subset_size: 7 contradicts " + conf + ":4: [filter_scheduler] host_subset_size, which makes it 5; delete one of the two",
		"CELLGATE_GATEWAY_DEFAULT_AVAILABILITY_ZONE: gateway.default_availability_zone: nova contradicts " + conf + ":10: ",
	} {
		if status != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("status %d, stderr does not say %q:\n%s", status, want, stderr.String())
		}
	}
}

func TestNovaConf_SaysTheSameAsTheGateway_Starts(t *testing.T) {
	conf := novaConfFile(t, operatorsNovaConf)
	file := gatewayFile(t, `  filters: [JsonFilter, ComputeFilter, ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter]
  pci_alias: [{name: gpu, vendor_id: 10de, product_id: 1db6, device_type: type-PCI}]
  default_availability_zone: north
  nova:
    host_subset_size: 5
    isolated_hosts: [h2, h1]
    max_io_ops_per_host: 3
    max_instances_per_host:
`)
	rows, _ := printed(t, "gateway", "--config", file, "--nova-conf", conf)
	for key, want := range map[string][2]string{
		// The filters that nova.conf enables are completed with those that always run.
		"gateway.filters":               {file + ":3", "HostFilter,AvailabilityZoneFilter,AggregateFilter,TraitFilter,ResourceFilter,ComputeFilter,JsonFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"},
		"gateway.nova.host_subset_size": {file + ":7", "5"},
		// The file's value replaces Nova's default. A key without a value counts as unset.
		"gateway.nova.max_io_ops_per_host":    {file + ":9", "3"},
		"gateway.nova.max_instances_per_host": {conf + ":5", "20"},
	} {
		if rows[key] != want {
			t.Errorf("%s: %q, want %q", key, rows[key], want)
		}
	}
	// An empty list of weighers means the default ones.
	printed(t, "gateway", "--config", gatewayFile(t, "  weighers: []\n"), "--nova-conf", novaConfFile(t, "[filter_scheduler]\nram_weight_multiplier = 1.0\n"))
}

// URLs with passwords are not shown.
func TestNovaConf_ContradictsAURLWithAPassword_IsNotShown(t *testing.T) {
	conf := novaConfFile(t, "[DEFAULT]\ntransport_url = rabbit://nova:secret@mq1/\n[oslo_messaging_notifications]\ntransport_url = rabbit://nova:secret@mq2/\n")
	file := gatewayFile(t, "  bus: {enabled: true, transport_url: 'rabbit://nova:secret@mq3/', notification_url: 'rabbit://nova:secret@mq4/'}\n")
	out, stderr, status := typed(t.Context(), "", "gateway", "--config", file, "--nova-conf", conf, "--print-config")
	for _, want := range []string{"gateway.bus.transport_url: contradicts " + conf + ":2: ", "gateway.bus.notification_url: contradicts " + conf + ":4: "} {
		if status != exitUsage || !strings.Contains(stderr, want) || strings.Contains(out+stderr, "secret") {
			t.Errorf("status %d, want %q and no password:\n%s%s", status, want, stderr, out)
		}
	}
}

// A contradiction that ends the gateway's start ends the doctor, too.
func TestDoctorUpgrade_NovaConfContradictsTheConfiguration_IsRefused(t *testing.T) {
	conf := novaConfFile(t, operatorsNovaConf)
	file := gatewayFile(t, "  nova: {host_subset_size: 1}\n  nova_conf: ["+conf+"]\n")
	if _, text, status := typed(t.Context(), "", "doctor", "upgrade", "--config", file); status != exitUsage || !strings.Contains(text, file+":3: gateway.nova.host_subset_size: 1 contradicts "+conf+":4: ") {
		t.Errorf("status %d, %s", status, text)
	}
	rows := diagnoses(t, exitUsage, "upgrade", "--config", file)
	must(t, rows, "configuration", unhealthy, "gateway.nova.host_subset_size: 1 contradicts ")
}
