package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// unclaimed are instances without a claim; unasked: it does not know the question.
	unclaimed []string
	unasked   bool

	// unseen are claims of which no report has the instance.
	unseen []*cellv1.AwaitedClaim

	gate   *cellgatev1.Gate
	hosts  []*cellgatev1.Host
	claims []*cellgatev1.Claim
	// hypervisors are those of hosts whose agents do not report what their rows have, by
	// uuid. before: it does not say any.
	hypervisors map[string]*cellv1.Hypervisor
	before      bool
}

func (l *listingCell) ReportLegacy(_ context.Context, in *cellv1.ReportLegacyRequest) (*cellv1.ReportLegacyResponse, error) {
	if !in.GetLook() {
		return nil, fault.New(fault.Internal, "doctor reports")
	}
	return &cellv1.ReportLegacyResponse{Gate: l.gate, WithoutInstance: l.unseen}, nil
}

func (l *listingCell) ListHosts(_ context.Context, in *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	out := &cellv1.ListHostsResponse{Hosts: l.hosts}
	if in.GetWantHypervisors() && !l.before {
		for i, h := range l.hosts {
			of := l.hypervisors[h.GetHostUuid()]
			if of == nil {
				of = &cellv1.Hypervisor{Type: "QEMU", Version: 6002000, SupportedInstances: `[["x86_64", "kvm", "hvm"]]`}
			}
			out.Hypervisors, out.HypervisorOf = append(out.Hypervisors, of), append(out.HypervisorOf, int32(i))
		}
	}
	return out, nil
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

// serveCell gives the address of a scheduler that a test serves.
func serveCell(t *testing.T, l cellv1.CellSchedulerServer) string {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	cellv1.RegisterCellSchedulerServer(s, l)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(at) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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

// Everything that stands in the way is named, with what to do.
func TestDoctorUpgrade(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 9, (&listingCell{}).registered(1, 3, 4, 5, 6, 7).serve(t))
		conf := filepath.Join(t.TempDir(), "nova.conf")
		if err := os.WriteFile(conf, []byte("[filter_scheduler]\nenabled_filters = ComputeFilter,CoreFilter,ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		command := []string{"upgrade", "--config", c.config, "--nova-conf", conf}
		for _, change := range []string{
			"UPDATE services SET version = 55 WHERE id = 2",
			"UPDATE services SET version = NULL, forced_down = true WHERE id = 3",
			"UPDATE services SET host = 'HOST4' WHERE id = 4",
			"UPDATE services SET disabled = true WHERE id = 9",
			"UPDATE compute_nodes SET uuid = NULL WHERE id = 5",
			"UPDATE compute_nodes SET cpu_allocation_ratio = NULL, ram_allocation_ratio = 0.0 WHERE id = 1",
		} {
			c.cell.Exec(t, change)
		}
		c.api.Exec(t, "DELETE FROM host_mappings WHERE id = 6")
		c.api.Insert(t, "aggregates", legacytest.Row{"id": 3, "uuid": nil, "name": "rack"})
		c.api.Insert(t, "aggregate_hosts", legacytest.Row{"host": "host1", "aggregate_id": 3})
		c.cell.Insert(t, "services", legacytest.Row{"id": 50, "host": "gone", "binary": "nova-compute", "report_count": 1, "deleted": 50, "version": 9})
		lost := c.instance(2, "host1")
		lost["node"] = "elsewhere"
		null := c.instance(3, "host1")
		null["vcpus"] = nil
		c.cell.Insert(t, "instances", c.instance(1, "host1"), lost, null)

		rows := diagnoses(t, exitRefused, command...)
		must(t, rows, "filters of nova.conf", warned, "CoreFilter is redundant")
		must(t, rows, "cell1 host host2", unhealthy, "nova-compute is of version 55, 60 is required; agent none; last seen ")
		must(t, rows, "cell1 host host3", warned, "nova-compute is of version 0, 60 is required; agent version 1")
		must(t, rows, "cell1 host host3", warned, "it does not hold the gate: it is forced down")
		must(t, rows, "cell1 out of service", noted, "2 hosts by Nova's services: 1 disabled, 1 forced down, of 0 nova-compute is down")
		must(t, rows, "cell1 host host8", unhealthy, "no agent has registered compute node "+novaHostID(8))
		must(t, rows, "cell1 row 4 of compute_nodes", warned, `the service is of host "HOST4": names are compared with case`)
		must(t, rows, "cell1 host HOST4", unhealthy, "(row 4: no_service)")
		must(t, rows, "cell1 row 5 of compute_nodes", unhealthy, "bad_uuid")
		must(t, rows, "cell1 row 6 of compute_nodes", unhealthy, "unmapped")
		must(t, rows, "cell1 cpu_allocation_ratio", noted, "is NULL or 0.0 in 1 row, and counts as 4 there")
		must(t, rows, "cell1 disk_allocation_ratio", warned, "DiskFilter is not enabled")
		must(t, rows, "cell1 aggregate 3", noted, `"rack": its uuid is NULL`)
		must(t, rows, "cell1 services", noted, "1 deleted row of old services")
		must(t, rows, "cell1 instance d0000000-0000-4000-8000-000000000002 on host1", unhealthy, `its node "elsewhere"`)
		must(t, rows, "cell1 instance d0000000-0000-4000-8000-000000000003 on host1", warned, "is NULL")
		if _, there := rows["cell1 host host9"]; there {
			t.Error("a disabled host needs no agent")
		}
		for name, r := range rows {
			if (r.Status == unhealthy || r.Status == warned) && r.Do == "" {
				t.Errorf("%s: nothing says what to do: %+v", name, r)
			}
		}
		if out, _, status := typed(t.Context(), "", append([]string{"doctor"}, command...)...); status != exitRefused || !strings.Contains(out, "WHAT TO DO") || !strings.Contains(out, "nova-manage cell_v2 discover_hosts") {
			t.Errorf("%d: %s", status, out)
		}
	})
}

// A nova-compute that is up holds the gate while no row of compute_nodes is its host: each is
// named, with what to do. One that is disabled holds nothing.
func TestDoctorUpgradeNamesServicesWithoutAComputeNode(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		c := newNovaCell(t, k, 6, (&listingCell{}).registered(1, 2, 3, 4, 5, 6).serve(t))
		for _, change := range []string{
			"UPDATE compute_nodes SET deleted = id WHERE id IN (2, 3, 4)",
			"UPDATE services SET disabled = true WHERE id = 3",
			"UPDATE services SET forced_down = true WHERE id = 4",
			"UPDATE compute_nodes SET free_disk_gb = NULL WHERE id = 5",
			"UPDATE compute_nodes SET uuid = NULL WHERE id = 6",
		} {
			c.cell.Exec(t, change)
		}
		nameless := func(id, version int, host any) legacytest.Row {
			return legacytest.Row{
				"id": id, "host": host, "binary": "nova-compute", "topic": "compute", "report_count": 1, "disabled": false, "forced_down": false, "deleted": 0,
				"version": version, "created_at": c.now, "last_seen_up": c.now,
			}
		}
		c.cell.Insert(t, "services", nameless(70, 61, nil), nameless(71, 55, ""))
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 host host2", unhealthy, "is enabled and up, and has no row in compute_nodes")
		if do := rows["cell1 host host2"].Do; !strings.Contains(do, "--disable host2 nova-compute") {
			t.Errorf("what to do is %q", do)
		}
		must(t, rows, "cell1 host (no host: row 70 of services)", unhealthy, "has no row in compute_nodes")
		must(t, rows, "cell1 host (no host: row 71 of services)", unhealthy, "nova-compute is of version 55")
		for _, id := range []string{"70", "71"} {
			if do := rows["cell1 host (no host: row "+id+" of services)"].Do; do != "openstack compute service delete "+id {
				t.Errorf("what to do of row %s is %q", id, do)
			}
		}
		must(t, rows, "cell1 host host5", unhealthy, "none of its rows in compute_nodes is a host (row 5: not_reported)")
		must(t, rows, "cell1 row 6 of compute_nodes", unhealthy, "bad_uuid")
		for _, host := range []string{"host1", "host3", "host4", "host6"} {
			if d, is := rows["cell1 host "+host]; is {
				t.Errorf("%s has a row, or holds nothing, or its row is told of: %+v", host, d)
			}
		}
	})
}

