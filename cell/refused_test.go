package cell

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/agents"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const stateRefused = cellgatev1.Finding_STATE_REFUSED

// implausible changes a state so that every cell refuses it.
func implausible(s *agentv1.FullState) *agentv1.FullState {
	s.Facts = &agentv1.Facts{CpuInfo: "["}
	return s
}

// breaks makes the machine report a state that its cell refuses.
func (m *machine) breaks() {
	m.host.Put(implausible(m.state()))
	calm()
}

// answerTo sends a message and returns its answer. It skips messages about claims.
func (a *testAgent) answerTo(m *agentv1.ReportRequest) *agentv1.ReportResponse {
	a.t.Helper()
	if err := a.stream.Send(m); err != nil {
		a.t.Fatal(err)
	}
	for {
		got, err := a.stream.Recv()
		if err != nil {
			a.t.Fatal(err)
		}
		if got.GetClaimSet() == nil {
			return got
		}
	}
}

func wholeState(s *agentv1.FullState) *agentv1.ReportRequest {
	return &agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}
}

func deltaFrom(base, version uint64) *agentv1.ReportRequest {
	return &agentv1.ReportRequest{Message: &agentv1.ReportRequest_Delta{Delta: &agentv1.Delta{BootId: bootA, BaseVersion: base, Version: version}}}
}

// shown returns host 1 as its replica lists it.
func (r *testCell) shown() *cellgatev1.Host {
	r.t.Helper()
	out, err := r.cells.ListHosts(context.Background(), &cellv1.ListHostsRequest{HostUuid: hostUUID(1)})
	if err != nil || len(out.GetHosts()) != 1 {
		r.t.Fatalf("hosts: %v, %v", out, err)
	}
	return out.GetHosts()[0]
}

// A host whose newer state is refused stays up on its last accepted state. The refusal is shown
// everywhere, and the agent judges claims by its newer state. The next accepted state ends the
// refusal.
func TestAHostWhoseNewerStateIsRefusedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		m := boot(t, 1, 8, r)
		m.runs[1] = 6
		m.breaks()
		since := time.Now()
		time.Sleep(20 * time.Minute)
		if p := r.propose(query(8)); p.GetPassed() != 1 {
			t.Fatalf("the host is not proposed: %v", p)
		}
		h := r.shown()
		if ref := h.GetRefused(); !h.GetUp() || !ref.GetStays() || ref.GetVersion() != 2 || since.Sub(ref.GetSince().AsTime()) > 2*time.Second ||
			len(ref.GetProblems()) != 1 || ref.GetProblems()[0] != "facts.cpu_info: must be a JSON object" {
			t.Errorf("the host is shown as %v", h)
		}
		f := r.stand(stateRefused)[0]
		if f.GetSince().AsTime() != h.GetRefused().GetSince().AsTime() || !strings.Contains(f.GetDetail(), "facts.cpu_info") || !strings.Contains(f.GetDetail(), "version 1 is held") {
			t.Errorf("found %v", f)
		}
		if v := r.cell.rows.Host(hostUUID(1)).Host.StateVersion; v != 1 {
			t.Errorf("the row is of version %d: the agent was asked for its state", v)
		}
		// The agent knows of an instance that no accepted report has.
		r.must(newClaim("k1", 400, 1, 4), newClaim("k2", 401, 1, 2))
		calm()
		if a, b := r.claimNow("k1").GetVerdict(), r.claimNow("k2").GetVerdict(); a.GetReason() != "NO_ROOM" || b.GetReason() != "" {
			t.Errorf("the verdicts are %v and %v", a, b)
		}
		r.must(release("k1", 400), release("k2", 401))
		m.run(1, 5)
		if h := r.shown(); h.GetRefused() != nil || !h.GetUp() {
			t.Errorf("once a state is accepted the host is shown as %v", h)
		}
		time.Sleep(found)
		r.stand()
		m.breaks()
		m.stop()
		time.Sleep(2 * r.cell.cfg.ServiceDownTime)
		if r.shown().GetUp() {
			t.Error("a host whose agent is gone is up")
		}
		r.stand()
	})
}

