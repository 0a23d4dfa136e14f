package cell

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

type reportStream = grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]

// Report hears one host until its agent leaves or the replica stops. A bad
// state is refused and the stream stays open for a better one; a message that
// is no state and no heartbeat ends it, and so does a state of another cell's host.
func (s *reports) Report(stream reportStream) error {
	ctx := stream.Context()
	defer s.tel.Stream()()
	select {
	case <-s.ready:
	case <-s.stopping:
		return errStopping()
	case <-ctx.Done():
		return ctx.Err()
	}
	requests := make(chan *agentv1.ReportRequest)
	ended := make(chan error, 1)
	// Ends with the stream, which ends when this handler returns.
	go func() { ended <- receive(stream, requests) }()
	a := &agentSession{Cell: s.Cell, out: make(chan *agentv1.ReportResponse, maxOutbox)}
	defer a.leave()
	for {
		select {
		case m := <-a.out:
			if err := stream.Send(m); err != nil {
				return err
			}
		case <-s.stopping:
			return errStopping()
		case err := <-ended:
			return err
		case m := <-requests:
			reply, err := a.take(ctx, m)
			if err != nil {
				return err
			}
			if reply == nil {
				continue
			}
			if err := stream.Send(reply); err != nil {
				return err
			}
		}
	}
}

// receive hands on the agent's messages until the stream ends; nil when the
// agent ended it.
func receive(stream reportStream, to chan<- *agentv1.ReportRequest) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case to <- m:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// agentSession is what one stream has said so far.
type agentSession struct {
	*Cell
	// host is the uuid of the first state that was accepted; the stream is for
	// this host only. boot and version are of the newest one accepted.
	host    string
	boot    string
	version uint64
	// out has what is to be told the agent besides its answers (sessions.tell).
	out chan *agentv1.ReportResponse
}

// heard notes the host that the stream is for, once its first state is accepted.
func (a *agentSession) heard(host string) {
	if a.host == "" {
		a.host = host
		a.sessions.add(host, a)
	}
	a.live.heard(host)
}

// leave ends what the stream stands for.
func (a *agentSession) leave() {
	if a.host != "" {
		a.sessions.remove(a.host, a)
	}
}

// take answers a message; nil for none. An error ends the stream.
func (a *agentSession) take(ctx context.Context, m *agentv1.ReportRequest) (*agentv1.ReportResponse, error) {
	if state := m.GetFullState(); state != nil {
		return a.takeState(ctx, state)
	}
	if b := m.GetHeartbeat(); b == nil || !rpc.IsUUID(b.GetBootId()) {
		// For what is wrong with it: a heartbeat with a boot_id breaks no rule.
		if err := rpc.Validate(m); err != nil {
			return nil, err
		}
	}
	return a.takeHeartbeat(m.GetHeartbeat()), nil
}

// takeHeartbeat hears the host. An agent whose state is not held is told so, by
// a refusal of that state.
func (a *agentSession) takeHeartbeat(b *agentv1.Heartbeat) *agentv1.ReportResponse {
	if a.host == "" {
		return a.refused(b.GetBootId(), b.GetVersion(), fault.Invalid("heartbeat", "a full state must come first"))
	}
	if row := a.rows.host(a.host); row != nil && row.host != nil && row.host.Imported {
		return a.refused(b.GetBootId(), b.GetVersion(), errImported(row.host.ServiceHost))
	}
	a.live.heard(a.host)
	if !sameUUID(b.GetBootId(), a.boot) || b.GetVersion() != a.version {
		return a.refused(b.GetBootId(), b.GetVersion(), fault.Invalid("heartbeat", "this state is not held; the cell holds version %d of boot_id %s", a.version, a.boot))
	}
	return nil
}

