package agents

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/hoststate"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// registration is one state on its way into the shard, with what the stream had reported before it.
type registration struct {
	*Service
	opened    uint64
	host      string
	held      *agentv1.FullState
	epoch     uint64
	askedOver string
	// refusing is the stream's refusal so far; nil for none.
	refusing *refusal
}

// register registers the state of a message, which is a FullState or a Delta. It waits for
// its turn (Service.AwaitDecoding). A panic ends the stream: the agent would send the same state to the next process.
func (t *registration) register(ctx context.Context, m *agentv1.ReportRequest) (out result) {
	defer func() {
		if p := recover(); p != nil {
			out = result{err: panicked(p)}
		}
	}()
	decoded, err := t.AwaitDecoding(ctx)
	if err != nil {
		return result{err: err}
	}
	defer decoded()
	state := m.GetFullState()
	if d := m.GetDelta(); d != nil {
		if err := validate(d); err != nil {
			return t.refuseDelta(ctx, d, err)
		}
		if why := t.gap(d); why != "" {
			return result{reply: resync(t.epoch, why, 0)}
		}
		internTexts(d.GetProviders(), d.GetInstances(), d.GetAggregates().GetAggregates(), d.GetFacts())
		if state, err = applyDelta(t.held, d); err != nil {
			return t.refuseDelta(ctx, d, err)
		}
	} else if err := validate(state); err != nil {
		return t.refuse(ctx, state, err)
	} else {
		internTexts(state.GetProviders(), state.GetInstances(), state.GetAggregates(), state.GetFacts())
	}
	if state.GetEpoch() < t.epoch {
		return result{reply: resync(t.epoch, "the state is from before the newest Resync", 0)}
	}
	return t.registerState(ctx, state, decoded)
}

// maxDecodingRest bounds the pause after a state: a machine on which decoding takes long, because it is
// busy, still decodes two hundred states a second.
const maxDecodingRest = 5 * time.Millisecond