// A resize that waits for its word holds SHADOW by the row of the host that it came from: it
// is named, and what ends it.
func TestDoctorUpgradeNamesMoves(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_SHADOW, WaitsFor: []string{"9 of the last 10 comparisons differed, at most 0 of them may"}}}).registered(1, 2)
		c := newNovaCell(t, k, 2, cell.serve(t))
		var all []legacytest.Row
		for i, state := range [][2]any{{"active", nil}, {"resized", nil}, {"active", "resize_migrating"}, {"active", "rebooting"}, {"resized", "resize_reverting"}, {"resized", nil}} {
			row := c.instance(i+1, "host2")
			row["vm_state"], row["task_state"] = state[0], state[1]
			all = append(all, row)
		}
		all[5]["deleted"] = 6
		c.cell.Insert(t, "instances", all...)
		of := func(i int) string { return fmt.Sprintf("cell1 move of %s on host2", all[i-1]["uuid"]) }
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 gate", unhealthy, "comparisons differed")
		must(t, rows, of(2), unhealthy, "neither confirmed nor reverted, and was changed last 1h")
		must(t, rows, of(3), warned, "its task is resize_migrating")
		must(t, rows, of(5), warned, "its task is resize_reverting")
		if do := rows[of(2)].Do; !strings.Contains(do, "openstack server resize confirm "+fmt.Sprint(all[1]["uuid"])) || !strings.Contains(rows["cell1 gate"].Do, "confirm or revert") {
			t.Errorf("what to do is %q, of the gate %q", do, rows["cell1 gate"].Do)
		}
		for _, i := range []int{1, 4, 6} {
			if d, is := rows[of(i)]; is {
				t.Errorf("instance %d is on no move: %+v", i, d)
			}
		}
	})
}

