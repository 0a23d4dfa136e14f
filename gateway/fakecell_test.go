package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	"cellgate/internal/proposing"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// fakeCell is a cell with a real table and claims in memory. Its hooks see every
// call: before may hold it up or fail it, after may lose its reply.
type fakeCell struct {
	cellv1.UnimplementedCellSchedulerServer
	name, uuid string

	mu       sync.Mutex
	table    *schedule.Table
	versions map[string]*schedule.Table
	claims   map[string]*fakeClaim // by claim_id; ended ones are tombstones
	pins     map[string]*fakePin
	ops      []string // what ClaimBatch did, in order
	queries  []*cellv1.Query
	// decisions are those kept, in puts calls; shortPages is the most that a page of
	// them has, when it is set.
	decisions        map[string]*cellgatev1.Decision
	puts, shortPages int

	// rejects are the hosts that reject each claim, by uuid, with the reason.
	rejects map[string]string

	// loading: it says that it loads its table; cut: that it looked at some hosts alone.
	loading, cut bool
	// late is what another replica did to the table last, until it is read of.
	late func(*schedule.Edit)

	gate    fakeGate
	resyncs []*cellv1.ResyncHostsRequest
	// findings are what it answers of its reconciler, besides claims that moved in and are confirmed.
	findings []*cellgatev1.Finding
	noRepair bool
	// stillThere are the instances that its hosts report still.
	stillThere map[string]bool
	// members are service hosts of members that no table knows, by group.
	members map[string][]string

	// same is the replica of this cell that has its claims; nil for this one.
	same *fakeCell

	// awaits: it says that it waits for hosts' verdicts.
	awaits bool
	// stopsAt is how many operations of a call are done, when it is set; the others are
	// refused as by a replica that stops.
	stopsAt int

	vague fault.Kind // when set, claims are made and answered with it
	// facts are what it was told of hosts.
	facts []*cellv1.PutFactsRequest
	words []*cellv1.SetAdminStateRequest
	// generation is that of every host of it; what is said over an older one is refused.
	generation int64

	before func(ctx context.Context, method string, req any) error
	after  func(method string, req any) error
}

type fakeClaim struct {
	claim  *cellgatev1.Claim
	origin *cellv1.ClaimOrigin
	// retaken: it is not in its first lease.
	retaken bool
}

type fakePin struct {
	host    string
	holders map[string]bool
}

func newFakeCell(n int, hosts ...schedule.Host) *fakeCell {
	f := &fakeCell{
		name: fmt.Sprintf("cell%d", n), uuid: testUUID(0xc, n),
		versions: map[string]*schedule.Table{}, claims: map[string]*fakeClaim{}, pins: map[string]*fakePin{},
	}
	e := schedule.NewTable().Edit()
	for _, h := range hosts {
		h.Cell = f.uuid
		e.PutHost(h)
	}
	f.set(e.Table())
	return f
}

func testUUID(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

func testID(kind, n int) schedule.ID {
	id, err := schedule.ParseID(testUUID(kind, n))
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
		View: schedule.View{VCPUsTotal: 16 * s, CPURatio: 1, FreeRAMMB: 65536 * s, FreeDiskMB: 1000 * 1024 * s},
	}
}

func (f *fakeCell) set(t *schedule.Table) {
	f.table = t
	f.versions[strconv.FormatUint(t.Version(), 10)] = t
}

// edit changes the table from outside.
func (f *fakeCell) edit(change func(*schedule.Edit)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.table.Edit()
	change(e)
	f.set(e.Table())
}

func (f *fakeCell) hook(before func(ctx context.Context, method string, req any) error, after func(method string, req any) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *fakeCell) enter(ctx context.Context, method string, req any) error {
	f.mu.Lock()
	before := f.before
	f.mu.Unlock()
	if before == nil {
		return nil
	}
	return before(ctx, method, req)
}

func (f *fakeCell) leave(method string, req any) error {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after == nil {
		return nil
	}
	return after(method, req)
}

// live gives the live claims by claim_id.
func (f *fakeCell) live() []*cellgatev1.Claim {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.liveOf(func(*cellgatev1.Claim) bool { return true })
}

