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

// A cell without a scheduler, over a real MariaDB with Nova's schema: its rows answer,
// claims are held and found again, and hosts are filled to the last VCPU and no further.
func TestLegacyOnlyOverMariaDB(t *testing.T) {
	d := legacytest.NewCell(t, legacytest.MariaDB.Shared(t))
	novaRows(t, d, 3, 60)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	text := `gateway:
  http: 127.0.0.1:0
  grpc: 127.0.0.1:0
  drain_delay: 0s
  propose_budget: 20s
  claim_budget: 20s
  breaker: {window: 60s}
  cells: [{name: cell1, uuid: c0000000-0000-4000-8000-000000000001}]
  legacy: [{cell: cell1, database: '` + d.URL + `', legacy_only: true, required_version: 68, refresh: 200ms, service_down_time: 1h}]
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, true, "gateway", "--config", file)
	addr := p.await(`msg="gateway starts" grpc=(\S+)`)[1]
	p.await(`msg="the gate of a cell".* to=LEGACY`)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	scheduler, claims := cellgatev1.NewSchedulerClient(conn), cellgatev1.NewClaimsClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	request := func(n int) *cellgatev1.SelectDestinationsRequest {
		return &cellgatev1.SelectDestinationsRequest{
			RequestId: fmt.Sprint("r", n), InstanceUuids: []string{fmt.Sprintf("10000000-0000-4000-8000-%012d", n)},
			Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
				Flavor: &cellgatev1.Flavor{Name: "f", Vcpus: 4, MemoryMb: 1024, RootGb: 1}, ProjectId: "p", UserId: "u",
			}},
		}
	}
	on := map[string]int{}
	for n := 1; n <= 6; {
		resp, err := scheduler.SelectDestinations(ctx, request(n))
		if err != nil {
			if ctx.Err() == nil && strings.Contains(err.Error(), "has not been read yet") {
				continue // the first rows are on their way
			}
			t.Fatalf("request %d: %v", n, err)
		}
		if r := resp.GetCells()[0]; r.GetSource() != cellgatev1.CellSource_LEGACY || !strings.Contains(r.GetReason(), "legacy_only") {
			t.Errorf("the report is %v", r)
		}
		on[resp.GetDestinations()[0].GetSelected().GetServiceHost()]++
		again, err := scheduler.SelectDestinations(ctx, request(n))
		if err != nil || again.GetDestinations()[0].GetSelected().GetClaimId() != resp.GetDestinations()[0].GetSelected().GetClaimId() {
			t.Errorf("request %d again: %v, %v", n, again, err)
		}
		if _, err := claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: request(n).GetInstanceUuids()[0]}); err != nil {
			t.Errorf("claim %d: %v", n, err)
		}
		n++
	}
	if on["host1"] != 2 || on["host2"] != 2 || on["host3"] != 2 {
		t.Errorf("placed %v, want two on each host", on)
	}
	if resp, err := scheduler.SelectDestinations(ctx, request(7)); err == nil || !strings.Contains(err.Error(), "No valid host") {
		t.Errorf("a seventh: %v, %v", resp, err)
	}
}
