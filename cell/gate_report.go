package cell

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// maxAwaited is how many awaited claims an answer has at most.
	maxAwaited = 10_000
	// awaitedFor is how long a claim is awaited after it was confirmed: a compute writes
	// its row once a minute, so by then the instance shows, or it is not on its host. The
	// shard keeps what it holds either way.
	awaitedFor = 5 * time.Minute
)

// ReportLegacy takes what a gateway sees of Nova's tables, moves the gate by it, unless
// it only looks, and answers with the gate as it is then. Any replica may be asked.
func (s *scheduler) ReportLegacy(ctx context.Context, req *cellv1.ReportLegacyRequest) (*cellv1.ReportLegacyResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if err := s.placing(); err != nil {
		return nil, err
	}
	if err := s.journal.caughtUp(ctx); err != nil {
		return nil, err
	}
	out := &cellv1.ReportLegacyResponse{}
	move := !req.GetLook()
	if move {
		report := reportOf(req)
		s.readBy(&report)
		out.SendServices = !s.gate.heard(report, req.GetRevision(), req.GetUnchanged())
		move = !out.SendServices
	}
	var imported time.Time
	if age := req.GetImportedAge(); age != nil && req.GetImporter() && s.gate.imports(req.GetGateway()) {
		now, err := s.store.Now(ctx)
		if err != nil {
			return nil, storeFault(err)
		}
		imported = now.Add(-max(0, age.AsDuration()))
	}
	g, v, err := s.judged(ctx, move, imported)
	if err != nil {
		return nil, err
	}
	out.Gate = s.gateMessage(g, v)
	if req.GetImporter() && s.mayImport(req, g) {
		out.ImportFor = durationpb.New(importLease)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, storeFault(err)
	}
	awaited, cut := s.rows.awaitedClaims(maxAwaited, now.Add(-awaitedFor))
	out.AwaitedCut = cut
	for _, c := range awaited {
		out.Awaited = append(out.Awaited, &cellv1.AwaitedClaim{
			ClaimId: c.ClaimID, ConsumerUuid: c.ConsumerUUID, HostUuid: c.HostUUID, MovesClaimId: c.Moves,
			Allocations: claimOf(s.cfg.Name, c).GetAllocations(),
		})
	}
	if req.GetLook() {
		for _, c := range s.rows.unseenClaims(maxAwaited) {
			out.WithoutInstance = append(out.WithoutInstance, &cellv1.AwaitedClaim{ClaimId: c.ClaimID, ConsumerUuid: c.ConsumerUUID, HostUuid: c.HostUUID})
		}
	}
	return out, nil
}

func reportOf(req *cellv1.ReportLegacyRequest) legacyReport {
	r := legacyReport{
		gateway: req.GetGateway(), name: req.GetGatewayName(), unreadable: req.GetUnreadable(), required: req.GetRequiredVersion(),
		unclaimed: unclaimedOf(req.GetUnclaimed()),
	}
	if req.GetServiceDownTime() != nil {
		r.downTime = req.GetServiceDownTime().AsDuration()
	}
	if req.GetReadTo() != nil {
		r.readTo = req.GetReadTo().AsTime()
	}
	r.services, r.old = servicesOf(req.GetServices()), servicesOf(req.GetOld())
	return r
}

func servicesOf(all []*cellv1.LegacyService) (services []legacyService) {
	for _, in := range all {
		one := legacyService{
			host: in.GetHost(), version: in.GetVersion(), disabled: in.GetDisabled(), forcedDown: in.GetForcedDown(), up: in.GetUp(),
			reason: in.GetDisabledReason(),
		}
		if in.GetLastSeen() != nil {
			one.lastSeen = in.GetLastSeen().AsTime()
		}
		if in.GetChangedAt() != nil {
			one.changedAt = in.GetChangedAt().AsTime()
		}
		for _, uuid := range in.GetNodeUuids() {
			one.nodes = append(one.nodes, strings.ToLower(uuid))
		}
		for _, uuid := range in.GetLeftOutUuids() {
			one.leftOut = append(one.leftOut, strings.ToLower(uuid))
		}
		services = append(services, one)
	}
	return services
}

var gateStates = []shard.GateState{"", shard.GateLegacy, shard.GateShadow, shard.GateNative}

func shardState(s cellgatev1.Gate_State) shard.GateState { return gateStates[s] }

// gateStateOf is the state of a gate; unspecified for none.
func gateStateOf(g *shard.Gate) cellgatev1.Gate_State {
	if g == nil {
		return cellgatev1.Gate_STATE_UNSPECIFIED
	}
	return messageState(g.State)
}

func messageState(s shard.GateState) cellgatev1.Gate_State {
	return cellgatev1.Gate_State(max(0, slices.Index(gateStates, s)))
}

// gateMessage is the gate with all that there is to say of it; nil for none.
func (c *Cell) gateMessage(g *shard.Gate, v verdict) *cellgatev1.Gate {
	if g == nil {
		return nil
	}
	out := &cellgatev1.Gate{
		State: messageState(g.State), Epoch: g.Epoch, Since: timeOf(g.Since), Reason: g.Reason,
		Pin: messageState(g.Pin), PinReason: g.PinReason, WaitsFor: v.waitsFor, LaggingHosts: int32(v.laggingHosts),
		Services: int32(v.services), MinVersion: v.minVersion, RequiredVersion: v.required,
		Registered: int32(v.registered), Hosts: int32(v.hosts),
	}
	for _, l := range v.lagging {
		m := &cellgatev1.LaggingHost{Host: l.host, ServiceVersion: l.service, AgentVersion: l.agent, Reason: l.reason}
		if !l.lastSeen.IsZero() {
			m.LastSeen = timestamppb.New(l.lastSeen)
		}
		out.Lagging = append(out.Lagging, m)
	}
	out.DifferingHosts, out.HostDifferences = int32(v.differingHosts), v.differing
	if !g.RowsAt.IsZero() {
		out.RowsAt = timestamppb.New(g.RowsAt)
	}
	out.Readers = c.gate.readersMessage()
	return out
}
