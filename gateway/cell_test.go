package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell"
	"cellgate/cell/agents"
	"cellgate/internal/celltest"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// testCell is a replica of a real cell with its shard in memory, and with faults between the gateway and the replica.
// It runs from the start of a world that contains it.
type testCell struct {
	// name and uuid are the cell's; at is where the replica listens, replica its name.
	name, uuid  string
	at, replica string
	hosts       []schedule.Host
	// shares is the replica of the same cell that owns the shard; nil if this one does.
	shares *testCell
	// shared reports whether the cell has another replica.
	shared bool
	change func(*cell.Config)

	t    testing.TB
	real celltest.Cell
	// skew is how far the shard's time is ahead of the test's.
	skew atomic.Int64

	mu sync.Mutex
	// versions are the versions of the hosts' last reported states, by host uuid.
	versions map[string]uint64
	calls    []any    // requests that the cell got, in order
	ops      []string // operations of them, in order
	before   func(ctx context.Context, method string, req any) error
	after    func(method string, req any) error
	alter    func(method string, req, resp any)
	gate     *gateStub
}

func newCell(n int, hosts ...schedule.Host) *testCell {
	name := fmt.Sprintf("cell%d", n)
	return &testCell{name: name, uuid: testUUID(0xc, n), at: name, replica: "r1", hosts: hosts, versions: map[string]uint64{}}
}

// another is another replica of the cell, with its shard.
func (c *testCell) another() *testCell {
	c.shared = true
	return &testCell{name: c.name, uuid: c.uuid, at: "replica2", replica: "r2", shares: c, shared: true, hosts: c.hosts, versions: c.versions}
}