// Of hosts whose services are old, those that are still their agents' are told apart, and
// those that were taken back, by the dry run too.
func TestDoctorUpgradeSaysWhoSpeaksForAHost(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2, 3)
	cell.hosts[0].Up, cell.hosts[2].Imported = true, true
	cell.registered(6, 7, 8)
	cell.hosts[3].Imported, cell.hosts[4].Imported, cell.hosts[4].Instances = true, true, 2
	cell.registered(9)
	cell.hosts[6].ServiceHost, cell.hosts[6].Nodename, cell.hosts[6].Imported, cell.hosts[6].Instances = "host3", "host3.example", true, 1
	cell.hosts[0].InstancesUnknown, cell.hosts[1].InstancesUnknown = true, true
	c := newNovaCell(t, legacytest.MariaDB, 4, cell.serve(t))
	c.cell.Exec(t, "UPDATE services SET version = 55 WHERE id < 3")
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 host host1", unhealthy, "the host is still its agent's, which is alive")
	must(t, rows, "cell1 host host2", unhealthy, "the host is still its agent's, which is silent")
	must(t, rows, "cell1 host host3", unhealthy, "was taken back from its agent, version 1")
	must(t, rows, "cell1 host host4", unhealthy, "no request finds it once the cell is NATIVE")
	must(t, rows, "cell1 gone host7", warned, "has no row in compute_nodes any more, and 2 claims")
	must(t, rows, "cell1 gone host3", warned, "compute node "+novaHostID(9)+" was registered again as "+novaHostID(3)+", and has 1 claim still")
	if r := rows["cell1 gone host3"]; strings.Contains(r.Do, "evacuate") || !strings.Contains(r.Do, "need nothing") {
		t.Errorf("what to do of another uuid is %q", r.Do)
	}
	must(t, rows, "cell1 instances of agents", warned, "2 hosts have agents that do not know their instances")
	must(t, rows, "cell1 agent of host8", warned, "it is not up, or out of service")
	for name := range rows {
		if strings.Contains(name, "host6") {
			t.Errorf("a host that is gone, and holds nothing, is told of: %s", name)
		}
	}
	for _, host := range []string{"host1", "host2"} {
		if r := rows["cell1 host "+host]; !strings.Contains(r.Do, "stop its agent") {
			t.Errorf("%s: what to do is %q", host, r.Do)
		}
	}
	text, _, status := typed(t.Context(), "", "import", "--config", c.config, "--cell", "cell1", "--dry-run")
	if status != exitDone {
		t.Fatalf("%d: %s", status, text)
	}
	for _, want := range []string{"hosts: old, left to agents", "agent version 1 speaks for it: stop that", "agent version 1 is silent: a gateway takes the host back soon"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing of %q in %s", want, text)
		}
	}
	if got := strings.Count(text, "host_old_left_to_agent"); got != 2 {
		t.Errorf("%d hosts are old and their agents', want 2: %s", got, text)
	}
	if !strings.Contains(text, "host_changed") { // host3
		t.Errorf("what was taken back is not compared: %s", text)
	}
}

