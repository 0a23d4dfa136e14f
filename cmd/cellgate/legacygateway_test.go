package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// novaRows puts hosts of 8 VCPU and their services into a cell's database.
func novaRows(t *testing.T, d *legacytest.Database, hosts, version int) {
	t.Helper()
	now := d.Now(t)
	for i := 1; i <= hosts; i++ {
		name := fmt.Sprintf("host%d", i)
		d.Insert(t, "compute_nodes", legacytest.Row{
			"id": i, "uuid": fmt.Sprintf("a0000000-0000-4000-8000-%012d", i), "host": name, "hypervisor_hostname": name, "deleted": 0,
			"created_at": now.Add(-time.Hour), "updated_at": now.Add(-time.Hour),
			"vcpus": 8, "vcpus_used": 0, "memory_mb": 65536, "memory_mb_used": 0, "free_ram_mb": 65536,
			"local_gb": 1000, "local_gb_used": 0, "free_disk_gb": 1000, "disk_available_least": 1000,
			"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "host_ip": "10.0.0.1",
			"cpu_info": `{"arch": "x86_64", "topology": {"cores": 8}}`, "supported_instances": `[["x86_64", "kvm", "hvm"]]`,
			"metrics": "[]", "stats": `{}`, "cpu_allocation_ratio": 1.0, "ram_allocation_ratio": 1.0, "disk_allocation_ratio": 1.0, "mapped": 1,
		})
		d.Insert(t, "services", legacytest.Row{
			"id": i, "uuid": fmt.Sprintf("b0000000-0000-4000-8000-%012d", i), "host": name, "binary": "nova-compute", "topic": "compute",
			"report_count": 1, "disabled": false, "forced_down": false, "deleted": 0, "version": version,
			"created_at": now.Add(-time.Hour), "last_seen_up": now, "updated_at": now,
		})
	}
}

// numaRow is the numa_topology of a row with two cells of four CPUs and 32 GiB each.
const numaRow = `{"nova_object.name": "NUMATopology", "nova_object.namespace": "nova", "nova_object.version": "1.2", "nova_object.data": {"cells": [
 {"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "memory": 32768, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": [], "network_metadata": null, "socket": 0}},
 {"nova_object.name": "NUMACell", "nova_object.namespace": "nova", "nova_object.version": "1.5", "nova_object.data": {"id": 1, "cpuset": [4, 5, 6, 7], "pcpuset": [4, 5, 6, 7], "memory": 32768, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": [], "network_metadata": null, "socket": 0}}]}}`

// pciRow is the pci_stats of a row with two devices of one kind.
const pciRow = `{"nova_object.name": "PciDevicePoolList", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"objects": [
 {"nova_object.name": "PciDevicePool", "nova_object.namespace": "nova", "nova_object.version": "1.1", "nova_object.data": {"product_id": "1db6", "vendor_id": "10de", "numa_node": 0, "tags": {"dev_type": "type-PCI"}, "count": 2}}]}}`

// A cell without a scheduler, over a real database with Nova's schema. Its rows answer, and claims
// are made and found again. A server group's policy holds for members that the request does not
// name. A request for a NUMA cell or for PCI devices goes where the row has them, as often as it
// has some. Hosts are filled exactly to the last VCPU.
func TestLegacyOnlyOverRealDatabases(t *testing.T) { legacytest.Servers(t, legacyOnly) }

