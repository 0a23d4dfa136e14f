package cell

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// zoned is a host in an aggregate that names a zone.
func zoned(n int, vcpus int32, zone string, traits ...string) *agentv1.FullState {
	s := plainState(n, vcpus)
	s.Providers[0].Traits = traits
	s.Aggregates = []*agentv1.Aggregate{{Uuid: aggA, Name: "rack", Metadata: map[string]string{"availability_zone": zone}}}
	return s
}

func (r *testCell) listHosts(req *cellv1.ListHostsRequest) ([]string, *cellv1.ListHostsResponse) {
	r.t.Helper()
	out, err := r.cells.ListHosts(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, h := range out.GetHosts() {
		names = append(names, h.GetServiceHost())
	}
	return names, out
}

func TestHostsAreListedInOrderByPageAndFilter(t *testing.T) {
	r := start(t, newStore(t))
	for _, n := range []int{3, 1, 2, 5, 4} {
		s := plainState(n, 8)
		if n%2 == 0 {
			s = zoned(n, 8, "west", "CUSTOM_FAST")
		}
		r.register(s)
	}
	var got []string
	req := &cellv1.ListHostsRequest{PageSize: 2}
	for pages := 1; ; pages++ {
		names, out := r.listHosts(req)
		got = append(got, names...)
		if !out.GetMore() {
			if pages != 3 {
				t.Errorf("%d pages, want 3", pages)
			}
			break
		}
		last := out.GetHosts()[len(out.GetHosts())-1]
		req.AfterServiceHost, req.AfterHostUuid = last.GetServiceHost(), last.GetHostUuid()
	}
	if want := []string{"host-00001", "host-00002", "host-00003", "host-00004", "host-00005"}; !slices.Equal(got, want) {
		t.Errorf("pages gave %v", got)
	}
	for _, c := range []struct {
		req  *cellv1.ListHostsRequest
		want []string
	}{
		{&cellv1.ListHostsRequest{AvailabilityZone: "west"}, []string{"host-00002", "host-00004"}},
		{&cellv1.ListHostsRequest{Trait: "CUSTOM_FAST", NameContains: "HOST-00004"}, []string{"host-00004"}},
		{&cellv1.ListHostsRequest{HostUuid: hostUUID(3)}, []string{"host-00003"}},
		{&cellv1.ListHostsRequest{AvailabilityZone: "nova"}, nil},
		{&cellv1.ListHostsRequest{AvailabilityZone: "nova", DefaultAvailabilityZone: "nova"}, []string{"host-00001", "host-00003", "host-00005"}},
		{&cellv1.ListHostsRequest{AvailabilityZone: "west", DefaultAvailabilityZone: "nova"}, []string{"host-00002", "host-00004"}},
		{&cellv1.ListHostsRequest{AvailabilityZone: "west", DefaultAvailabilityZone: "west"}, []string{"host-00001", "host-00002", "host-00003", "host-00004", "host-00005"}},
		{&cellv1.ListHostsRequest{HostUuid: hostUUID(9)}, nil},
	} {
		if got, _ := r.listHosts(c.req); !slices.Equal(got, c.want) {
			t.Errorf("%v gave %v, want %v", c.req, got, c.want)
		}
	}
	_, all := r.listHosts(&cellv1.ListHostsRequest{DefaultAvailabilityZone: "nova"})
	for i, h := range all.GetHosts() {
		if want := []string{"nova", "west"}[i%2]; h.GetAvailabilityZone() != want {
			t.Errorf("%s is shown in zone %q, want %q", h.GetServiceHost(), h.GetAvailabilityZone(), want)
		}
	}
}

func TestAHostIsShownWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		s := zoned(1, 8, "west", "CUSTOM_FAST")
		s.Disabled, s.DisabledReason = true, "maintenance"
		r.register(plainState(2, 8))
		received := time.Now()
		r.register(s)
		// The host is down, and its row is marked silent.
		time.Sleep(time.Minute + 2*time.Second)
		synctest.Wait()
		_, out := r.listHosts(&cellv1.ListHostsRequest{HostUuid: hostUUID(1)})
		h := out.GetHosts()[0]
		if !h.GetLastSeenAt().AsTime().Equal(received) || h.GetUp() {
			t.Errorf("last seen at %v, up %v", h.GetLastSeenAt().AsTime(), h.GetUp())
		}
		h.LastSeenAt = nil
		want := &cellgatev1.Host{
			HostUuid: hostUUID(1), ServiceHost: "host-00001", Nodename: "host-00001", Cell: "cell1",
			DisabledReason: "maintenance", AvailabilityZone: "west", Traits: []string{"CUSTOM_FAST"}, AgentVersion: 1, Generation: 2,
			Aggregates: []*cellgatev1.HostAggregate{{Uuid: aggA, Name: "rack", Metadata: map[string]string{"availability_zone": "west"}}},
			Inventories: []*cellgatev1.HostInventory{
				{ProviderUuid: hostUUID(1), ResourceClass: "VCPU", Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1},
				{ProviderUuid: hostUUID(1), ResourceClass: "MEMORY_MB", Total: 1 << 20, MinUnit: 1, MaxUnit: 1 << 20, StepSize: 1, AllocationRatio: 1},
				{ProviderUuid: hostUUID(1), ResourceClass: "DISK_GB", Total: 1 << 20, MinUnit: 1, MaxUnit: 1 << 20, StepSize: 1, AllocationRatio: 1},
			},
		}
		if !proto.Equal(h, want) {
			t.Errorf("got  %v\nwant %v", h, want)
		}
		r.must(newClaim("k", 1, 2, 3))
		_, out = r.listHosts(&cellv1.ListHostsRequest{HostUuid: hostUUID(2)})
		if h := out.GetHosts()[0]; h.GetInstances() != 1 || h.GetInventories()[0].GetUsed() != 3 || h.GetGeneration() != 3 || !h.GetEnabled() {
			t.Errorf("with a claim: %v", h)
		}
	})
}