// The rule of 9999 is for resources that no filter limits: those in force are the
// release's defaults where no file says otherwise, and by their old name too.
func TestDoctorUpgradeJudgesByTheFiltersInForce(t *testing.T) {
	const old = "[DEFAULT]\nscheduler_default_filters = RetryFilter,AvailabilityZoneFilter,RamFilter,ComputeFilter\n"
	c := newNovaCell(t, legacytest.MariaDB, 1, (&listingCell{}).registered(1).serve(t))
	for _, test := range []struct {
		name, release, conf string
		limited             string // resources that a filter limits
		assumed             string
	}{
		{name: "old name, ocata", release: "ocata", conf: old, limited: "ram"},
		{name: "old name, stein", release: "stein", conf: old, limited: "ram"},
		{name: "old name, no release", conf: old, limited: "ram", assumed: "gateway.nova.nova_release is not set: [DEFAULT] scheduler_default_filters"},
		{name: "old name, zed", release: "zed", conf: old, limited: "ram", assumed: "which it does not in Nova 26 (zed)"},
		{name: "new name before the old", conf: old + "[filter_scheduler]\nenabled_filters = ComputeFilter,CoreFilter\n", limited: "cpu"},
		{name: "defaults of ocata", release: "ocata", limited: "ram disk"},
		{name: "defaults of pike", release: "pike"},
		{name: "defaults, no release", assumed: "the defaults of Nova 34 (2026.2) are assumed"},
		{name: "filters of aggregates", release: "zed", conf: "[filter_scheduler]\nenabled_filters = ComputeFilter,AggregateDiskFilter\n", limited: "disk"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			conf, config := filepath.Join(dir, "nova.conf"), filepath.Join(dir, "gateway.yaml")
			text := strings.Replace(readFile(t, c.config), "gateway:\n", "gateway:\n  nova: {nova_release: '"+test.release+"'}\n", 1)
			for file, is := range map[string]string{conf: test.conf, config: text} {
				if err := os.WriteFile(file, []byte(is), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			rows := diagnoses(t, exitDone, "upgrade", "--config", config, "--nova-conf", conf)
			for resource, filter := range map[string]string{"cpu": "CoreFilter", "ram": "RamFilter", "disk": "DiskFilter"} {
				advice, there := rows["cell1 "+resource+"_allocation_ratio"]
				if there == strings.Contains(test.limited, resource) {
					t.Errorf("limited are %q, of %s it says %+v", test.limited, resource, advice)
				}
				if there && (!strings.Contains(advice.What, filter+" is not enabled") || !strings.Contains(advice.Do, "9999.0")) {
					t.Errorf("%s: %+v", resource, advice)
				}
			}
			if test.conf == old && test.assumed == "" {
				must(t, rows, "filters of nova.conf", warned, "RamFilter is redundant")
			}
			if _, there := rows["release of nova.conf"]; there != (test.assumed != "") {
				t.Errorf("told of what is assumed: %v", there)
			} else if there {
				must(t, rows, "release of nova.conf", noted, test.assumed)
			}
		})
	}
}

// A gate that is held for differences stands in the way, one that is pinned is told of;
// and a host without an agent that does not hold the gate is no failure.
func TestDoctorUpgradeTellsOfTheGate(t *testing.T) {
	cell := (&listingCell{}).registered(1, 2)
	cell.gate = &cellgatev1.Gate{
		State: cellgatev1.Gate_SHADOW, Reason: "all are new", WaitsFor: []string{"9 of the last 100 comparisons differed, at most 0.01 of them may"},
		Differences: []*cellgatev1.ShadowDifference{{Detail: "host1: VCPU free 3 by the rows, 4 by the shard"}, {Detail: "older"}},
	}
	c := newNovaCell(t, legacytest.MariaDB, 3, cell.serve(t))
	c.cell.Exec(t, "UPDATE services SET forced_down = true WHERE id = 3")
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 gate", unhealthy, "9 of the last 100 comparisons differed, at most 0.01 of them may; the newest difference: host1: VCPU free 3 by the rows, 4 by the shard")
	must(t, rows, "cell1 host host3", warned, "it does not hold the gate: it is forced down")
	cell.gate = &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Pin: cellgatev1.Gate_LEGACY, PinReason: "rack 7", WaitsFor: []string{"an operator holds it at LEGACY"}}
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", noted, "pinned: rack 7")
	cell.gate.Pin = cellgatev1.Gate_STATE_UNSPECIFIED
	cell.unseen = []*cellv1.AwaitedClaim{{ClaimId: "01CLAIM", ConsumerUuid: "d0000000-0000-4000-8000-000000000009", HostUuid: novaHostID(2)}}
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 claim of d0000000-0000-4000-8000-000000000009", warned, "on host2: it was confirmed more than five minutes ago")
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", found, "is LEGACY")
	cell.gate = nil
	must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), "cell1 gate", noted, "there is none yet")
}

