package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// hostsCompared gives what the cell was told last of hosts; nil for nothing.
func (f *fakeCell) hostsCompared() *cellv1.HostComparison {
	all := f.reported()
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1].GetHostsCompared()
}

// awaitHosts gives what the cell is told once it is as wanted, within a minute.
func (f *fakeCell) awaitHosts(t *testing.T, what string, wanted func(*cellv1.HostComparison) bool) *cellv1.HostComparison {
	t.Helper()
	for range 60 {
		if c := f.hostsCompared(); c != nil && wanted(c) {
			return c
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s: not within a minute, but %v", what, f.hostsCompared())
	return nil
}

func inAggregate(h schedule.Host, uuid, name string, metadata map[string]string) schedule.Host {
	h.Aggregates = append(h.Aggregates, schedule.Aggregate{UUID: uuid, Name: name, Metadata: metadata})
	return h
}

func renamed(h schedule.Host, host, node string) schedule.Host {
	h.ServiceHost, h.NodeName = host, node
	return h
}

func running(h schedule.Host, kind string, version int64, supported string) schedule.Host {
	h.View.HypervisorVersion = version
	h.Facts = schedule.ParseFacts(schedule.FactTexts{HypervisorType: kind, SupportedInstances: supported, Stats: "{}"})
	return h
}

func ratioOf(h schedule.Host, total int64, ratio float64) schedule.Host {
	h.View.VCPUsTotal, h.View.CPURatio = total, ratio
	return h
}

// A host whose agent reports other ratios, totals, aggregates, names or another hypervisor
// than its row has is told of with both, in either direction, though no request shows it and claims are on it; it
// is not any more once the agent reports the same.
func TestShadowTellsOfHostsThatDifferFromTheirRows(t *testing.T) {
	const rack = "e0000000-0000-4000-8000-000000000001"
	tenant := map[string]string{"availability_zone": "az1", "filter_tenant_id": "tenantA"}
	for _, c := range []struct {
		name         string
		native, rows schedule.Host
		kind         cellgatev1.HostDifference_Kind
		want         string
	}{
		{"a lesser ratio", ratioOf(testHost(2, 1), 3, 4), ratioOf(testHost(2, 1), 3, 16), cellgatev1.HostDifference_CAPACITY, "row says 48 VCPU (3, ratio 16), its agent reports 12 (3, ratio 4)"},
		{"a greater ratio", ratioOf(testHost(2, 1), 3, 16), ratioOf(testHost(2, 1), 3, 4), cellgatev1.HostDifference_CAPACITY, "row says 12 VCPU (3, ratio 4), its agent reports 48 (3, ratio 16)"},
		{"another service host", renamed(testHost(2, 1), "host002.example.org", "node002"), testHost(2, 1), cellgatev1.HostDifference_NAMES, `row is of service host "host002", its agent reports "host002.example.org"`},
		{"another node", renamed(testHost(2, 1), "host002", "NODE002"), testHost(2, 1), cellgatev1.HostDifference_NAMES, `row is of node "node002", its agent reports "NODE002"`},
		{
			"a hypervisor of which the agent says nothing", testHost(2, 1), running(testHost(2, 1), "QEMU", 8002002, `[["x86_64", "kvm", "hvm"]]`), cellgatev1.HostDifference_HYPERVISOR,
			"row says hypervisor QEMU, its agent none; row says hypervisor version 8.2.2, its agent none; row supports x86_64/kvm/hvm, its agent reports none such",
		},
		{
			"an aggregate that the agent lacks", testHost(2, 1), inAggregate(testHost(2, 1), rack, "rack1", tenant), cellgatev1.HostDifference_AGGREGATES,
			"row says zone az1, its agent no zone; row is in aggregate rack1 (" + rack + ") with availability_zone=az1, filter_tenant_id=tenantA, its agent reports none of that uuid",
		},
		{
			"an aggregate that Nova lacks", inAggregate(testHost(2, 1), rack, "rack1", nil), testHost(2, 1), cellgatev1.HostDifference_AGGREGATES,
			"its agent reports aggregate rack1 (" + rack + "), row is in none of that uuid",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, f, _ := shadowing(t, []schedule.Host{testHost(1, 1), c.native}, []schedule.Host{testHost(1, 1), c.rows})
				f.mu.Lock()
				f.gate.awaited = []*cellv1.AwaitedClaim{{ClaimId: "c", HostUuid: c.native.UUID.String()}}
				f.mu.Unlock()
				got := f.awaitHosts(t, "both were looked at", func(c *cellv1.HostComparison) bool { return c.GetLookedAt() == 2 })
				if got.GetGateEpoch() != 1 || got.GetHosts() != 2 || got.GetDiffer() != 1 || len(got.GetFirst()) != 1 {
					t.Fatalf("it is told %v", got)
				}
				if d := got.GetFirst()[0]; d.GetKind() != c.kind || d.GetHost() != "host002" || d.GetDetail() != c.want {
					t.Errorf("it is told %v, want %q", d, c.want)
				}
				same := c.rows
				f.edit(func(e *schedule.Edit) { same.Cell = f.uuid; e.PutHost(same) })
				f.awaitHosts(t, "the agent reports what the row says", func(c *cellv1.HostComparison) bool { return c.GetDiffer() == 0 && c.GetLookedAt() == 2 })
			})
		})
	}
}