func (f *fakeCell) liveOf(want func(*cellgatev1.Claim) bool) []*cellgatev1.Claim {
	var out []*cellgatev1.Claim
	for _, c := range f.claims {
		if isLive(c.claim) && want(c.claim) {
			out = append(out, proto.CloneOf(c.claim))
		}
	}
	slices.SortFunc(out, func(a, b *cellgatev1.Claim) int { return cmp.Compare(a.GetClaimId(), b.GetClaimId()) })
	return out
}

func isLive(c *cellgatev1.Claim) bool {
	return c.GetState() == cellgatev1.ClaimState_PENDING || c.GetState() == cellgatev1.ClaimState_CONFIRMED
}

func (f *fakeCell) did() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ops)
}

func (f *fakeCell) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	if err := f.enter(ctx, "ProposeBatch", req); err != nil {
		return nil, err
	}
	resp := &cellv1.ProposeBatchResponse{}
	f.mu.Lock()
	for _, q := range req.GetQueries() {
		f.queries = append(f.queries, q)
		resp.Proposals = append(resp.Proposals, f.propose(q))
	}
	f.mu.Unlock()
	return resp, f.leave("ProposeBatch", req)
}

func (f *fakeCell) propose(q *cellv1.Query) *cellv1.Proposal {
	if why := f.gate.closed; why != "" {
		return &cellv1.Proposal{Gate: f.gate.GetState(), Failure: &cellv1.Failure{Reason: string(fault.CellUnavailable), Message: why}}
	}
	if f.late != nil && q.GetUpToDate() {
		e := f.table.Edit()
		f.late(e)
		f.late, f.table = nil, e.Table()
		f.versions[strconv.FormatUint(f.table.Version(), 10)] = f.table
	}
	t := f.table
	if v := q.GetTableVersion(); v != "" {
		if t = f.versions[v]; t == nil {
			return &cellv1.Proposal{Failure: &cellv1.Failure{Reason: string(fault.Gone), Message: "version " + v}}
		}
	}
	asked := queryFrom(q)
	p, err := t.Propose(asked)
	if err != nil {
		return &cellv1.Proposal{Failure: proposing.FailureOf(proposing.QueryFailure(err))}
	}
	out := wire.EncodeProposal(p)
	out.Gate = f.gate.GetState()
	out.TableVersion, out.Cut, out.Lags = strconv.FormatUint(t.Version(), 10), f.cut, f.late != nil
	for _, c := range f.liveOf(func(c *cellgatev1.Claim) bool { return slices.Contains(q.GetConsumerUuids(), c.GetConsumerUuid()) }) {
		out.Claims = append(out.Claims, c)
		out.ClaimOrigins = append(out.ClaimOrigins, f.claims[c.GetClaimId()].origin)
	}
	return out
}

func (f *fakeCell) ClaimBatch(ctx context.Context, req *cellv1.ClaimBatchRequest) (*cellv1.ClaimBatchResponse, error) {
	if err := f.enter(ctx, "ClaimBatch", req); err != nil {
		return nil, err
	}
	resp := &cellv1.ClaimBatchResponse{}
	has := f.holder()
	has.mu.Lock()
	for i, op := range req.GetOps() {
		if f.stopsAt > 0 && i >= f.stopsAt {
			resp.Outcomes = append(resp.Outcomes, refuse(fault.CellUnavailable, "the replica is stopping"))
			continue
		}
		resp.Outcomes = append(resp.Outcomes, has.operate(op))
	}
	has.mu.Unlock()
	return resp, f.leave("ClaimBatch", req)
}

// holder is the replica that has the cell's claims.
func (f *fakeCell) holder() *fakeCell {
	if f.same != nil {
		return f.same
	}
	return f
}