// Nothing stands in the way; and the services of a database that does not answer do.
func TestDoctorUpgradeIsContent(t *testing.T) {
	k := legacytest.MariaDB
	c := newNovaCell(t, k, 3, (&listingCell{}).registered(1, 2, 3).serve(t))
	rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 services", found, "every one that counts is of version 60 or above")
	must(t, rows, "cell1 agents", found, "have registered all of 3 enabled hosts")
	if r, there := rows["cell1 out of service"]; there {
		t.Errorf("of no host it says %+v", r)
	}
	c.cell.Exec(t, "UPDATE services SET last_seen_up = created_at WHERE id = 3")
	rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 agents", found, "have registered all of 2 enabled hosts that are up")
	must(t, rows, "cell1 out of service", noted, "1 host by Nova's services: 0 disabled, 0 forced down, of 1 nova-compute is down")
	c.cell.Exec(t, "UPDATE services SET last_seen_up = CURRENT_TIMESTAMP WHERE id = 3")
	must(t, rows, "cell1 instances", found, "0 instances")
	must(t, rows, "cell1 claims", found, "each of 0 instances has one")
	if r, there := rows["cell1 instances of agents"]; there {
		t.Errorf("all agents know their instances: %+v", r)
	}
	alone := filepath.Join(t.TempDir(), "alone.yaml")
	text := strings.Replace(strings.Replace(readFile(t, c.config), "required_version", "legacy_only: true, required_version", 1), fmt.Sprintf(", replicas: [%q]", c.replica), "", 1)
	if err := os.WriteFile(alone, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, diagnoses(t, exitDone, "upgrade", "--config", alone), "cell1 scheduler", noted, "is legacy_only")
	if _, text, status := typed(t.Context(), "", "import", "--config", alone, "--cell", "cell1"); status != exitUsage || !strings.Contains(text, "is legacy_only") {
		t.Errorf("an import into memory: %d %s", status, text)
	}
	c.cell.Exec(t, "UPDATE services SET last_seen_up = created_at")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 legacy database", unhealthy, "a copy that is behind, or nobody writes to it")
	if _, text, status := typed(t.Context(), "", "import", "--config", c.config, "--cell", "cell1"); status == exitDone || !strings.Contains(text, "nothing is imported from it") {
		t.Errorf("an import from a copy that is behind: %d %s", status, text)
	}
	c.cell.Exec(t, "DROP TABLE services")
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 legacy database", unhealthy, "(schema)")
	if _, _, status := typed(t.Context(), "", "doctor", "upgrade", "--config", c.config, "--cell", "cell7"); status != exitUsage {
		t.Errorf("a cell that is not there: %d", status)
	}
}