// run starts the cell; the test stops it.
func (c *testCell) run(t testing.TB) {
	t.Helper()
	c.t = t
	config := celltest.Config{Name: c.name, UUID: c.uuid, Replica: c.replica, Intercept: c.intercept, Change: func(cfg *cell.Config) {
		if !c.shared {
			cfg.TailEvery = time.Minute // nobody else writes
		}
		if c.change != nil {
			c.change(cfg)
		}
	}}
	if c.shares != nil {
		config.Store = c.shares.real.Store
	} else {
		store, err := pebbleshard.OpenMem(pebbleshard.Options{
			Cell: c.name, CellUUID: c.uuid, Log: slog.New(slog.DiscardHandler),
			Clock: func() time.Time { return time.Now().Add(time.Duration(c.skew.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		config.Store = store
		for i := range c.hosts {
			config.Hosts = append(config.Hosts, c.stateOfHost(&c.hosts[i]))
		}
	}
	c.real = celltest.Run(t, config)
}

func testUUID(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

func testID(kind, n int) schedule.ID { return mustID(testUUID(kind, n)) }

func mustID(s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// testHost is a host of 16 VCPU, 64 GiB and 1 TB times size.
func testHost(n, size int) schedule.Host {
	s := int64(size)
	return schedule.Host{
		UUID: testID(0xa, n), ServiceHost: fmt.Sprintf("host%03d", n), NodeName: fmt.Sprintf("node%03d", n),
		Resources: []schedule.Resource{
			{Class: "VCPU", Capacity: 16 * s, MinUnit: 1, MaxUnit: 16 * s, StepSize: 1},
			{Class: "MEMORY_MB", Capacity: 65536 * s, MinUnit: 1, MaxUnit: 65536 * s, StepSize: 1},
			{Class: "DISK_GB", Capacity: 1000 * s, MinUnit: 1, MaxUnit: 1000 * s, StepSize: 1},
		},
		View: schedule.View{
			VCPUsTotal: 16 * s, CPURatio: 1, TotalRAMMB: 65536 * s, RAMRatio: 1, TotalDiskGB: 1000 * s, DiskRatio: 1,
			FreeRAMMB: 65536 * s, FreeDiskMB: 1000 * 1024 * s,
		},
	}
}

// stateOfHost is what the agent of a host reports. Resources that h shows as used are reported without a claim.
func (c *testCell) stateOfHost(h *schedule.Host) *agentv1.FullState {
	uuid := h.UUID.String()
	c.mu.Lock()
	c.versions[uuid]++
	version := c.versions[uuid]
	c.mu.Unlock()
	inventories := func(resources []schedule.Resource) (out []*agentv1.Inventory) {
		for _, r := range resources {
			total, ratio := r.Capacity, 1.0
			switch {
			case r.Class == "VCPU" && h.View.CPURatio > 0:
				total, ratio = h.View.VCPUsTotal, h.View.CPURatio
			case r.Class == "MEMORY_MB" && h.View.RAMRatio > 0:
				total, ratio = h.View.TotalRAMMB, h.View.RAMRatio
			case r.Class == "DISK_GB" && h.View.DiskRatio > 0:
				total, ratio = h.View.TotalDiskGB, h.View.DiskRatio
			}
			out = append(out, &agentv1.Inventory{
				ResourceClass: r.Class, Total: int32(total), MinUnit: int32(r.MinUnit), MaxUnit: int32(r.MaxUnit), StepSize: int32(r.StepSize),
				AllocationRatio: ratio, Unaccounted: int32(r.Used),
			})
		}
		return out
	}
	f := cmp.Or(h.Facts, &schedule.Facts{})
	state := &agentv1.FullState{
		Cell: c.name, BootId: uuid, Version: version, AgentVersion: 1, HostUuid: uuid, ServiceHost: h.ServiceHost, Nodename: h.NodeName,
		Disabled: h.Disabled, IoWorkload: int32(h.View.NumIOOps), FailedBuilds: int32(h.View.FailedBuilds),
		HypervisorType: f.HypervisorType, HypervisorVersion: int32(h.View.HypervisorVersion), HostIp: f.HostIP,
		Facts: &agentv1.Facts{
			CpuInfo: f.CPUInfo, SupportedInstances: f.SupportedInstances, Stats: f.Stats, Metrics: f.Metrics, NumaTopology: f.NUMATopology, PciStats: f.PCIPools,
		},
		Providers: []*agentv1.Provider{{Uuid: uuid, Traits: h.Traits, Inventories: inventories(h.Resources)}},
	}
	for _, p := range h.Children {
		state.Providers = append(state.Providers, &agentv1.Provider{
			Uuid: p.UUID.String(), ParentUuid: p.Parent.String(), Traits: p.Traits, Inventories: inventories(p.Resources),
		})
	}
	for _, a := range h.Aggregates {
		state.Aggregates = append(state.Aggregates, &agentv1.Aggregate{Uuid: a.UUID, Name: a.Name, Metadata: a.Metadata})
	}
	if h.Namespaces != nil {
		for name, facts := range h.Namespaces.Values() {
			text, err := json.Marshal(facts)
			if err != nil {
				panic(err)
			}
			state.Namespaces = append(state.Namespaces, &agentv1.Namespace{Name: name, Facts: string(text)})
		}
	}
	return state
}

// report sends the state of a host as its agent does, with the instances that exist there. It
// returns once the cell has the state.
func (c *testCell) report(h schedule.Host, instances ...*agentv1.Instance) {
	state := c.stateOfHost(&h)
	state.Instances = instances
	c.real.Report(c.t, state)
}

// hook sets two interceptors; either may be nil. before sees each call before the cell does: it may
// delay or change the call, or fail it with nothing done. after sees each call that the cell has done:
// it may delay or drop the answer.
func (c *testCell) hook(before func(ctx context.Context, method string, req any) error, after func(method string, req any) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = before, after
}

// answers makes change edit every answer of the cell.
func (c *testCell) answers(change func(method string, req, resp any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alter = change
}

// intercept stands between the gateway and the cell. A cell whose gate is a stub answers some calls itself.
func (c *testCell) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	if err := c.enter(ctx, method, req); err != nil {
		return nil, err
	}
	if c.gate != nil {
		if resp, err := c.gate.answer(req); resp != nil || err != nil {
			return resp, err
		}
	}
	resp, err := handle(ctx, req)
	if err != nil {
		return nil, err
	}
	c.answer(method, req, resp)
	c.mu.Lock()
	after := c.after
	c.mu.Unlock()
	if after != nil {
		err = after(method, req)
	}
	return resp, err
}

// enter records the calls that reach the cell.
func (c *testCell) enter(ctx context.Context, method string, req any) error {
	c.mu.Lock()
	before := c.before
	c.mu.Unlock()
	if before != nil {
		if err := before(ctx, method, req); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, req)
	if batch, ok := req.(*cellv1.ClaimBatchRequest); ok {
		for _, op := range batch.GetOps() {
			c.ops = append(c.ops, nameOf(op))
		}
	}
	return nil
}

func (c *testCell) answer(method string, req, resp any) {
	c.mu.Lock()
	alter := c.alter
	c.mu.Unlock()
	if c.gate != nil {
		c.gate.alter(resp)
	}
	if alter != nil {
		alter(method, req, resp)
	}
}

// nameOf names an operation by its kind and consumer.
func nameOf(op *cellv1.ClaimOp) string {
	consumer := cmp.Or(
		op.GetClaim().GetConsumerUuid(), op.GetConfirm().GetConsumerUuid(), op.GetRelease().GetConsumerUuid(), op.GetTakeOver().GetConsumerUuid(),
		op.GetSwap().GetConsumerUuid(), op.GetTransfer().GetConsumerUuid(),
	)
	for name, is := range map[string]bool{
		"claim": op.GetClaim() != nil, "confirm": op.GetConfirm() != nil, "release": op.GetRelease() != nil, "keep": op.GetTakeOver() != nil,
		"swap": op.GetSwap() != nil, "transfer": op.GetTransfer() != nil,
	} {
		if is {
			return name + " " + consumer
		}
	}
	return ""
}

// did gives the operations on claims that the cell got, in order.
func (c *testCell) did() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.ops), func(s string) bool { return s == "" })
}

// got gives the requests of one kind that a cell got, in order.
func got[T any](c *testCell) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []T
	for _, req := range c.calls {
		if r, ok := req.(T); ok {
			out = append(out, r)
		}
	}
	return out
}

// queries gives the queries that the cell got, in order.
func (c *testCell) queries() (out []*cellv1.Query) {
	for _, batch := range got[*cellv1.ProposeBatchRequest](c) {
		out = append(out, batch.GetQueries()...)
	}
	return out
}

// list returns the claims that a request asks for, bypassing the faults.
func (c *testCell) list(req *cellv1.ListClaimsRequest) []*cellgatev1.Claim {
	c.t.Helper()
	req.PageSize = 1000
	resp, err := c.real.Scheduler.ListClaims(context.Background(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetClaims()
}

// live gives the live claims by claim_id.
func (c *testCell) live() []*cellgatev1.Claim {
	c.t.Helper()
	return c.list(&cellv1.ListClaimsRequest{})
}

// claim gives a claim, ended ones too; nil for none.
func (c *testCell) claim(id string) *cellgatev1.Claim {
	c.t.Helper()
	for _, claim := range c.list(&cellv1.ListClaimsRequest{ClaimIds: []string{id}}) {
		return claim
	}
	return nil
}

// stateOf gives the state of a claim, ended ones too.
func (c *testCell) stateOf(id string) cellgatev1.ClaimState { return c.claim(id).GetState() }

// do has the cell do an operation, bypassing the faults.
func (c *testCell) do(op *cellv1.ClaimOp) *cellv1.ClaimOutcome {
	c.t.Helper()
	resp, err := c.real.Scheduler.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{op}})
	if err != nil {
		c.t.Error(err)
	}
	return resp.GetOutcomes()[0]
}

// must is do, but a refusal fails the test.
func (c *testCell) must(op *cellv1.ClaimOp) *cellgatev1.Claim {
	c.t.Helper()
	out := c.do(op)
	if r := out.GetRefusal(); r != nil {
		c.t.Errorf("%s: %v", nameOf(op), r)
	}
	return out.GetClaim()
}

// takeVCPUs makes a claim of VCPUs on a host behind the gateway's back.
func (c *testCell) takeVCPUs(id, consumer, host string, vcpus int32) *cellv1.ClaimOutcome {
	c.t.Helper()
	return c.do(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
		ClaimId: id, ConsumerUuid: consumer, HostUuid: host, Ttl: durationpb.New(5 * time.Minute),
		Allocations: []*cellgatev1.Allocation{{ProviderUuid: host, ResourceClass: "VCPU", Amount: vcpus}},
	}}})
}