// A replica that starts while the state is refused goes by the row of the shard, and offers
// the host its claims.
func TestARefusedHostStaysAtAReplicaThatStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		first := start(t, store, soon)
		m := boot(t, 1, 8, first)
		m.breaks()
		first.stop()
		m.stop()
		second := start(t, store, soon)
		m.replicas = []*testCell{second}
		m.resume()
		m.breaks() // a later version, which is not in the row
		time.Sleep(10 * time.Minute)
		if p := second.propose(query(8)); p.GetPassed() != 1 {
			t.Fatalf("the host is not proposed: %v", p)
		}
		second.stand(stateRefused)
		second.must(newClaim("k1", 400, 1, 2))
		calm()
		if v := second.cell.agents.Verify.VerdictOn("k1"); v.GetBootId() != m.bootID() {
			t.Error("the claim was not offered to the agent")
		}
	})
}

// If the cell holds no state of this incarnation, or nobody judges the host's claims, the host is
// down as if its agent were silent. Its finding shows why.
func TestARefusedHostThatIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		mode  agents.VerifyMode
		state func(*agentv1.FullState)
	}{
		"another incarnation":   {agents.VerifyAsync, func(s *agentv1.FullState) { s.BootId = consumerUUID(77) }},
		"claims are not judged": {agents.VerifyAsync, func(s *agentv1.FullState) { s.Verifies = false }},
		"verdicts do not count": {agents.VerifyShadow, func(*agentv1.FullState) {}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, newStore(t), soon, mode(c.mode))
				before := plainState(1, 8)
				before.Verifies = true
				a := r.register(before)
				next := implausible(plainState(1, 8))
				next.Version, next.Verifies = 2, true
				c.state(next)
				if m := a.answerTo(wholeState(next)).GetRefused(); m.GetVersion() != 2 || m.GetHeldVersion() != 0 {
					t.Fatalf("refused %v", m)
				}
				a.last = before
				for range 10 {
					a.heartbeat() // with a version that the refusal did not name
					time.Sleep(r.cell.cfg.HeartbeatEvery)
				}
				if r.shown().GetUp() || r.shown().GetRefused().GetStays() {
					t.Errorf("the host is %v", r.shown())
				}
				if f := r.stand(stateRefused)[0]; !strings.Contains(f.GetDetail(), "nothing of this incarnation") {
					t.Errorf("found %v", f)
				}
			})
		})
	}
}

// An old agent ignores the held version and keeps sending its refused state. That does not count as
// a heartbeat, so the host goes down.
func TestAnAgentOfBeforeWhoseStateIsRefusedIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		s := plainState(1, 8)
		s.Verifies = true
		a := r.register(s)
		for n := range 3 {
			next := implausible(plainState(1, 8))
			next.Version, next.Verifies = uint64(n)+2, true
			if m := a.answerTo(wholeState(next)).GetRefused(); m.GetHeldVersion() != 1 || m.GetHeartbeatEvery().AsDuration() != r.cell.cfg.HeartbeatEvery {
				t.Fatalf("refused %v", m)
			}
			time.Sleep(r.cell.cfg.ServiceDownTime * 2 / 3)
		}
		if r.shown().GetUp() {
			t.Error("the host is up")
		}
		// A delta must be based on the held version.
		if m := a.answerTo(deltaFrom(4, 5)); m.GetResync() == nil {
			t.Errorf("a delta to what was refused: %v", m)
		}
		if m := a.answerTo(deltaFrom(1, 5)); m.GetAccepted() == nil {
			t.Errorf("a delta to what is held: %v", m)
		}
		if h := r.shown(); !h.GetUp() || h.GetRefused() != nil {
			t.Errorf("the host is %v", h)
		}
	})
}

// One of two replicas accepts a state, the other refuses it. Neither requests it again, and the row
// is the accepted state.
func TestReplicasThatHoldDifferentVersionsDoNotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		takes, refuses := start(t, store, named("r1"), soon), start(t, store, named("r2"), soon)
		state := func(version uint64) *agentv1.FullState {
			s := plainState(1, 8)
			s.Version, s.Verifies = version, true
			return s
		}
		one, responses := takes.withResponses(state(1))
		calm()
		other := refuses.agent()
		if m := other.report(state(1)); m.GetAccepted() == nil {
			t.Fatalf("version 1: %v", m)
		}
		if m := other.answerTo(wholeState(implausible(state(2)))).GetRefused(); m.GetHeldVersion() != 1 {
			t.Fatalf("refused %v", m)
		}
		other.last = state(1)
		if err := one.stream.Send(wholeState(state(2))); err != nil {
			t.Fatal(err)
		}
		one.last = state(2)
		received := make(chan *agentv1.ReportResponse, 1024)
		go func() {
			defer close(received)
			for {
				m, err := other.stream.Recv()
				if err != nil {
					return
				}
				received <- m
			}
		}()
		for range 20 {
			one.heartbeat()
			other.heartbeat()
			time.Sleep(takes.cell.cfg.HeartbeatEvery)
		}
		for _, m := range append(rest(responses), rest(received)...) {
			if m.GetResync() != nil || m.GetRefused() != nil {
				t.Errorf("told %v", m)
			}
		}
		for _, r := range []*testCell{takes, refuses} {
			if h := r.cell.rows.Host(hostUUID(1)).Host; h.StateVersion != 2 || !r.shown().GetUp() {
				t.Errorf("%s: the row is of version %d, and the host %v", r.cell.cfg.Replica, h.StateVersion, r.shown())
			}
		}
		takes.stand()
		refuses.stand(stateRefused)
	})
}