// Instances of rows on agents' hosts that have no claim stand in the way, host by host;
// those of hosts without an agent are on their way, and a cell that does not know the
// question is told of.
func TestDoctorUpgradeNamesInstancesWithoutAClaim(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		cell := (&listingCell{}).registered(1, 2, 3)
		cell.hosts[2].Imported = true
		c := newNovaCell(t, k, 3, cell.serve(t))
		for i := 1; i <= 7; i++ {
			c.cell.Insert(t, "instances", c.instance(i, fmt.Sprintf("host%d", 1+i%2)))
			cell.unclaimed = append(cell.unclaimed, fmt.Sprintf("d0000000-0000-4000-8000-%012d", i))
		}
		null := c.instance(8, "host2") // nobody imports it, and its agent does not list it
		null["vcpus"] = nil
		gone := c.instance(9, "host7") // of a host that there is not
		c.cell.Insert(t, "instances", null, gone, c.instance(10, "host3"), c.instance(11, "host1"))
		for _, i := range []int{8, 9, 10} {
			cell.unclaimed = append(cell.unclaimed, fmt.Sprintf("d0000000-0000-4000-8000-%012d", i))
		}
		rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
		must(t, rows, "cell1 claims on host1", unhealthy, "3 instances of Nova's rows on this agent's host have no claim in the shard")
		must(t, rows, "cell1 claims on host2", unhealthy, "5 instances of Nova's rows")
		must(t, rows, "cell1 claims on host2", unhealthy, "d0000000-0000-4000-8000-000000000001, d0000000-0000-4000-8000-000000000003, d0000000-0000-4000-8000-000000000005, …")
		must(t, rows, "cell1 claims", warned, "1 instance of hosts without an agent")
		if do := rows["cell1 claims on host1"].Do; !strings.Contains(do, "instances_dir") {
			t.Errorf("what to do is %q", do)
		}
		for name, r := range rows {
			if strings.Contains(r.What, "000000000009") && strings.HasPrefix(name, "cell1 claims") {
				t.Errorf("an instance of no host is named: %s %+v", name, r)
			}
		}
		cell.unasked = true
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 claims", warned, "the cell does not say")
	})
}

// Agents that report another capacity, or other aggregates, than Nova has of their hosts
// are a failure each, with how many there are, the first of them and what to do; a
// warning once the cell is NATIVE.
func TestDoctorUpgradeComparesAgentsWithTheirRows(t *testing.T) {
	k := legacytest.MariaDB
	l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY}}).registered(1, 2, 3)
	c := newNovaCell(t, k, 3, l.serve(t))
	const rack = "e0000000-0000-4000-8000-000000000001"
	rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", found, "every agent reports what Nova's rows say, on 3 hosts")
	must(t, rows, "cell1 aggregates of agents", found, "on 3 hosts")
	c.api.Insert(t, "aggregates", legacytest.Row{"id": 1, "uuid": rack, "name": "rack1"})
	c.api.Insert(t, "aggregate_metadata", legacytest.Row{"id": 1, "aggregate_id": 1, "key": "availability_zone", "value": "az1"}, legacytest.Row{"id": 2, "aggregate_id": 1, "key": "filter_tenant_id", "value": "tenantA"})
	c.api.Insert(t, "aggregate_hosts", legacytest.Row{"id": 1, "aggregate_id": 1, "host": "host1"}, legacytest.Row{"id": 2, "aggregate_id": 1, "host": "host2"})
	l.hosts[1].Aggregates = []*cellgatev1.HostAggregate{{Uuid: rack, Name: "rack1", Metadata: map[string]string{"availability_zone": "az1", "filter_tenant_id": "tenantA"}}}
	l.hosts[2].Inventories[0].AllocationRatio = 4
	l.hosts[1].Inventories[1].Reserved = 9000
	rows = diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", unhealthy, "2 of 3 hosts with an agent differ from their rows; host host2: row has 8192 MEMORY_MB in use, reserved ones included, its agent reserves 9000")
	must(t, rows, "cell1 host host3", noted, "row says 256 VCPU (32, ratio 8), its agent reports 128 (32, ratio 4)")
	must(t, rows, "cell1 aggregates of agents", unhealthy, "1 of 3 hosts with an agent differ from their rows; host host1: row says zone az1, its agent no zone")
	l.gate.State = cellgatev1.Gate_NATIVE
	rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
	must(t, rows, "cell1 capacity", warned, "2 of 3 hosts")
	must(t, rows, "cell1 aggregates of agents", warned, "1 of 3 hosts")
}