func (f *fakeCell) operate(op *cellv1.ClaimOp) *cellv1.ClaimOutcome {
	switch op := op.GetOp().(type) {
	case *cellv1.ClaimOp_Claim:
		f.ops = append(f.ops, "claim "+op.Claim.GetConsumerUuid())
		out := f.claim(op.Claim)
		if f.vague != "" {
			return refuse(f.vague, "who knows")
		}
		return out
	case *cellv1.ClaimOp_Confirm:
		f.ops = append(f.ops, "confirm "+op.Confirm.GetConsumerUuid())
		return f.confirm(op.Confirm)
	case *cellv1.ClaimOp_Swap:
		f.ops = append(f.ops, "swap "+op.Swap.GetConsumerUuid())
		return f.swap(op.Swap)
	case *cellv1.ClaimOp_Transfer:
		f.ops = append(f.ops, "transfer "+op.Transfer.GetConsumerUuid())
		return f.transfer(op.Transfer)
	case *cellv1.ClaimOp_Release:
		f.ops = append(f.ops, "release "+op.Release.GetConsumerUuid())
		return f.release(op.Release)
	case *cellv1.ClaimOp_Keep:
		f.ops = append(f.ops, "keep "+op.Keep.GetConsumerUuid())
		if f.vague != "" {
			return refuse(f.vague, "who knows")
		}
		return f.keep(op.Keep)
	case *cellv1.ClaimOp_Pin:
		p := f.pins[op.Pin.GetGroupUuid()]
		if p == nil || len(p.holders) == 0 {
			p = &fakePin{host: op.Pin.GetServiceHost(), holders: map[string]bool{}}
			f.pins[op.Pin.GetGroupUuid()] = p
		}
		if p.host != op.Pin.GetServiceHost() {
			out := refuse(fault.AlreadyExists, "pinned to "+p.host)
			out.PinnedServiceHost = p.host
			return out
		}
		p.holders[op.Pin.GetClaimId()] = true
		return &cellv1.ClaimOutcome{PinnedServiceHost: p.host}
	case *cellv1.ClaimOp_Unpin:
		if p := f.pins[op.Unpin.GetGroupUuid()]; p != nil {
			delete(p.holders, op.Unpin.GetClaimId())
		}
		return &cellv1.ClaimOutcome{}
	}
	panic("unknown operation")
}

func refuse(kind fault.Kind, message string) *cellv1.ClaimOutcome {
	return &cellv1.ClaimOutcome{Refusal: &cellv1.Refusal{Reason: string(kind), Message: message}}
}

func (f *fakeCell) claim(n *cellv1.NewClaim) *cellv1.ClaimOutcome {
	if c := f.claims[n.GetClaimId()]; c != nil {
		if !isLive(c.claim) {
			return refuse(fault.ClaimExpired, "the claim has ended")
		}
		return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c.claim)}
	}
	if why := f.rejects[n.GetHostUuid()]; why != "" {
		out := refuse(fault.ClaimRejected, "the host rejected the claim: "+why)
		out.Refusal.Filter, out.Refusal.Detail = "HostVerdict", why
		return out
	}
	if have := f.liveOf(func(c *cellgatev1.Claim) bool {
		return c.GetConsumerUuid() == n.GetConsumerUuid() && c.GetClaimId() != n.GetMovesClaimId()
	}); len(have) > 0 {
		out := refuse(fault.AlreadyExists, "the consumer has a claim")
		out.Claim = have[0]
		return out
	}
	if g := n.GetGroup(); g.GetPolicy() == string(schedule.AntiAffinity) {
		there := f.liveOf(func(c *cellgatev1.Claim) bool {
			return c.GetGroupUuid() == g.GetUuid() && c.GetHostUuid() == n.GetHostUuid() && c.GetConsumerUuid() != n.GetConsumerUuid()
		})
		if len(there) >= int(g.GetMaxServerPerHost()) {
			out := refuse(fault.NoValidHost, "the group has enough members there")
			out.Refusal.Filter = schedule.AntiAffinityFilter
			return out
		}
	}
	if out := f.unnamed(n); out != nil {
		return out
	}
	now := time.Now()
	c := &cellgatev1.Claim{
		ClaimId: n.GetClaimId(), ConsumerUuid: n.GetConsumerUuid(), State: cellgatev1.ClaimState_PENDING, Cell: f.name,
		ProjectId: n.GetProjectId(), UserId: n.GetUserId(), RequestId: n.GetRequestId(), DecisionId: n.GetDecisionId(),
		GroupUuid: n.GetGroup().GetUuid(), CreatedAt: timestamppb.New(now), UpdatedAt: timestamppb.New(now), ExpiresAt: timestamppb.New(now.Add(n.GetTtl().AsDuration())),
		MovesClaimId: n.GetMovesClaimId(),
	}
	if out := f.take(c, n.GetAllocations(), n.GetHostUuid()); out != nil {
		return out
	}
	f.claims[n.GetClaimId()] = &fakeClaim{claim: c, origin: &cellv1.ClaimOrigin{
		Fingerprint: n.GetFingerprint(), Answer: n.GetAnswer(), InstanceIndex: n.GetInstanceIndex(),
		MovesCell: n.GetMovesCell(), GroupPolicy: n.GetGroup().GetPolicy(), Attempt: n.GetAttempt(),
	}}
	return &cellv1.ClaimOutcome{Claim: proto.CloneOf(c)}
}