// AwaitDecoding waits for one of the slots that bound concurrent decoding. The caller frees the slot by
// calling decoded. While the queue is busy, the slot stays taken for eight times as long again, at most
// maxDecodingRest, so that a burst of states leaves processors to selections.
func (s *Service) AwaitDecoding(ctx context.Context) (decoded func(), err error) {
	select {
	case s.Decoding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	began := time.Now()
	return sync.OnceFunc(func() {
		rest := min(8*time.Since(began), maxDecodingRest)
		if rest == 0 || !s.queue.IsBusy() {
			<-s.Decoding
			return
		}
		time.AfterFunc(rest, func() { <-s.Decoding })
	}), nil
}

// gap says why a delta does not apply to the held state; "" if it does.
func (t *registration) gap(d *agentv1.Delta) string {
	switch {
	case t.held == nil:
		return "no state is held on this stream"
	case !strings.EqualFold(d.GetBootId(), t.held.GetBootId()):
		return fmt.Sprintf("a state of boot_id %s is held", t.held.GetBootId())
	case d.GetBaseVersion() != t.held.GetVersion():
		return fmt.Sprintf("version %d is held, and version %d is changed", t.held.GetVersion(), d.GetBaseVersion())
	}
	return ""
}

// registerState registers the host of a state whose fields the schema has checked: those of a full
// state, or those of a delta and of the state before it. The state is accepted once the shard holds it,
// or a newer one of the same agent incarnation, and this replica's table shows it. It is also accepted,
// but not written, while another incarnation is active (Streams.superseded) or Nova's tables report the
// host (shard.Gate). It replaces another incarnation's row only after the agent was asked for it
// because of that row (askedOver). registerState calls decoded before it waits for anything.
func (t *registration) registerState(ctx context.Context, in *agentv1.FullState, decoded func()) result {
	if err := t.CheckCell(in.GetCell()); err != nil {
		t.tel.State(err)
		t.wrongCell.Warn(ctx, "", 1, "an agent of another cell was refused", "host", in.GetServiceHost(), "host_uuid", in.GetHostUuid(), "err", err)
		return result{err: err}
	}
	put, facts, err := ReadHost(in, t.rows.ReadFacts)
	if err == nil && put.Host.AgentVersion < 1 {
		err = fault.Invalid("agent_version", "must be at least 1: 0 is for hosts that are imported")
	}
	if err == nil {
		err = fault.InvalidFields(hoststate.NotPlausible(in, t.held))
	}
	if err != nil {
		return t.refuse(ctx, in, err)
	}
	if err := t.mayReport(ctx, &put.Host); err != nil {
		return result{err: err}
	}
	if t.host != "" && t.host != put.Host.UUID {
		return t.refuse(ctx, in, fault.Invalid("host_uuid", "this stream is for host %s", t.host))
	}
	settle, err := t.admit(ctx, &put.Host)
	if err != nil {
		return t.refuse(ctx, in, err)
	}
	defer settle()
	decoded()
	defer t.rows.ExpectFacts(put.Host.UUID, facts)()
	put.ExpectedBootID = &t.askedOver
	if t.askedOver == "" && t.letsAnotherWrite(put.Host.UUID, in.GetFollow()) {
		t.awaitState(ctx, &put.Host)
	}
	outlived := false
	if !t.holds(&put.Host) {
		if outlived = t.Streams.superseded(put.Host.UUID, t.opened, put.Host.BootID); !outlived {
			other, err := t.write(ctx, put)
			switch {
			case err != nil:
				return t.refuse(ctx, in, err)
			case other != "":
				return result{over: other}
			}
		}
	}
	t.tel.State(nil)
	return result{host: put.Host.UUID, state: in, superseded: outlived, reply: t.accepted(in)}
}

// letsAnotherWrite reports whether another replica should write the state first, as the agent asks.
// Under a gate, a new host is written by the replica that gateways report to.
func (t *registration) letsAnotherWrite(uuid string, follow bool) bool {
	if t.rows.GateRow() == nil || t.hasRow(uuid) {
		return follow
	}
	return !t.gate.HasGateways()
}

// hasRow reports whether the shard has a host, imported or not.
func (s *Service) hasRow(uuid string) bool {
	row := s.rows.Host(uuid)
	return row != nil && row.Host != nil
}

// FollowFor, plus up to half as long again, is how long this replica waits for the replica that the
// agent asked to write a state.
const FollowFor = time.Second

// awaitState waits a little for another replica to write the state of a host.
func (t *registration) awaitState(ctx context.Context, h *shard.Host) {
	// Spread the timeouts, in case the replica that should write the states does not.
	late := time.NewTimer(FollowFor + rand.N(FollowFor/2+1))
	defer late.Stop()
	for {
		changed := t.rows.AwaitHost(h.UUID)
		if t.holds(h) {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// write puts the state into the shard. If the row there is another incarnation's, over which the agent
// was not asked, it returns that incarnation instead. When all agents of a cell report at once, they
// wait here in order of arrival, and none is refused and sends its state again.
func (t *registration) write(ctx context.Context, put *shard.PutHost) (other string, err error) {
	if !t.rows.GateRow().Native() {
		return "", nil // Nova's tables report the host
	}
	if row := t.rows.HostInService(put.Host.UUID); *put.ExpectedBootID == "" && row != nil && !row.Imported && row.BootID != put.Host.BootID {
		return row.BootID, nil
	}
	select {
	case t.states <- struct{}{}:
		defer func() { <-t.states }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	ops := []shard.Op{{PutHost: put}}
	if !t.hasRow(put.Host.UUID) {
		if w := t.gate.StatusOfNewHost(put.Host.UUID); w.State != "" {
			ops = append(ops, shard.Op{SetNovaState: &shard.SetNovaState{HostUUID: put.Host.UUID, State: w.State, Reason: w.Reason}})
			t.log.Warn("a new host is out of service", "host", put.Host.ServiceHost, "host_uuid", put.Host.UUID, "reason", w.Reason)
		}
	}
	answers, err := t.queue.DoAll(ctx, ops)
	if err != nil {
		return "", err
	}
	out := answers[0].Outcome
	if out.CurrentBootID != "" {
		return out.CurrentBootID, nil
	}
	if out.ClaimedElsewhere > 0 || out.Overcommitted > 0 {
		t.log.Warn("a host's instances do not fit the shard's claims", "host", put.Host.ServiceHost,
			"claimed_elsewhere", out.ClaimedElsewhere, "overcommitted", out.Overcommitted, "adopted", out.Adopted)
	}
	return "", nil
}

// mayReport refuses a state if the caller is not the agent of the host, by the name in the state or by
// the name of the host that has this uuid.
func (t *registration) mayReport(ctx context.Context, h *shard.Host) error {
	if err := security.MayReport(ctx, h.ServiceHost); err != nil {
		return err
	}
	if row := t.rows.Host(h.UUID); row != nil && row.Host != nil {
		return security.MayReport(ctx, row.Host.ServiceHost)
	}
	return nil
}

// holds reports whether the table shows this state of the host or a later one
// of the same agent incarnation.
func (t *registration) holds(h *shard.Host) bool {
	row := t.rows.PublishedHost(h.UUID)
	return row != nil && row.Host != nil && !row.Host.Imported && row.Host.BootID == h.BootID && row.Host.StateVersion >= h.StateVersion
}

// accepted is the answer to a state that the shard holds.
func (t *registration) accepted(in *agentv1.FullState) *agentv1.ReportResponse {
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Accepted{Accepted: &agentv1.Accepted{
		BootId: in.GetBootId(), Version: in.GetVersion(), HeartbeatEvery: durationpb.New(t.cfg.HeartbeatEvery),
	}}}
}

// refuse answers a full state that was not accepted. If the agent can correct the state or try again,
// the answer says so; any other error ends the stream.
func (t *registration) refuse(ctx context.Context, in *agentv1.FullState, err error) result {
	t.tel.State(err)
	switch fault.KindOf(err) {
	case fault.InvalidRequest, fault.Overloaded, fault.OutcomeUnknown:
		out := t.refusedWhole(ctx, in, err)
		attrs := []any{"host", in.GetServiceHost(), "host_uuid", in.GetHostUuid(), "err", err}
		isKnown := t.refusing != nil && slices.Equal(t.refusing.problems, out.reply.GetRefused().GetProblems())
		const message = "a host's state was refused"
		if isKnown || fault.KindOf(err) != fault.InvalidRequest { // logged before, or the agent tries again within seconds
			t.log.Debug(message, attrs...)
		} else {
			t.refusedStates.Warn(ctx, "", 1, message, attrs...)
		}
		return out
	}
	return result{err: err}
}

// refuseDelta answers a delta that could not be applied. The agent sends its whole state next.
func (t *registration) refuseDelta(ctx context.Context, d *agentv1.Delta, err error) result {
	in := &agentv1.FullState{
		BootId: d.GetBootId(), Version: d.GetVersion(), HostUuid: t.held.GetHostUuid(), ServiceHost: t.held.GetServiceHost(),
	}
	out := t.refuse(ctx, in, err)
	out.refusal = nil
	return out
}