// takeState registers the host. It is accepted once the shard holds the state,
// or a newer one of the same agent life, and this replica's table shows it.
func (a *agentSession) takeState(ctx context.Context, in *agentv1.FullState) (*agentv1.ReportResponse, error) {
	if err := rpc.Validate(in); err != nil {
		return a.refuse(in, err)
	}
	if err := a.takesFrom(in.GetCell()); err != nil {
		a.tel.State(err)
		a.strangers.tell(a.log, a.now(), in, err)
		return nil, err
	}
	put, err := putHostOf(in)
	if err == nil && put.Host.AgentVersion < 1 {
		err = fault.Invalid("agent_version", "must be at least 1: 0 is for hosts that are imported")
	}
	if err != nil {
		return a.refuse(in, err)
	}
	if err := a.mayReport(ctx, &put.Host); err != nil {
		return nil, err
	}
	if a.host != "" && a.host != put.Host.UUID {
		return a.refuse(in, fault.Invalid("host_uuid", "this stream is for host %s", a.host))
	}
	if !a.holds(&put.Host) {
		answers, err := a.pipeline.do(ctx, []shard.Op{{PutHost: put}}, false)
		if err != nil {
			return a.refuse(in, err)
		}
		if err := answers[0].err; err != nil {
			return a.refuse(in, err)
		}
		out := answers[0].outcome
		if out.Refusal != nil {
			return a.refuse(in, fault.New(out.Refusal.Kind, "%s", out.Refusal.Message))
		}
		if out.Conflicts > 0 || out.Overcommitted > 0 {
			a.log.Warn("a host's instances do not fit the shard's claims", "host", put.Host.ServiceHost,
				"claimed_elsewhere", out.Conflicts, "overcommitted", out.Overcommitted, "adopted", out.Adopted)
		}
	}
	a.tel.State(nil)
	a.boot, a.version = put.Host.BootID, put.Host.StateVersion
	a.heard(put.Host.UUID)
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Accepted{Accepted: &agentv1.Accepted{
		BootId: in.GetBootId(), Version: in.GetVersion(), HeartbeatEvery: durationpb.New(a.cfg.HeartbeatEvery),
	}}}, nil
}

// mayReport refuses a state of a host that the caller is not the agent of: by the
// name in it, or by the name the host with that uuid has.
func (a *agentSession) mayReport(ctx context.Context, h *shard.Host) error {
	if err := security.MayReport(ctx, h.ServiceHost); err != nil {
		return err
	}
	if row := a.rows.host(h.UUID); row != nil && row.host != nil {
		return security.MayReport(ctx, row.host.ServiceHost)
	}
	return nil
}

// holds reports whether the table shows this state of the host or a later one
// of the same agent life.
func (a *agentSession) holds(h *shard.Host) bool {
	row := a.rows.host(h.UUID)
	return row != nil && row.host != nil && !row.host.Imported && row.host.BootID == h.BootID && row.host.StateVersion >= h.StateVersion
}

// refuse answers a state that was not taken. Only what the agent may mend or try
// again is an answer; anything else ends the stream.
func (a *agentSession) refuse(in *agentv1.FullState, err error) (*agentv1.ReportResponse, error) {
	a.tel.State(err)
	switch fault.KindOf(err) {
	case fault.InvalidRequest, fault.Overloaded, fault.OutcomeUnknown:
		tell := a.log.Warn
		if fault.KindOf(err) != fault.InvalidRequest {
			tell = a.log.Debug // the agent tries again within seconds
		}
		tell("a host's state was refused", "host", in.GetServiceHost(), "host_uuid", in.GetHostUuid(), "err", err)
		return a.refused(in.GetBootId(), in.GetVersion(), err), nil
	}
	return nil, err
}

func (a *agentSession) refused(boot string, version uint64, err error) *agentv1.ReportResponse {
	out := &agentv1.Refused{BootId: boot, Version: version, Reason: string(fault.KindOf(err)), Cell: a.cfg.Name}
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

// sameUUID compares uuids whatever their letters' case.
func sameUUID(a, b string) bool {
	x, err := schedule.ParseID(a)
	if err != nil {
		return false
	}
	y, err := schedule.ParseID(b)
	return err == nil && x == y
}
