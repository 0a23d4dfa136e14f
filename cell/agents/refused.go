package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// A host whose newest state is refused stays in service on its last accepted state, on two conditions:
// the shard has that state from the same agent incarnation, and the agent judges the claims made on the
// host, since it knows what the cell does not. The refusal names the version that the shard has, and
// the agent's heartbeats name it in turn (docs/adr/0023). On such a host, mismatches that only a report
// shows are neither found nor repaired.

// refusal is the newest state that a stream's agent reported, if that state was refused and none was
// accepted on the stream since. It is immutable.
type refusal struct {
	host  string
	state *agentv1.FullState
	// since is the time of the first refusal since a state was last accepted.
	since    time.Time
	problems []string
	// held is the registration that the shard has of the agent's incarnation and that heartbeats must
	// name. It is zero if the host does not stay in service.
	held shard.Registration
}

// keepsHost reports whether heartbeats keep the host up.
func (f *refusal) keepsHost() bool { return f != nil && f.held.StateVersion > 0 }

// isNamedBy reports whether a heartbeat is of the state that is held.
func (f *refusal) isNamedBy(b *agentv1.Heartbeat) bool {
	return f.keepsHost() && strings.EqualFold(b.GetBootId(), f.held.BootID) && b.GetVersion() == f.held.StateVersion
}

// text describes the refusal for people.
func (f *refusal) text() string {
	stays := "nothing of this incarnation of its agent is held that could keep it in service: its heartbeats do not count"
	if f.keepsHost() {
		stays = fmt.Sprintf("version %d is held, and heartbeats that name it keep it in service", f.held.StateVersion)
	}
	return fmt.Sprintf("version %d of its state is refused: %s; %s", f.state.GetVersion(), strings.Join(f.problems, ", "), stays)
}

// refusedWhole answers a full state that breaks a rule, and records the refusal if the sender may
// report the host. The host stays in service if the shard has a state of the same agent incarnation,
// the agent judges claims, and its verdicts count.
func (t *registration) refusedWhole(ctx context.Context, in *agentv1.FullState, err error) result {
	m := t.refused(in.GetBootId(), in.GetVersion(), err)
	out := result{reply: m}
	if fault.KindOf(err) != fault.InvalidRequest || !rpc.IsUUID(in.GetHostUuid()) || !rpc.IsUUID(in.GetBootId()) {
		return out
	}
	host, boot := strings.ToLower(in.GetHostUuid()), strings.ToLower(in.GetBootId())
	row := t.rows.Host(host)
	if row == nil || row.Host == nil || t.host != "" && t.host != host || security.MayReport(ctx, row.Host.ServiceHost) != nil {
		return out
	}
	out.refusal = &refusal{host: host, state: in, since: t.now(), problems: m.GetRefused().GetProblems()}
	if in.GetVerifies() && t.cfg.VerifyMode != VerifyShadow && !row.Host.Imported && row.Host.BootID == boot && !t.Streams.superseded(host, t.opened, boot) {
		out.refusal.held = row.Host.Registration()
		m.GetRefused().HeldVersion, m.GetRefused().HeartbeatEvery = row.Host.StateVersion, durationpb.New(t.cfg.HeartbeatEvery)
	}
	return out
}

// setRefusal notes that the stream's newest state was refused.
func (a *stream) setRefusal(f *refusal) {
	if a.refusal != nil {
		f.since = a.refusal.since
		if a.refusal.host != f.host {
			a.refusals.forget(a, a.refusal.host)
		}
	}
	a.refusal = f
	a.refusals.note(a, f)
}

// endRefusal notes that a state was accepted on the stream, or that it ended.
func (a *stream) endRefusal() {
	if a.refusal != nil {
		a.refusals.forget(a, a.refusal.host)
		a.refusal = nil
	}
}

// acceptsHeartbeat reports whether a heartbeat names the held state while the newest state is refused.
// If no state was accepted on the stream yet, such a heartbeat binds the stream to the host.
func (a *stream) acceptsHeartbeat(b *agentv1.Heartbeat) bool {
	if !a.refusal.isNamedBy(b) {
		return false
	}
	if a.host == "" {
		a.host = a.refusal.host
		a.lastReport.Store(&reportSummary{Registration: a.refusal.held, serviceHost: a.rows.ServiceHost(a.host), follows: a.refusal.state.GetFollow()})
		a.Streams.add(a.host, a)
	}
	return true
}

// newest is the newest state that the agent reported, accepted or not.
func (a *stream) newest() *agentv1.FullState {
	if a.refusal != nil {
		return a.refusal.state
	}
	return a.held
}

// refusals are the current refusals by host and stream. The zero value is ready.
type refusals struct {
	mu     sync.Mutex
	byHost map[string]map[*stream]*refusal
}

func (r *refusals) note(a *stream, f *refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byHost == nil {
		r.byHost = map[string]map[*stream]*refusal{}
	}
	if r.byHost[f.host] == nil {
		r.byHost[f.host] = map[*stream]*refusal{}
	}
	r.byHost[f.host][a] = f
}

func (r *refusals) forget(a *stream, host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byHost[host], a)
	if len(r.byHost[host]) == 0 {
		delete(r.byHost, host)
	}
}

// newest returns the refusal on the stream of a host that was opened last, and that stream's number;
// nil and 0 for none.
func (r *refusals) newest(host string) (f *refusal, opened uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a, other := range r.byHost[host] {
		if a.opened >= opened {
			f, opened = other, a.opened
		}
	}
	return f, opened
}

// RefusalOf returns the refusal of a host's newest state at this replica. It is nil if there is none,
// or if a later stream is active for the host.
func (c *Service) RefusalOf(host string) *refusal {
	f, opened := c.refusals.newest(host)
	if f == nil || c.Streams.activeSince(host) > opened {
		return nil
	}
	return f
}

// RefusedMessage converts a refusal for operators.
func RefusedMessage(f *refusal) *cellgatev1.RefusedState {
	if f == nil {
		return nil
	}
	return &cellgatev1.RefusedState{Since: timestamppb.New(f.since), Version: f.state.GetVersion(), Problems: f.problems, Stays: f.keepsHost()}
}

// RefusedState returns the finding that a host's newest state is refused here; nil if it is not.
func (s *Service) RefusedState(row *replica.HostRow) *cellgatev1.Finding {
	if row == nil || row.Host == nil {
		return nil
	}
	f := s.RefusalOf(row.Host.UUID)
	if f == nil {
		return nil
	}
	return &cellgatev1.Finding{
		Kind: cellgatev1.Finding_STATE_REFUSED, HostUuid: row.Host.UUID, ServiceHost: row.Host.ServiceHost,
		Detail: f.text(), Since: timestamppb.New(f.since),
	}
}

// refused builds the message that refuses a state and names what is wrong. If the state came as a
// delta, the fields are those of the resulting state.
func (c *Service) refused(boot string, version uint64, err error) *agentv1.ReportResponse {
	out := &agentv1.Refused{BootId: boot, Version: version, Reason: string(fault.KindOf(err)), Cell: c.cfg.Cell}
	var f *fault.Error
	if errors.As(err, &f) {
		for _, field := range f.Fields {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %s", field.Path, field.Problem))
		}
		if len(f.Fields) == 0 {
			out.Problems = []string{f.Message}
		}
	}
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Refused{Refused: out}}
}
