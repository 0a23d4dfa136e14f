package gate

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// ReportOf reads a gateway's report.
func ReportOf(req *cellv1.ReportLegacyRequest) Report {
	r := Report{
		Gateway: req.GetGateway(), name: req.GetGatewayName(), unreadable: req.GetUnreadable(), required: req.GetRequiredVersion(),
		downTime: req.GetServiceDownTime().AsDuration(), readTo: instantOf(req.GetReadTo()), unclaimed: unclaimedOf(req.GetUnclaimed()),
	}
	for _, in := range req.GetServices() {
		one := Service{
			Host: in.GetHost(), version: in.GetVersion(), disabled: in.GetDisabled(), forcedDown: in.GetForcedDown(), Up: in.GetUp(),
			reason: in.GetDisabledReason(), lastSeen: instantOf(in.GetLastSeen()),
		}
		for _, uuid := range in.GetNodeUuids() {
			one.Nodes = append(one.Nodes, strings.ToLower(uuid))
		}
		for _, uuid := range in.GetLeftOutUuids() {
			one.leftOut = append(one.leftOut, strings.ToLower(uuid))
		}
		r.Services = append(r.Services, one)
	}
	return r
}

// instantOf is the zero time for none.
func instantOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

var gateStates = []shard.GateState{"", shard.GateLegacy, shard.GateShadow, shard.GateNative}

// StateOf converts a message's state; "" for unspecified.
func StateOf(s cellgatev1.Gate_State) shard.GateState { return gateStates[s] }

// MessageState converts a gate's state; unspecified for no gate.
func MessageState(g *shard.Gate) cellgatev1.Gate_State {
	if g == nil {
		return cellgatev1.Gate_STATE_UNSPECIFIED
	}
	return messageState(g.State)
}

func messageState(s shard.GateState) cellgatev1.Gate_State {
	return cellgatev1.Gate_State(max(0, slices.Index(gateStates, s)))
}

// Message describes the gate and its judgement; nil for no gate.
func (k *Keeper) Message(g *shard.Gate, v Judgement) *cellgatev1.Gate {
	if g == nil {
		return nil
	}
	out := &cellgatev1.Gate{
		State: messageState(g.State), Epoch: g.Epoch, Since: timestamppb.New(g.Since), Reason: g.Reason,
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
	out.Readers = k.readersMessage()
	return out
}
