package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// novaCell is a cell's Nova: its databases, and a gateway's configuration for it.
type novaCell struct {
	*testing.T
	cell, api *legacytest.Database
	now       time.Time
	// config is a file, replica the address of the cell's scheduler.
	config, replica string
}

const novaCellUUID = "c0000000-0000-4000-8000-000000000001"

func novaHostID(i int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", i) }

// newNovaCell makes a cell of n hosts, all up, mapped and of version 61.
func newNovaCell(t *testing.T, k legacytest.Kind, n int, replica string) *novaCell {
	t.Helper()
	s := k.Shared(t)
	c := &novaCell{T: t, replica: replica, cell: legacytest.NewCell(t, s), api: legacytest.NewAPI(t, s)}
	c.now = c.cell.Now(t).Truncate(time.Second)
	c.api.Insert(t, "cell_mappings", legacytest.Row{"id": 1, "uuid": novaCellUUID, "name": "cell1"}, legacytest.Row{"id": 2, "uuid": "c0000000-0000-4000-8000-000000000002", "name": "cell2"})
	for i := 1; i <= n; i++ {
		c.cell.Insert(t, "compute_nodes", legacytest.Row{
			"id": i, "uuid": novaHostID(i), "host": fmt.Sprintf("host%d", i), "hypervisor_hostname": fmt.Sprintf("host%d.example", i), "deleted": 0,
			"created_at": c.now.Add(-240 * time.Hour), "updated_at": c.now.Add(-time.Hour),
			"vcpus": 32, "vcpus_used": 4, "memory_mb": 65536, "memory_mb_used": 8192, "free_ram_mb": 57344,
			"local_gb": 1000, "local_gb_used": 100, "free_disk_gb": 900, "disk_available_least": 800,
			"hypervisor_type": "QEMU", "hypervisor_version": 6002000, "host_ip": "10.0.0.1",
			"cpu_info": `{"arch": "x86_64"}`, "supported_instances": `[["x86_64", "kvm", "hvm"]]`, "metrics": "[]", "stats": `{}`,
			"cpu_allocation_ratio": 8.0, "ram_allocation_ratio": 1.2, "disk_allocation_ratio": 1.0, "mapped": 1,
		})
		c.cell.Insert(t, "services", legacytest.Row{
			"id": i, "uuid": fmt.Sprintf("b0000000-0000-4000-8000-%012d", i), "host": fmt.Sprintf("host%d", i), "binary": "nova-compute", "topic": "compute",
			"report_count": 1, "disabled": false, "forced_down": false, "deleted": 0, "version": 61, "created_at": c.now.Add(-240 * time.Hour), "last_seen_up": c.now,
		})
		c.api.Insert(t, "host_mappings", legacytest.Row{"id": i, "cell_id": 1, "host": fmt.Sprintf("host%d", i)})
	}
	c.config = filepath.Join(t.TempDir(), "gateway.yaml")
	text := fmt.Sprintf("gateway:\n  cells: [{name: cell1, uuid: %s, replicas: [%q]}]\n  legacy: [{cell: cell1, database: %q, api: %q, required_version: 60}]\n", novaCellUUID, replica, c.cell.URL, c.api.URL)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *novaCell) instance(i int, host string) legacytest.Row {
	return legacytest.Row{
		"id": i, "uuid": fmt.Sprintf("d0000000-0000-4000-8000-%012d", i), "host": host, "node": host + ".example", "deleted": 0, "vcpus": 2, "memory_mb": 2048,
		"root_gb": 20, "ephemeral_gb": 0, "instance_type_id": 1, "project_id": "p", "user_id": "u", "vm_state": "active",
		"created_at": c.now.Add(-time.Hour), "updated_at": c.now.Add(-time.Hour),
	}
}

// listingCell is a cell's scheduler that lists hosts and claims, and takes imports.
type listingCell struct {
	cellv1.UnimplementedCellSchedulerServer
	// unclaimed are instances without a claim. unasked: the cell does not implement that query.
	unclaimed []string
	unasked   bool

	gate   *cellgatev1.Gate
	hosts  []*cellgatev1.Host
	claims []*cellgatev1.Claim
}

func (l *listingCell) ReportLegacy(_ context.Context, in *cellv1.ReportLegacyRequest) (*cellv1.ReportLegacyResponse, error) {
	if !in.GetLook() {
		return nil, fault.New(fault.Internal, "doctor reports")
	}
	return &cellv1.ReportLegacyResponse{Gate: l.gate}, nil
}

func (l *listingCell) ListHosts(context.Context, *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	return &cellv1.ListHostsResponse{Hosts: l.hosts}, nil
}

func (l *listingCell) ListClaims(context.Context, *cellv1.ListClaimsRequest) (*cellv1.ListClaimsResponse, error) {
	return &cellv1.ListClaimsResponse{Claims: l.claims}, nil
}

func (l *listingCell) FindUnclaimed(ctx context.Context, in *cellv1.FindUnclaimedRequest) (*cellv1.FindUnclaimedResponse, error) {
	if l.unasked {
		return l.UnimplementedCellSchedulerServer.FindUnclaimed(ctx, in)
	}
	out := &cellv1.FindUnclaimedResponse{At: timestamppb.Now()}
	for id := range slices.Chunk(in.GetInstances(), 16) {
		if slices.Contains(l.unclaimed, schedule.ID(id).String()) {
			out.Unclaimed = append(out.Unclaimed, id...)
		}
	}
	return out, nil
}

func (l *listingCell) serve(t *testing.T) string { return serveCell(t, l) }

// serveCell serves a scheduler and returns its address.
func serveCell(t *testing.T, l cellv1.CellSchedulerServer) string {
	t.Helper()
	at := listen(t)
	serveGRPC(t, at, func(s *grpc.Server) { cellv1.RegisterCellSchedulerServer(s, l) })
	return at.Addr().String()
}

func (l *listingCell) registered(hosts ...int) *listingCell {
	for _, i := range hosts {
		id := novaHostID(i)
		l.hosts = append(l.hosts, &cellgatev1.Host{
			HostUuid: id, ServiceHost: fmt.Sprintf("host%d", i), Nodename: fmt.Sprintf("host%d.example", i), AgentVersion: 1, Enabled: true,
			Inventories: []*cellgatev1.HostInventory{
				{ProviderUuid: id, ResourceClass: "VCPU", Total: 32, AllocationRatio: 8},
				{ProviderUuid: id, ResourceClass: "MEMORY_MB", Total: 65536, AllocationRatio: 1.2},
				{ProviderUuid: id, ResourceClass: "DISK_GB", Total: 1000, AllocationRatio: 1},
			},
		})
	}
	return l
}