// The problems of a host's states are logged once, and again when they change. All hosts together
// log one line a second.
func TestReport_StateIsRefusedAgain_LoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := launchLogged(t, newStore(t), slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn})), soon)
		a := r.register(plainState(1, 8))
		noted := func() int { return strings.Count(out.String(), "a host's state was refused") }
		next := func(version uint64, change func(*agentv1.FullState)) {
			s := plainState(1, 8)
			s.Version = version
			change(s)
			if m := a.answerTo(wholeState(s)); m.GetRefused() == nil {
				t.Fatalf("told %v", m)
			}
		}
		odd := func(s *agentv1.FullState) { implausible(s) }
		next(2, odd)
		next(3, odd)
		next(4, odd)
		if n := noted(); n != 1 {
			t.Errorf("the same was said %d times: %s", n, out.String())
		}
		bare := func(s *agentv1.FullState) { s.Nodename = " " }
		next(5, bare)
		if n := noted(); n != 1 {
			t.Errorf("%d lines within a second: %s", n, out.String())
		}
		next(6, odd)
		time.Sleep(time.Second)
		next(7, bare)
		if n := noted(); n != 2 || !strings.Contains(out.String(), "count=3") {
			t.Errorf("two things were said %d times: %s", n, out.String())
		}
	})
}

// The row becomes another incarnation's while this agent's newer state is refused. The agent is
// asked once. Then the cell holds nothing of its incarnation, and the agent counts as silent.
func TestARefusedAgentWhoseRowIsLostIsNotAskedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		m := boot(t, 1, 8, r)
		m.breaks()
		lane, err := store.OpenLane(t.Context(), "r9")
		if err != nil {
			t.Fatal(err)
		}
		row := *r.cell.rows.Host(hostUUID(1)).Host
		row.BootID, row.StateVersion = consumerUUID(77), 1
		if _, err := lane.Apply(t.Context(), []shard.Op{{PutHost: &shard.PutHost{Host: row}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if s, _ := m.host.State(); s.GetVersion() != 3 {
			t.Errorf("the agent was asked %d times", s.GetVersion()-2)
		}
		if h := r.shown(); h.GetUp() || h.GetRefused().GetStays() {
			t.Errorf("the host is %v", h)
		}
	})
}

// A report from before the refusal ends no claim, because the instance may have come back.
func TestARefusedHostsClaimsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon)
		m := boot(t, 1, 8, r)
		r.must(newClaim("k1", 1, 1, 3), confirm("k1", 1))
		m.run(1, 3)
		m.run(1, 0)
		m.runs[1] = 3
		m.breaks()
		time.Sleep(2 * gone)
		if s := claimStateIn(t, store, "k1"); s != shard.Confirmed {
			t.Errorf("the claim of an instance that is there again is %s", s)
		}
		if err := r.cell.agents.InstanceGone("k1"); err == nil {
			t.Error("a gateway is told that the instance is gone")
		}
	})
}

// A stream may name another host before a state of it was accepted. The refusal of the host before does not stay.
func TestRefusal_StreamNamesAnotherHost_EndsWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		for n := range 2 {
			r.register(plainState(n, 8)).cancel()
		}
		synctest.Wait()
		a := r.agent()
		for n := range 2 {
			s := implausible(plainState(n, 8))
			s.Version = 2
			if m := a.report(s); m.GetRefused() == nil {
				t.Fatalf("host %d: %v", n, m)
			}
		}
		a.cancel()
		synctest.Wait()
		for n := range 2 {
			if f := r.cell.agents.RefusalOf(hostUUID(n)); f != nil {
				t.Errorf("a state of host %d counts as refused: %+v", n, f)
			}
		}
	})
}