func legacyOnly(t *testing.T, k legacytest.Kind) {
	d := legacytest.NewCell(t, k.Shared(t))
	novaRows(t, d, 4, 60)
	// The largest host has a row that no cell accepts, so nothing is tried there.
	if _, err := d.DB.ExecContext(t.Context(), "UPDATE compute_nodes SET vcpus = 512, hypervisor_type = "+d.Mark(1)+" WHERE id = 4", strings.Repeat("QEMU", 64)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.DB.ExecContext(t.Context(), "UPDATE compute_nodes SET numa_topology = "+d.Mark(1)+" WHERE id = 2", numaRow); err != nil {
		t.Fatal(err)
	}
	if _, err := d.DB.ExecContext(t.Context(), "UPDATE compute_nodes SET pci_stats = "+d.Mark(1)+" WHERE id = 3", pciRow); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := `gateway:
  http: 127.0.0.1:0
  grpc: 127.0.0.1:0
  drain_delay: 0s
  propose_budget: 20s
  claim_budget: 20s
  filters: [ComputeFilter, ResourceFilter, ServerGroupAntiAffinityFilter, NUMATopologyFilter, PciPassthroughFilter]
  pci_alias: [{name: gpu, vendor_id: 10de, product_id: 1db6, device_type: type-PCI}]
  cells: [{name: cell1, uuid: c0000000-0000-4000-8000-000000000001}]
  legacy: [{cell: cell1, database: '` + d.URL + `', legacy_only: true, required_version: 68, refresh: 200ms, service_down_time: 1h}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, true, "gateway", "--drain-delay", "0s", "--config", file)
	addr := p.await(`msg="gateway starts" grpc=(\S+)`)[1]
	p.await(`msg="the gate of a cell".* to=LEGACY`)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	scheduler, claims := cellgatev1.NewSchedulerClient(conn), cellgatev1.NewClaimsClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	group := &cellgatev1.InstanceGroup{Uuid: "20000000-0000-4000-8000-000000000001", Policy: "anti-affinity"}
	sent := 0
	// place asks for an instance of 2 VCPUs, repeated with the same request_id, and returns its
	// host, or the error of a selection that found none.
	place := func(g *cellgatev1.InstanceGroup, specs map[string]string) (string, error) {
		t.Helper()
		sent++
		req := &cellgatev1.SelectDestinationsRequest{
			RequestId: fmt.Sprint("r", sent), InstanceUuids: []string{fmt.Sprintf("10000000-0000-4000-8000-%012d", sent)},
			Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
				Flavor:    &cellgatev1.Flavor{Name: "f", Vcpus: 2, MemoryMb: 1024, RootGb: 1, ExtraSpecs: specs},
				ProjectId: "p", UserId: "u", InstanceGroup: g,
			}},
		}
		var resp *cellgatev1.SelectDestinationsResponse
		for {
			var err error
			if resp, err = scheduler.SelectDestinations(ctx, req); err == nil {
				break
			}
			if ctx.Err() == nil && strings.Contains(err.Error(), "no gateway has imported all of them yet") {
				continue // the first import is on its way
			}
			return "", err
		}
		if r := resp.GetCells()[0]; r.GetSource() != cellgatev1.CellSource_LEGACY || !strings.Contains(r.GetReason(), "legacy_only") {
			t.Errorf("the report is %v", r)
		}
		got := resp.GetDestinations()[0].GetSelected()
		again, err := scheduler.SelectDestinations(ctx, req)
		if err != nil || again.GetDestinations()[0].GetSelected().GetClaimId() != got.GetClaimId() {
			t.Errorf("request %d again: %v, %v", sent, again, err)
		}
		if _, err := claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: req.GetInstanceUuids()[0]}); err != nil {
			t.Errorf("claim %d: %v", sent, err)
		}
		return got.GetServiceHost(), nil
	}
	refused := func(what string, g *cellgatev1.InstanceGroup, specs map[string]string) {
		t.Helper()
		if host, err := place(g, specs); err == nil || !strings.Contains(err.Error(), "No valid host") {
			t.Errorf("%s: on %q, %v", what, host, err)
		}
	}
	must := func(what string, g *cellgatev1.InstanceGroup, specs map[string]string) string {
		t.Helper()
		host, err := place(g, specs)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return host
	}
	on := map[string]int{}
	for range 3 {
		on[must("a member of the group", group, nil)]++
	}
	if len(on) != 3 {
		t.Errorf("members of a group of anti-affinity are on %v", on)
	}
	refused("a fourth member", group, nil)
	numa := map[string]string{"hw:numa_nodes": "1"}
	for range 2 {
		if host := must("a NUMA cell", nil, numa); host != "host2" {
			t.Errorf("an instance of a NUMA cell is on %s", host)
		}
		on["host2"]++
	}
	gpu := map[string]string{"pci_passthrough:alias": "gpu:1"}
	refused("more devices than there are", nil, map[string]string{"pci_passthrough:alias": "gpu:3"})
	for range 2 {
		if host := must("a PCI device", nil, gpu); host != "host3" {
			t.Errorf("an instance with a PCI device is on %s", host)
		}
		on["host3"]++
	}
	refused("a third PCI device", nil, gpu)
	for range 5 {
		on[must("what is left", nil, nil)]++
	}
	if on["host1"] != 4 || on["host2"] != 4 || on["host3"] != 4 {
		t.Errorf("placed %v, want four on each host", on)
	}
	refused("one too many", nil, nil)
	p.lines.mu.Lock()
	defer p.lines.mu.Unlock()
	for _, line := range p.lines.waiting {
		if strings.Contains(line, "could not be imported") {
			t.Errorf("a host that cannot be imported was chosen: %s", line)
		}
	}
}