// Agents that report other names or another hypervisor than their rows have are a failure
// each, with both values. What no filter in force reads is a warning, and so is a cell that
// does not say what its agents report.
func TestDoctorUpgradeComparesNamesAndHypervisors(t *testing.T) {
	for _, k := range []legacytest.Kind{legacytest.MariaDB, legacytest.PostgreSQL} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY}}).registered(1, 2, 3)
			c := newNovaCell(t, k, 3, l.serve(t))
			rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
			must(t, rows, "cell1 names", found, "on 3 hosts")
			must(t, rows, "cell1 hypervisors", found, "on 3 hosts")
			l.hosts[1].ServiceHost = "host2.example.org"
			l.hypervisors = map[string]*cellv1.Hypervisor{novaHostID(1): {Type: "QEMU", SupportedInstances: `[["x86_64", "qemu", "hvm"]]`}}
			rows = diagnoses(t, exitRefused, "upgrade", "--config", c.config)
			must(t, rows, "cell1 names", unhealthy, `1 of 3 hosts with an agent differ from their rows; host host2: row is of service host "host2", its agent reports "host2.example.org"`)
			must(t, rows, "cell1 hypervisors", unhealthy, "1 of 3 hosts with an agent differ from their rows; host host1: row says hypervisor version 6.2.0, its agent none; row supports x86_64/kvm/hvm, its agent reports none such; its agent reports that it supports x86_64/qemu/hvm")
			if do := rows["cell1 names"].Do; !strings.Contains(do, "service_host and nodename") || !strings.Contains(do, "host.json") {
				t.Errorf("it says to do %q", do)
			}
			l.hosts[1].ServiceHost = "host2"
			conf := filepath.Join(t.TempDir(), "nova.conf")
			if err := os.WriteFile(conf, []byte("[filter_scheduler]\nenabled_filters = ComputeFilter\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(c.config)
			if err == nil {
				err = os.WriteFile(c.config, append(text, "  nova_conf: ["+conf+"]\n"...), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
			must(t, rows, "cell1 hypervisors", found, "on 3 hosts")
			must(t, rows, "cell1 hypervisors, unread", warned, "1 of 3 hosts with an agent differ from their rows; host host1: row says hypervisor version 6.2.0")
			l.before = true
			rows = diagnoses(t, exitDone, "upgrade", "--config", c.config)
			must(t, rows, "cell1 hypervisors", warned, "of 3 hosts are not compared")
		})
	}
}

// An agent with a uuid that no row has is a failure, in every state of the gate: its host
// stands beside the one that the row is of. One that is down, or that an operator took out
// of service, is a warning.
func TestDoctorUpgradeFailsForAgentsWithoutARow(t *testing.T) {
	l := (&listingCell{gate: &cellgatev1.Gate{State: cellgatev1.Gate_NATIVE}}).registered(1, 2, 9)
	c := newNovaCell(t, legacytest.MariaDB, 2, l.serve(t))
	const check = "cell1 agent of host2"
	stranger := l.hosts[2]
	stranger.ServiceHost, stranger.Nodename, stranger.Up = "host2", "host2.example", true
	rows := diagnoses(t, exitRefused, "upgrade", "--config", c.config)
	must(t, rows, check, unhealthy, "has registered compute node "+novaHostID(9)+", of which there is no row in compute_nodes: it is a host of its own, with all that its machine has, and gets instances")
	must(t, rows, check, unhealthy, "the row of that machine is compute node "+novaHostID(2))
	if do := rows[check].Do; !strings.Contains(do, "cellgate hosts disable "+novaHostID(9)+" --reason") {
		t.Errorf("it says to do %q", do)
	}
	l.gate.State = cellgatev1.Gate_LEGACY
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "no request finds it while the rows answer; a gateway that reads them makes it count as disabled")
	stranger.Admin = &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_ENABLED, Nova: "disabled in Nova"}
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "it counts as disabled in Nova, and gets no new instance")
	for name, harmless := range map[string]func(){
		"down":           func() { stranger.Up = false },
		"disabled":       func() { stranger.Enabled = false },
		"by an operator": func() { stranger.Admin = &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_DISABLED} },
	} {
		stranger.Up, stranger.Enabled, stranger.Admin = true, true, &cellgatev1.HostAdmin{State: cellgatev1.HostAdmin_ENABLED}
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), check, unhealthy, "of which there is no row")
		harmless()
		t.Log(name)
		must(t, diagnoses(t, exitDone, "upgrade", "--config", c.config), check, warned, "it is not up, or out of service")
	}
}