// unnamed refuses a claim for the members that no table knows.
func (f *fakeCell) unnamed(n *cellv1.NewClaim) *cellv1.ClaimOutcome {
	on := f.members[n.GetGroup().GetUuid()]
	host, _ := f.table.Host(mustID(n.GetHostUuid()))
	there := slices.Contains(on, host.ServiceHost)
	filter := ""
	switch policy := n.GetGroup().GetPolicy(); {
	case len(on) == 0:
	case policy == string(schedule.Affinity) && (!there || len(on) > 1):
		filter = schedule.AffinityFilter
	case policy == string(schedule.AntiAffinity) && there:
		filter = schedule.AntiAffinityFilter
	}
	if filter == "" {
		return nil
	}
	out := refuse(fault.NoValidHost, "the group has others")
	out.Refusal.Filter, out.Refusal.GroupHosts = filter, on
	return out
}

func consumed(amounts []schedule.Amount) schedule.Consumption {
	var c schedule.Consumption
	for _, a := range amounts {
		switch a.Class {
		case "VCPU":
			c.VCPUs = a.N
		case "MEMORY_MB":
			c.RAMMB = a.N
		case "DISK_GB":
			c.DiskMB = a.N * 1024
		}
	}
	return c
}

func (f *fakeCell) release(ref *cellv1.ClaimRef) *cellv1.ClaimOutcome {
	c := f.claims[ref.GetClaimId()]
	if c == nil {
		f.claims[ref.GetClaimId()] = &fakeClaim{claim: &cellgatev1.Claim{
			ClaimId: ref.GetClaimId(), ConsumerUuid: ref.GetConsumerUuid(), State: cellgatev1.ClaimState_RELEASED,
		}}
		return &cellv1.ClaimOutcome{}
	}
	if c.claim.GetConsumerUuid() != ref.GetConsumerUuid() {
		return refuse(fault.InvalidRequest, "consumer_uuid: the claim is of another consumer")
	}
	if !isLive(c.claim) {
		return &cellv1.ClaimOutcome{}
	}
	if ref.GetUnlessReported() && f.stillThere[ref.GetConsumerUuid()] {
		return refuse(fault.AlreadyExists, "the host reports the instance")
	}
	if (ref.GetPendingOnly() || ref.GetAttempt() != "") && c.claim.GetState() == cellgatev1.ClaimState_CONFIRMED {
		return refuse(fault.AlreadyExists, "the claim is confirmed")
	}
	if at := ref.GetUnchangedSince(); at != nil && !proto.Equal(at, c.claim.GetUpdatedAt()) {
		return refuse(fault.StaleGeneration, "the claim was changed")
	}
	if ref.GetAttempt() != "" && ref.GetAttempt() != c.origin.GetAttempt() {
		return refuse(fault.AlreadyExists, "another attempt has the claim")
	}
	c.claim.State = cellgatev1.ClaimState_RELEASED
	f.give(c.claim)
	return &cellv1.ClaimOutcome{}
}

func (f *fakeCell) ListClaims(ctx context.Context, req *cellv1.ListClaimsRequest) (*cellv1.ListClaimsResponse, error) {
	if err := f.enter(ctx, "ListClaims", req); err != nil {
		return nil, err
	}
	resp := f.holder().listClaims(req)
	return resp, f.leave("ListClaims", req)
}