// fill claims 16 VCPU, all of a host of size 1, behind the gateway's back, so that the next claim there loses a race.
// It returns nil if the claim is refused.
func (c *testCell) fill(host, instance int) *cellgatev1.Claim {
	c.t.Helper()
	return c.takeVCPUs("other"+testUUID(0x9, instance), testUUID(0x9, instance), testUUID(0xa, host), 16).GetClaim()
}

// confirm, release and transfer do the operation behind the gateway's back.
func (c *testCell) confirm(id, consumer string) {
	c.t.Helper()
	c.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: consumer}}})
}

func (c *testCell) release(id, consumer string) {
	c.t.Helper()
	c.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: consumer}}})
}

func (c *testCell) transfer(id, from, to string) {
	c.t.Helper()
	c.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Transfer{Transfer: &cellv1.TransferClaim{ClaimId: id, ConsumerUuid: from, ToConsumer: to}}})
}

// retake makes an expired claim pending, as a late confirm does.
func (c *testCell) retake(id string) {
	c.t.Helper()
	c.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: c.claim(id).GetConsumerUuid(), Reinstate: true}}})
}

// changed has a claim's row written twice, after which its content is as before.
func (c *testCell) changed(id string) {
	c.t.Helper()
	consumer, other := c.claim(id).GetConsumerUuid(), testUUID(0x7, 1)
	c.transfer(id, consumer, other)
	c.transfer(id, other, consumer)
}