// Every host of a cell has its turn before all are said to have been looked at, in each
// SHADOW anew.
func TestShadowLooksAtEveryHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var native, rows []schedule.Host
		for n := range 6*weighedHosts + 5 { // more than one refresh compares
			native, rows = append(native, testHost(n+1, 1)), append(rows, testHost(n+1, 1))
		}
		last := len(rows)
		native[last-1] = ratioOf(native[last-1], 16, 2)
		_, f, _ := shadowing(t, native, rows)
		f.awaitHosts(t, "the last host differs", func(c *cellv1.HostComparison) bool { return c.GetDiffer() == 1 })
		for _, r := range f.reported() {
			c := r.GetHostsCompared()
			if c != nil && c.GetHosts() != int32(last) {
				t.Errorf("it is told of %d hosts, of %d", c.GetHosts(), last)
			}
			if int(c.GetLookedAt()) == last && c.GetDiffer() != 1 {
				t.Errorf("all were looked at, and %d differ", c.GetDiffer())
			}
		}
		f.moveGate(cellgatev1.Gate_LEGACY)
		time.Sleep(5 * time.Second)
		if c := f.hostsCompared(); c != nil {
			t.Errorf("while LEGACY it is told %v", c)
		}
		f.moveGate(cellgatev1.Gate_SHADOW)
		f.awaitHosts(t, "it is told again", func(c *cellv1.HostComparison) bool { return c.GetGateEpoch() == 3 })
	})
}

// A host whose service does not count is not asked for: nobody can correct it. A cell of
// before says too little of hosts, and none counts as looked at.
func TestShadowOfHostsThatCannotBeLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, u := shadowing(t, []schedule.Host{testHost(1, 1), ratioOf(testHost(2, 1), 16, 2)}, []schedule.Host{testHost(1, 1), testHost(2, 1)})
		f.awaitHosts(t, "it differs", func(c *cellv1.HostComparison) bool { return c.GetDiffer() == 1 })
		dead := u.reader.services[0]
		dead.ID, dead.Host, dead.ForcedDown = 2, "host002", true
		u.reader.mu.Lock()
		u.reader.services = append(u.reader.services, dead)
		u.reader.hosts[1].ServiceID = 2
		u.reader.mu.Unlock()
		f.awaitHosts(t, "it does not count", func(c *cellv1.HostComparison) bool { return c.GetDiffer() == 0 && c.GetHosts() == 1 })
		f.mu.Lock()
		f.older = true
		f.mu.Unlock()
		f.moveGate(cellgatev1.Gate_SHADOW) // under epoch 2
		time.Sleep(20 * time.Second)
		if c := f.hostsCompared(); c.GetLookedAt() != 0 || c.GetGateEpoch() != 2 {
			t.Errorf("of a cell that does not say it is told %v", c)
		}
		if compared, _, _ := f.toldOf(); compared == 0 {
			t.Error("nothing else is compared either")
		}
	})
}