func TestTheSummarySaysWhatTheCellCouldHold(t *testing.T) {
	r := start(t, newStore(t), func(c *Config) { c.Version = "v9" })
	summary := func() *cellv1.GetSummaryResponse {
		out, err := r.cells.GetSummary(context.Background(), &cellv1.GetSummaryRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if s := summary(); s.GetTotals().GetHosts() != 0 || s.GetHasUnzonedHosts() {
		t.Errorf("an empty cell: %v", s)
	}
	big := zoned(1, 32, "west", "CUSTOM_FAST")
	big.Providers[0].Inventories[0].AllocationRatio = 4
	big.Providers[0].Inventories[0].MaxUnit = 24
	big.Aggregates[0].Metadata["filter_tenant_id"] = "p1"
	big.Providers = append(big.Providers, &agentv1.Provider{Uuid: numaA, ParentUuid: hostUUID(1), Inventories: []*agentv1.Inventory{
		{ResourceClass: "VGPU", Total: 4, AllocationRatio: 1},
	}})
	r.register(big)
	off := plainState(2, 8)
	off.Disabled = true
	r.register(off)
	r.must(newClaim("k1", 1, 1, 10), newClaim("k2", 2, 1, 10))
	r.must(confirm("k1", 1))
	s := summary()
	name := s.GetTotals().GetTableVersion()
	want := &cellv1.GetSummaryResponse{
		Cell: "cell1", CellUuid: cellUUID, Replica: "r1",
		Totals: &cellgatev1.Cell{
			Cell: "cell1", CellUuid: cellUUID, Enabled: true, Available: true, Hosts: 2, HostsUp: 1, HostsDisabled: 1,
			ClaimsPending: 1, ClaimsConfirmed: 1, AvailabilityZones: []string{"west"}, TableVersion: name,
			Resources: []*cellgatev1.ResourceTotals{
				{ResourceClass: "DISK_GB", Capacity: 2 << 20, LargestFree: 1 << 20},
				{ResourceClass: "MEMORY_MB", Capacity: 2 << 20, LargestFree: 1 << 20},
				{ResourceClass: "VCPU", Capacity: 128 + 8, Used: 20, LargestFree: 108},
				{ResourceClass: "VGPU", Capacity: 4, LargestFree: 4},
			},
		},
		Largest: []*cellv1.MaxUnit{
			{ResourceClass: "DISK_GB", Amount: 1 << 20},
			{ResourceClass: "MEMORY_MB", Amount: 1 << 20},
			{ResourceClass: "VCPU", Amount: 24},
		},
		Traits: []string{"CUSTOM_FAST"}, Aggregates: []string{aggA}, AggregateNames: []string{"rack"}, AvailabilityZones: []string{"west"}, HasUnzonedHosts: true,
		Tenants: []string{"p1", "west"}, ChildClasses: []string{"VGPU"},
	}
	if now := s.GetMachineTime().AsTime(); time.Since(now) > time.Minute || s.GetStoreTime().AsTime().Before(now.Add(-time.Minute)) || s.GetVersion() != "v9" {
		t.Errorf("at %v, store time %v, version %q", now, s.GetStoreTime().AsTime(), s.GetVersion())
	}
	s.MachineTime, s.StoreTime, s.Version = nil, nil, ""
	if !proto.Equal(s, want) {
		t.Errorf("got  %v\nwant %v", s, want)
	}
	if p := r.propose(query(1)); p.GetTableVersion() != name {
		t.Errorf("the summary is of %s, the newest version is %s", name, p.GetTableVersion())
	}
}

// Hosts may have much to show. A page ends before it is too large for a gateway.
func TestListHosts_LargeHosts_ShorterPages(t *testing.T) {
	r := start(t, newStore(t))
	traits := make([]string, 1000)
	for i := range traits {
		traits[i] = fmt.Sprintf("CUSTOM_%0248d", i)
	}
	const hosts = 40
	for n := range hosts {
		s := plainState(n, 8)
		s.Providers[0].Traits = traits
		r.register(s)
	}
	seen, pages := 0, 0
	for page, more := (&cellv1.ListHostsRequest{PageSize: 1000}), true; more; pages++ {
		out, err := r.cells.ListHosts(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if size := proto.Size(out); size > 5<<20 {
			t.Errorf("a page of %d bytes", size)
		}
		last := out.GetHosts()[len(out.GetHosts())-1]
		page.AfterServiceHost, page.AfterHostUuid, more = last.GetServiceHost(), last.GetHostUuid(), out.GetMore()
		seen += len(out.GetHosts())
	}
	if seen != hosts || pages < 3 {
		t.Errorf("%d hosts on %d pages", seen, pages)
	}
}