// leaseScan is how often a cell ends leases that are over.
const leaseScan = time.Second

// expire advances the shard's time past the lease of a claim, and so ends every lease of the cell that is no
// longer. It needs a synctest bubble.
func (c *testCell) expire(id string) {
	c.t.Helper()
	if over := c.claim(id).GetExpiresAt().AsTime().Sub(time.Now().Add(time.Duration(c.skew.Load()))); over > 0 {
		c.skew.Add(int64(over))
	}
	pauseFor(2 * leaseScan) // virtual
	if s := c.stateOf(id); s != cellgatev1.ClaimState_EXPIRED {
		c.t.Fatalf("claim %s is %s", id, s)
	}
}

// pin returns the host that a group is pinned to, and the claims that hold the group there.
func (c *testCell) pin(group string) (host string, holders []string) {
	c.t.Helper()
	_, err := c.real.Store.Load(context.Background(), func(row shard.Change) error {
		if p := row.Pin; p != nil && p.GroupUUID == group {
			host = p.ServiceHost
			for _, h := range p.Holders {
				holders = append(holders, h.ClaimID)
			}
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return host, holders
}

func (c *testCell) unpin(group, claim string) {
	c.t.Helper()
	c.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: claim}}})
}

// hang blocks every call to the cell until the returned function is called, or the call's context ends.
func (c *testCell) hang() (release func()) {
	released := make(chan struct{})
	c.hook(func(ctx context.Context, _ string, _ any) error {
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, nil)
	return func() { close(released) }
}

// isVague makes the cell answer each claim and take-over with a refusal, although the operation was done.
func (c *testCell) isVague(kind fault.Kind) {
	c.answers(func(_ string, req, resp any) {
		batch, _ := req.(*cellv1.ClaimBatchRequest)
		for i, op := range batch.GetOps() {
			if op.GetClaim() != nil || op.GetTakeOver() != nil {
				resp.(*cellv1.ClaimBatchResponse).Outcomes[i] = refusal(kind, "who knows")
			}
		}
	})
}

func refusal(kind fault.Kind, message string) *cellv1.ClaimOutcome {
	return &cellv1.ClaimOutcome{Refusal: &cellv1.Refusal{Reason: string(kind), Message: message}}
}

// verifies makes the cell wait for the verdicts of hosts on claims.
func (c *testCell) verifies() *testCell {
	c.change = func(cfg *cell.Config) { cfg.VerifyMode = agents.VerifySync }
	return c
}

// testAgent is the agent of a host, with a stream to a cell until the test ends.
type testAgent struct {
	c      *testCell
	host   schedule.Host
	stream agentv1.HostReports_ReportClient
	// accepted has one element for each state that the cell took.
	accepted, ended chan struct{}
}

// agent starts the agent of a host, which verifies claims. It rejects every claim for the given reason,
// or none for REASON_UNSPECIFIED.
func (c *testCell) agent(h schedule.Host, rejects agentv1.Verdict_Reason) *testAgent {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := c.real.Reports.Report(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	a := &testAgent{c: c, host: h, stream: stream, accepted: make(chan struct{}, 1), ended: make(chan struct{})}
	go a.answer(rejects)
	c.t.Cleanup(func() { cancel(); <-a.ended })
	a.report()
	return a
}

func (a *testAgent) answer(rejects agentv1.Verdict_Reason) {
	defer close(a.ended)
	verdict := &agentv1.Verdict{Outcome: agentv1.Verdict_OK, BootId: a.host.UUID.String()}
	if rejects != agentv1.Verdict_REASON_UNSPECIFIED {
		verdict.Outcome, verdict.Reason = agentv1.Verdict_REJECTED, rejects
	}
	for {
		m, err := a.stream.Recv()
		if err != nil {
			return
		}
		switch {
		case m.GetAccepted() != nil:
			verdict.Version = m.GetAccepted().GetVersion()
			a.accepted <- struct{}{}
		case m.GetClaimOffer().GetWantsVerdict():
			verdict.ClaimId = m.GetClaimOffer().GetClaimId()
			if a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Verdict{Verdict: verdict}}) != nil {
				return
			}
		}
	}
}