func TestCapacityDifference(t *testing.T) {
	row := schedule.View{
		VCPUsTotal: 8, VCPUsUsed: 2, CPURatio: 1.1, TotalRAMMB: 16384, FreeRAMMB: 16384 - 512, RAMRatio: 1, TotalDiskGB: 0, DiskRatio: 1,
	}
	like := func(change func(vcpu, memory, disk *ReportedClass)) []ReportedClass {
		all := []ReportedClass{{"VCPU", 8, 2, 1.1}, {"MEMORY_MB", 16384, 512, 1}, {"DISK_GB", 0, 0, 0}, {"CUSTOM_X", 1, 0, 1}}
		change(&all[0], &all[1], &all[2])
		return all
	}
	for _, c := range []struct {
		name, want string
		change     func(vcpu, memory, disk *ReportedClass)
	}{
		{"the same", "", func(_, _, _ *ReportedClass) {}},
		{"a ratio as a FLOAT column has it", "", func(v, _, _ *ReportedClass) { v.Ratio = 1.1000000238 }},
		{"less reserved than the row has in use", "", func(_, m, _ *ReportedClass) { m.Reserved = 0 }},
		{"more than it has in use", "row has 512 MEMORY_MB in use, reserved ones included, its agent reserves 4096", func(_, m, _ *ReportedClass) { m.Reserved = 4096 }},
		{"another total", "row says 16384 MEMORY_MB (16384, ratio 1), its agent reports 15872 (16000, ratio 1, 128 reserved)", func(_, m, _ *ReportedClass) { m.Total, m.Reserved = 16000, 128 }},
		{"no such class", "", func(v, _, _ *ReportedClass) { v.Class = "PCPU" }},
		{"a disk that the row has not", "row says 0 DISK_GB (0, ratio 1), its agent reports 100 (100, ratio 1)", func(_, _, d *ReportedClass) { d.Total, d.Ratio = 100, 1 }},
		{
			"two of them", "row says 8 VCPU (8, ratio 1.1), its agent reports 32 (8, ratio 4); row says 16384 MEMORY_MB (16384, ratio 1), its agent reports 32768 (16384, ratio 2)",
			func(v, m, _ *ReportedClass) { v.Ratio, m.Ratio, v.Reserved, m.Reserved = 4, 2, 0, 0 },
		},
	} {
		if got := CapacityDifference(&row, like(c.change)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	// No limit is no limit.
	row.CPURatio, row.DiskRatio = 1e30, 1
	if got := CapacityDifference(&row, like(func(v, _, _ *ReportedClass) { v.Ratio = mostRatio })); got != "" {
		t.Errorf("without a limit: %q", got)
	}
}

func TestNamesDifference(t *testing.T) {
	row := testHost(1, 1)
	for _, c := range []struct{ host, node, want string }{
		{"host001", "node001", ""},
		{"Host001", "node001", `row is of service host "host001", its agent reports "Host001"`},
		{"host001", "", `row is of node "node001", its agent reports ""`},
		{"a", "b", `row is of service host "host001", its agent reports "a"; row is of node "node001", its agent reports "b"`},
	} {
		if got := NamesDifference(&row, c.host, c.node); got != c.want {
			t.Errorf("%s, %s: %q, want %q", c.host, c.node, got, c.want)
		}
	}
}

// What runs is compared as sets of triples in Nova's words, the version as a number; and
// only what some filter in force reads holds a gate.
func TestHypervisorDifference(t *testing.T) {
	row := running(testHost(1, 1), "QEMU", 8002002, `[["x86_64", "kvm", "hvm"], ["AMD64", "qemu", "hvm"], ["i686", "kvm", "hvm"]]`)
	const same = `[["i686","kvm","hvm"],["x86_64","qemu","hvm"],["x86_64","kvm","hvm"],["x86_64","kvm","hvm"]]`
	all := HypervisorRead{true, true, true}
	for _, c := range []struct {
		name, kind    string
		version       int64
		supported     string
		read          HypervisorRead
		holds, unread string
	}{
		{"another order, and words of one meaning", "QEMU", 8002002, same, all, "", ""},
		{"another type", "qemu", 8002002, same, all, "row says hypervisor QEMU, its agent qemu", ""},
		{"no version", "QEMU", 0, same, all, "row says hypervisor version 8.2.2, its agent none", ""},
		{"no version, which no filter reads", "QEMU", 0, same, HypervisorRead{}, "", "row says hypervisor version 8.2.2, its agent none"},
		{"nothing supported", "QEMU", 8002002, "", all, "row supports x86_64/kvm/hvm, x86_64/qemu/hvm, i686/kvm/hvm, its agent reports none such", ""},
		{"others", "QEMU", 8002002, `[["x86_64","kvm","hvm"],["aarch64","kvm","hvm"],["x86_64","kvm","xen"]]`, all, "row supports x86_64/qemu/hvm, i686/kvm/hvm, its agent reports none such; its agent reports that it supports aarch64/kvm/hvm, x86_64/kvm/xen, row has none such", ""},
		{"some of it", "XEN", 1, same, HypervisorRead{version: true}, "row says hypervisor version 8.2.2, its agent 0.0.1", "row says hypervisor QEMU, its agent XEN"},
	} {
		holds, unread := HypervisorDifference(&row, &cellv1.Hypervisor{Type: c.kind, Version: c.version}, Supported(c.supported), c.read)
		if holds != c.holds || unread != c.unread {
			t.Errorf("%s: %q and %q, want %q and %q", c.name, holds, unread, c.holds, c.unread)
		}
	}
	row.View.HypervisorVersion = 1 << 40 // an importer cuts it
	if holds, _ := HypervisorDifference(&row, &cellv1.Hypervisor{Type: "QEMU", Version: 1<<31 - 1}, Supported(same), all); holds != "" {
		t.Errorf("imported: %q", holds)
	}
	for _, c := range []struct {
		filters    []string
		expression string
		want       HypervisorRead
	}{
		{nil, "", all}, // ComputeCapabilitiesFilter is one of the default ones
		{[]string{"ComputeFilter"}, "", HypervisorRead{}},
		{[]string{"ComputeFilter", "ImagePropertiesFilter"}, "", HypervisorRead{version: true, supported: true}},
		{[]string{"JsonFilter"}, "", all},
		{[]string{"ComputeFilter"}, `host.hypervisor_type == "QEMU"`, HypervisorRead{kind: true}},
		{[]string{"ComputeFilter"}, "host.hypervisor_version > 8002000.0", HypervisorRead{version: true}},
	} {
		if got := ReadOfHypervisors(c.filters, c.expression); got != c.want {
			t.Errorf("%v %s: %v, want %v", c.filters, c.expression, got, c.want)
		}
	}
}

func TestAggregatesDifference(t *testing.T) {
	const a, b = "e0000000-0000-4000-8000-00000000000a", "e0000000-0000-4000-8000-00000000000b"
	row := []schedule.Aggregate{{UUID: a, Name: "rack1", Metadata: map[string]string{"availability_zone": "az1", "ssd": "true"}}, {UUID: b, Name: "windows"}}
	agents := func(name string, metadata map[string]string, more ...*cellgatev1.HostAggregate) []*cellgatev1.HostAggregate {
		return append(more, &cellgatev1.HostAggregate{Uuid: strings.ToUpper(a), Name: name, Metadata: metadata})
	}
	windows := &cellgatev1.HostAggregate{Uuid: b}
	for _, c := range []struct {
		name, want string
		reported   []*cellgatev1.HostAggregate
	}{
		{"the same but for names and case", "", agents("other", map[string]string{"availability_zone": "az1", "ssd": "true"}, windows)},
		{"another zone", "row says zone az1, its agent zone az2; row says availability_zone=az1 in aggregate rack1, its agent availability_zone=az2", agents("rack1", map[string]string{"availability_zone": "az2", "ssd": "true"}, windows)},
		{"a key less", "row says ssd=true in aggregate rack1, its agent no ssd", agents("rack1", map[string]string{"availability_zone": "az1"}, windows)},
		{"a key more", "row says no x in aggregate rack1, its agent x=1", agents("rack1", map[string]string{"availability_zone": "az1", "ssd": "true", "x": "1"}, windows)},
		{"membership", "row is in aggregate windows (" + b + "), its agent reports none of that uuid", agents("rack1", map[string]string{"availability_zone": "az1", "ssd": "true"})},
		{"none at all", "row says zone az1, its agent no zone; row is in aggregate rack1 (" + a + ") with availability_zone=az1, ssd=true, its agent reports none of that uuid; row is in aggregate windows (" + b + "), its agent reports none of that uuid", nil},
		{
			"more than are told", "row says ssd=true in aggregate rack1, its agent no ssd; row says no u in aggregate rack1, its agent u=1; row says no v in aggregate rack1, its agent v=1; 2 more",
			agents("rack1", map[string]string{"availability_zone": "az1", "u": "1", "v": "1", "w": "1", "x": "1"}, windows),
		},
	} {
		if got := AggregatesDifference(row, c.reported); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A host counts once it was looked at, in each epoch anew.
func TestHostLooksCountInTheirEpoch(t *testing.T) {
	rows := &knownRows{Snapshot: &legacy.Snapshot{Hosts: []legacy.Host{{Host: testHost(1, 1)}, {Host: testHost(2, 1)}}}}
	one, two := rows.Hosts[0].UUID, rows.Hosts[1].UUID
	var l hostLooks
	if c := l.comparison(rows, time.Time{}, time.Minute); c != nil {
		t.Errorf("before any look it tells %v", c)
	}
	for i, step := range []struct {
		epoch  int64
		asked  schedule.ID
		looked int32
	}{{1, one, 1}, {1, one, 1}, {1, two, 2}, {3, one, 1}} {
		l.took(rows, step.epoch, step.asked[:], &cellv1.Proposal{})
		if c := l.comparison(rows, time.Time{}, time.Minute); c.GetGateEpoch() != step.epoch || c.GetHosts() != 2 || c.GetLookedAt() != step.looked {
			t.Errorf("step %d: it tells %v", i, c)
		}
	}
}