func (f *fakeCell) listClaims(req *cellv1.ListClaimsRequest) *cellv1.ListClaimsResponse {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id := req.GetClaimId(); id != "" {
		resp := &cellv1.ListClaimsResponse{}
		if c := f.claims[id]; c != nil {
			resp.Claims = append(resp.Claims, proto.CloneOf(c.claim))
		}
		return resp
	}
	rows := f.liveOf(func(c *cellgatev1.Claim) bool {
		return (len(req.GetConsumerUuids()) == 0 || slices.Contains(req.GetConsumerUuids(), c.GetConsumerUuid())) &&
			(req.GetHostUuid() == "" || req.GetHostUuid() == c.GetHostUuid()) &&
			(req.GetProjectId() == "" || req.GetProjectId() == c.GetProjectId()) && c.GetClaimId() > req.GetAfter()
	})
	resp := &cellv1.ListClaimsResponse{Claims: rows}
	if n := int(req.GetPageSize()); n > 0 && len(rows) > n {
		resp.Claims, resp.More = rows[:n], true
	}
	if req.GetWantOrigins() {
		for _, c := range resp.GetClaims() {
			resp.ClaimOrigins = append(resp.ClaimOrigins, f.claims[c.GetClaimId()].origin)
		}
	}
	return resp
}

func (f *fakeCell) ListHosts(ctx context.Context, req *cellv1.ListHostsRequest) (*cellv1.ListHostsResponse, error) {
	if err := f.enter(ctx, "ListHosts", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var rows []*cellgatev1.Host
	for h := range f.table.All() {
		after := h.ServiceHost > req.GetAfterServiceHost() ||
			h.ServiceHost == req.GetAfterServiceHost() && h.UUID.String() > req.GetAfterHostUuid()
		zone := cmp.Or(zoneOf(h), req.GetDefaultAvailabilityZone())
		if want := req.GetAvailabilityZone(); want != "" && want != zone {
			continue
		}
		if after && strings.Contains(h.ServiceHost, req.GetNameContains()) && (req.GetHostUuid() == "" || req.GetHostUuid() == h.UUID.String()) {
			rows = append(rows, &cellgatev1.Host{HostUuid: h.UUID.String(), ServiceHost: h.ServiceHost, Nodename: h.NodeName, Cell: f.name, AvailabilityZone: zone, Generation: f.generation})
		}
	}
	slices.SortFunc(rows, func(a, b *cellgatev1.Host) int { return cmp.Compare(a.GetServiceHost(), b.GetServiceHost()) })
	resp := &cellv1.ListHostsResponse{Hosts: rows}
	if n := int(req.GetPageSize()); n > 0 && len(rows) > n {
		resp.Hosts, resp.More = rows[:n], true
	}
	return resp, nil
}

func (f *fakeCell) GetSummary(ctx context.Context, req *cellv1.GetSummaryRequest) (*cellv1.GetSummaryResponse, error) {
	if err := f.enter(ctx, "GetSummary", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &cellv1.GetSummaryResponse{
		Cell: f.name, CellUuid: f.uuid, Replica: "r1", AwaitsVerdicts: f.awaits,
		Totals: &cellgatev1.Cell{Cell: f.name, CellUuid: f.uuid, Hosts: int32(f.table.Len())},
	}
	if f.gate.Gate != nil {
		s.Totals.Gate, s.Totals.Reason = proto.CloneOf(f.gate.Gate), f.gate.closed
	}
	if s.Loading = f.loading; f.loading {
		return s, nil
	}
	largest := map[string]int64{}
	for h := range f.table.All() {
		for _, r := range h.Resources {
			largest[r.Class] = max(largest[r.Class], min(r.Capacity, r.MaxUnit))
		}
		s.Traits = append(s.Traits, h.Traits...)
		zoned := false
		for _, a := range h.Aggregates {
			s.Aggregates, s.Tenants = append(s.Aggregates, a.UUID), append(s.Tenants, schedule.TenantsOf(&a)...)
			if z := a.Metadata["availability_zone"]; z != "" {
				s.AvailabilityZones, zoned = append(s.AvailabilityZones, z), true
			}
		}
		s.HasUnzonedHosts = s.HasUnzonedHosts || !zoned
	}
	for class, n := range largest {
		s.Largest = append(s.Largest, &cellv1.MaxUnit{ResourceClass: class, Amount: n})
	}
	return s, nil
}

// zoneOf gives the zone that a host's aggregates name; "" for none.
func zoneOf(h schedule.Host) string {
	for _, a := range h.Aggregates {
		if z := a.Metadata["availability_zone"]; z != "" {
			return z
		}
	}
	return ""
}