// report reports the host's state with the instances that exist on it, and waits until the cell has it.
func (a *testAgent) report(instances ...*agentv1.Instance) {
	a.c.t.Helper()
	state := a.c.stateOfHost(&a.host)
	state.Verifies, state.Instances = true, instances
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}); err != nil {
		a.c.t.Fatal(err)
	}
	select {
	case <-a.accepted:
	case <-a.ended:
		a.c.t.Fatalf("the state of host %s was not accepted", a.host.ServiceHost)
	}
}

// host gives one of the cell's hosts.
func (c *testCell) host(uuid string) schedule.Host {
	c.t.Helper()
	i := slices.IndexFunc(c.hosts, func(h schedule.Host) bool { return h.UUID.String() == uuid })
	if i < 0 {
		c.t.Fatalf("%s has no host %s", c.name, uuid)
	}
	return c.hosts[i]
}

// reportInstance has the host of a selection report the instance, which confirms the claim there.
func (c *testCell) reportInstance(s *cellgatev1.Selection, uuid string) {
	c.t.Helper()
	c.report(c.host(s.GetComputeNodeUuid()), instance(uuid, s.GetComputeNodeUuid()))
}

// instance builds an instance of 2 VCPU as a host reports it.
func instance(uuid, host string) *agentv1.Instance {
	return &agentv1.Instance{InstanceUuid: uuid, Usages: []*agentv1.Usage{{ProviderUuid: host, ResourceClass: "VCPU", Amount: 2}}}
}

// generation gives the generation of a host.
func (c *testCell) generation(host string) int64 {
	c.t.Helper()
	resp, err := c.real.Scheduler.ListHosts(context.Background(), &cellv1.ListHostsRequest{HostUuid: host, PageSize: 1})
	if err != nil || len(resp.GetHosts()) != 1 {
		c.t.Fatalf("%v, %v", resp, err)
	}
	return resp.GetHosts()[0].GetGeneration()
}

// decisions gives the decisions that the cell keeps.
func (c *testCell) decisions() []*cellgatev1.Decision {
	c.t.Helper()
	resp, err := c.real.Scheduler.ListDecisions(context.Background(), &cellv1.ListDecisionsRequest{PageSize: 1000})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetDecisions()
}
