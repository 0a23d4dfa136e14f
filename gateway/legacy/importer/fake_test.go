package importer

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(legacytest.Stop)) }

// fakeCell imports hosts as the contract says, in the simplest way.
type fakeCell struct {
	hosts  map[string]*fakeHost
	claims map[string]*fakeClaim // by instance
	calls  int
	// closed means that the gate is not NATIVE, so that imports take hosts from their agents.
	closed bool
	// before and after run at the start and end of each call. An error of before fails the call undone, one of
	// after fails it when it is done.
	before, after func(call int) error
	// now is the store's time, for claims that reports make. asks are the sizes of the FindUnclaimed calls;
	// unfindable, unless nil, fails them.
	now        time.Time
	asks       []int
	unfindable error
	// sizes are the numbers of hosts of each call.
	sizes []int
	sent  []*cellv1.ImportedHost
	// deletedSent are the deleted instances of each call that names some.
	deletedSent [][]string
}

// fakeHost is registered by its agent, or imported.
type fakeHost struct {
	state *agentv1.FullState
	agent bool
}

type fakeClaim struct {
	host    string
	adopted bool
	pending bool
	seen    bool
	updated time.Time
	used    map[string]int32
}

func newCell() *fakeCell {
	return &fakeCell{hosts: map[string]*fakeHost{}, claims: map[string]*fakeClaim{}}
}

func (f *fakeCell) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	f.calls++
	if f.before != nil {
		if err := f.before(f.calls); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := rpc.Validate(in); err != nil {
		return nil, err
	}
	f.sizes, f.sent = append(f.sizes, len(in.GetHosts())), append(f.sent, in.GetHosts()...)
	out := &cellv1.ImportHostsResponse{}
	for _, h := range in.GetHosts() {
		out.Outcomes = append(out.Outcomes, f.put(h, in.GetInstancesAt().AsTime()))
	}
	f.deleted(in, out)
	if f.after != nil {
		if err := f.after(f.calls); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// deleted ends the claims of deleted instances that hosts of agents do not report.
func (f *fakeCell) deleted(in *cellv1.ImportHostsRequest, out *cellv1.ImportHostsResponse) {
	var uuids []string
	for id := range slices.Chunk(in.GetDeleted(), 16) {
		uuid := schedule.ID(id).String()
		uuids = append(uuids, uuid)
		c := f.claims[uuid]
		if c == nil {
			continue
		}
		h := f.hosts[c.host]
		if c.pending || h == nil || !h.agent || h.state.GetInstancesUnknown() || c.updated.After(in.GetInstancesAt().AsTime()) ||
			slices.ContainsFunc(h.state.GetInstances(), func(i *agentv1.Instance) bool { return i.GetInstanceUuid() == uuid }) {
			out.Claimed = append(out.Claimed, id...)
			continue
		}
		delete(f.claims, uuid)
		out.DeletedReleased++
	}
	if len(uuids) > 0 {
		slices.Sort(uuids)
		f.deletedSent = append(f.deletedSent, uuids)
	}
}

// put imports a host whose instances are complete up to a time: claims written later do not end.
func (f *fakeCell) put(in *cellv1.ImportedHost, at time.Time) *cellv1.ImportOutcome {
	s, o := in.GetState(), &cellv1.ImportOutcome{}
	if s.GetCell() != "cell1" { // as a cell takes from its own agents only
		o.Failure = &cellv1.Failure{Reason: "INVALID_REQUEST", Message: "cell: it is of " + s.GetCell()}
		return o
	}
	old := f.hosts[s.GetHostUuid()]
	switch {
	case old != nil && old.agent && !f.closed:
		o.OwnedByAgent = true
		return f.unknown(old, s, o, at)
	case old != nil && !old.agent && old.state.GetBootId() == s.GetBootId() && s.GetVersion() < old.state.GetVersion():
		o.Unchanged = true
		return o
	}
	f.hosts[s.GetHostUuid()] = &fakeHost{state: s}
	return f.instances(s, o, at)
}

// unknown imports the instances of a host whose agent does not know its own.
func (f *fakeCell) unknown(old *fakeHost, s *agentv1.FullState, o *cellv1.ImportOutcome, at time.Time) *cellv1.ImportOutcome {
	if o.InstancesTaken = old.state.GetInstancesUnknown(); o.InstancesTaken {
		return f.instances(s, o, at)
	}
	return o
}

func (f *fakeCell) instances(s *agentv1.FullState, o *cellv1.ImportOutcome, at time.Time) *cellv1.ImportOutcome {
	here := map[string]bool{}
	for _, i := range s.GetInstances() {
		here[i.GetInstanceUuid()] = true
		used := map[string]int32{}
		for _, u := range i.GetUsages() {
			used[u.GetResourceClass()] = u.GetAmount()
		}
		switch c := f.claims[i.GetInstanceUuid()]; {
		case c == nil:
			f.claims[i.GetInstanceUuid()] = &fakeClaim{host: s.GetHostUuid(), adopted: true, used: used, updated: f.now}
			o.Adopted++
		case c.host != s.GetHostUuid():
			o.ClaimedElsewhere++
		case c.pending:
			c.pending, c.seen = false, true
			o.Confirmed++
		case c.adopted:
			c.used = used
		}
	}
	for id, c := range f.claims {
		if c.host == s.GetHostUuid() && (c.adopted || c.seen) && !here[id] && !c.updated.After(at) {
			delete(f.claims, id)
			o.Released++
		}
	}
	return o
}

func (f *fakeCell) ListHosts(_ context.Context, in *cellv1.ListHostsRequest, _ ...grpc.CallOption) (*cellv1.ListHostsResponse, error) {
	out := &cellv1.ListHostsResponse{}
	for _, id := range slices.Sorted(maps.Keys(f.hosts)) {
		h := f.hosts[id]
		host := &cellgatev1.Host{
			Cell:     "cell1",
			HostUuid: id, ServiceHost: h.state.GetServiceHost(), Nodename: h.state.GetNodename(),
			Enabled: !h.state.GetDisabled(), DisabledReason: h.state.GetDisabledReason(), InstancesUnknown: h.agent && h.state.GetInstancesUnknown(),
		}
		if host.Imported = !h.agent; h.agent {
			host.AgentVersion = 1
		}
		for _, i := range h.state.GetProviders()[0].GetInventories() {
			host.Inventories = append(host.Inventories, &cellgatev1.HostInventory{
				ProviderUuid: id, ResourceClass: i.GetResourceClass(), Total: i.GetTotal(), Unaccounted: i.GetUnaccounted(), MinUnit: 1,
				MaxUnit: max(i.GetTotal(), 1), StepSize: 1, AllocationRatio: i.GetAllocationRatio(), Used: int32(f.used(id)[i.GetResourceClass()]),
			})
		}
		out.Hosts = append(out.Hosts, host)
	}
	slices.SortFunc(out.Hosts, func(a, b *cellgatev1.Host) int {
		return cmp.Or(cmp.Compare(a.GetServiceHost(), b.GetServiceHost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()))
	})
	for len(out.Hosts) > 0 && in.GetAfterHostUuid() != "" &&
		cmp.Or(cmp.Compare(out.Hosts[0].GetServiceHost(), in.GetAfterServiceHost()), cmp.Compare(out.Hosts[0].GetHostUuid(), in.GetAfterHostUuid())) <= 0 {
		out.Hosts = out.Hosts[1:]
	}
	if out.More = len(out.Hosts) > 2; out.More {
		out.Hosts = out.Hosts[:2]
	}
	return out, nil
}

func (f *fakeCell) ListClaims(_ context.Context, in *cellv1.ListClaimsRequest, _ ...grpc.CallOption) (*cellv1.ListClaimsResponse, error) {
	out := &cellv1.ListClaimsResponse{}
	for _, id := range slices.Sorted(maps.Keys(f.claims)) {
		if c := f.claims[id]; id > in.GetAfter() {
			state := cellgatev1.ClaimState_CONFIRMED
			if c.pending {
				state = cellgatev1.ClaimState_PENDING
			}
			claim := &cellgatev1.Claim{ClaimId: id, ConsumerUuid: id, HostUuid: c.host, State: state, Adopted: c.adopted, UpdatedAt: timestamppb.New(c.updated)}
			for _, class := range slices.Sorted(maps.Keys(c.used)) {
				claim.Allocations = append(claim.Allocations, &cellgatev1.Allocation{ProviderUuid: c.host, ResourceClass: class, Amount: c.used[class]})
			}
			out.Claims, out.InstanceSeen = append(out.Claims, claim), append(out.InstanceSeen, c.adopted || c.seen)
		}
	}
	if out.More = len(out.Claims) > 3; out.More {
		out.Claims, out.InstanceSeen = out.Claims[:3], out.InstanceSeen[:3]
	}
	return out, nil
}

func (f *fakeCell) FindUnclaimed(_ context.Context, in *cellv1.FindUnclaimedRequest, _ ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error) {
	if err := rpc.Validate(in); err != nil {
		return nil, err
	}
	f.asks = append(f.asks, len(in.GetInstances())/16)
	out := &cellv1.FindUnclaimedResponse{At: timestamppb.New(f.now)}
	for id := range slices.Chunk(in.GetInstances(), 16) {
		if f.claims[schedule.ID(id).String()] == nil {
			out.Unclaimed = append(out.Unclaimed, id...)
		}
	}
	return out, f.unfindable
}

// used is what the claims of a host hold.
func (f *fakeCell) used(host string) map[string]int64 {
	sum := map[string]int64{}
	for _, c := range f.claims {
		if c.host == host {
			for class, n := range c.used {
				sum[class] += int64(n)
			}
		}
	}
	return sum
}

// nova is a cell's tables, in memory.
type nova struct {
	now       time.Time
	hosts     map[int64]*novadb.Host
	services  map[int64]*novadb.Service
	rows      map[int64]novadb.Instance
	revisions uint64
	// beat is the newest heartbeat that is read with the rows of instances.
	beat time.Time
	// fail, when set, ends a pass after a page.
	fail func() error
}

func newNova(hosts int) *nova {
	n := &nova{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), hosts: map[int64]*novadb.Host{}, services: map[int64]*novadb.Service{}, rows: map[int64]novadb.Instance{}}
	for i := 1; i <= hosts; i++ {
		n.addHost(int64(i))
	}
	return n
}

func hostID(i int64) string     { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", i) }
func instanceID(i int64) string { return fmt.Sprintf("d0000000-0000-4000-8000-%012d", i) }

func mustID(s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func (n *nova) addHost(i int64) {
	n.hosts[i] = &novadb.Host{NodeID: i, ServiceID: i, Host: schedule.Host{
		UUID: mustID(hostID(i)), ServiceHost: fmt.Sprintf("host%d", i), NodeName: fmt.Sprintf("node%d", i),
		View: schedule.View{
			VCPUsTotal: 16, CPURatio: 4, TotalRAMMB: 65536, RAMRatio: 1.5, FreeRAMMB: 65536, TotalDiskGB: 1000, DiskRatio: 1, FreeDiskMB: 600 * 1024, DiskUsedMB: 400 * 1024,
		},
		Facts: schedule.ParseFacts(schedule.FactTexts{HypervisorType: "QEMU", HypervisorHostname: fmt.Sprintf("node%d", i), Stats: "{}", SupportedInstances: `[["x86_64", "kvm", "hvm"]]`}),
	}}
	n.services[i] = &novadb.Service{ID: i, Host: fmt.Sprintf("host%d", i), Version: 50}
	n.touch(i)
}

// touch gives a host's row a new revision.
func (n *nova) touch(i int64) {
	n.revisions++
	n.hosts[i].Revision = n.revisions
}

// snapshot reads compute_nodes now, which takes a second.
func (n *nova) snapshot() *novadb.Snapshot {
	n.now = n.now.Add(time.Second)
	x := &novadb.Snapshot{At: n.now}
	for _, i := range slices.Sorted(maps.Keys(n.hosts)) {
		x.Hosts = append(x.Hosts, *n.hosts[i])
		if s := n.services[i]; s != nil {
			x.Services = append(x.Services, *s)
		}
	}
	return x
}

// put writes a row of instances now.
func (n *nova) put(i int64, change func(*novadb.Instance)) {
	row, there := n.rows[i]
	if !there {
		row = novadb.Instance{ID: i, UUID: instanceID(i), VCPUs: 2, MemoryMB: 2048, RootGB: 20, VMState: "active", CreatedAt: n.now, Project: "p", User: "u"}
	}
	change(&row)
	row.UpdatedAt = n.now
	n.rows[i] = row
}

// on puts an instance on a host, and its row has the host at once.
func (n *nova) on(i, host int64) {
	n.put(i, func(r *novadb.Instance) {
		r.Host, r.Node = fmt.Sprintf("host%d", host), fmt.Sprintf("node%d", host)
	})
}

func (n *nova) Instances(_ context.Context, from novadb.InstancePoint) iter.Seq2[*novadb.InstancePage, error] {
	return func(yield func(*novadb.InstancePage, error) bool) {
		at := n.now
		ids := slices.Sorted(maps.Keys(n.rows))
		for len(ids) > 0 {
			page := &novadb.InstancePage{At: at, Age: n.age(from.Witness)}
			some := ids[:min(3, len(ids))]
			ids = ids[len(some):]
			for _, id := range some {
				row := n.rows[id]
				if id <= from.After || from.Since.IsZero() && row.Deleted ||
					!from.Since.IsZero() && !latest(&row).After(from.Since.Add(-2*time.Minute)) && !row.DeletedAt.After(from.Since.Add(-2*time.Minute)) {
					continue
				}
				page.Instances = append(page.Instances, row)
			}
			if page.Last = some[len(some)-1]; page.Last <= from.After {
				continue
			}
			if n.fail != nil {
				if err := n.fail(); err != nil {
					yield(nil, err)
					return
				}
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

func (n *nova) age(witness int64) novadb.InstanceAge {
	row := n.rows[witness]
	return novadb.InstanceAge{Heartbeat: n.beat, Witness: row.Written(n.now)}
}

// importerOf makes an Importer of n's rows and clock, with one call at a time.
func importerOf(t testing.TB, n *nova, change ...func(*Config)) *Importer {
	t.Helper()
	c := Config{Cell: "cell1", Rows: n, Calls: 1, Now: func() time.Time { return n.now }, Random: func() float64 { return 0.5 }}
	for _, f := range change {
		f(&c)
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func step(t testing.TB, m *Importer, n *nova, c Cell) Report {
	t.Helper()
	r, err := m.Step(context.Background(), n.snapshot(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var errCut = fault.New(fault.CellUnavailable, "cut")

// refusing refuses one host.
type refusing struct {
	*fakeCell
	host string
	kind fault.Kind
}

func (f *refusing) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	out := &cellv1.ImportHostsResponse{}
	for _, h := range in.GetHosts() {
		if h.GetState().GetHostUuid() == f.host {
			out.Outcomes = append(out.Outcomes, &cellv1.ImportOutcome{Failure: &cellv1.Failure{Reason: string(f.kind), Message: "not now"}})
			continue
		}
		one, err := f.fakeCell.ImportHosts(ctx, &cellv1.ImportHostsRequest{Hosts: []*cellv1.ImportedHost{h}})
		if err != nil {
			return nil, err
		}
		out.Outcomes = append(out.Outcomes, one.GetOutcomes()...)
	}
	return out, nil
}
