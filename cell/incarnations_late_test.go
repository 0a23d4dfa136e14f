package cell

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/agents"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

const bootB = "bbbbbbbb-0000-4000-8000-000000000002"

// stateOfBoot returns a host's state from an incarnation, whose instances use a VCPU each.
func stateOfBoot(boot string, version uint64, instances ...int) *agentv1.FullState {
	s := plainState(1, 8)
	s.BootId, s.Version = boot, version
	for _, n := range instances {
		s.Instances = append(s.Instances, &agentv1.Instance{
			InstanceUuid: consumerUUID(n), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", 1)},
		})
	}
	return s
}

func (a *testAgent) send(s *agentv1.FullState) {
	a.t.Helper()
	a.last = s
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}); err != nil {
		a.t.Fatal(err)
	}
	calm()
}

// says sends a state as a running agent does: it answers every Resync until its stream ends.
func (r *testCell) says(s *agentv1.FullState) {
	r.t.Helper()
	a := r.agent()
	go func() {
		for {
			m, err := a.stream.Recv()
			if err != nil {
				return
			}
			if q := m.GetResync(); q != nil {
				_ = a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: resaid(s, q)}}) // the stream may have ended
			}
		}
	}()
	a.send(s)
}

func rowsOf(t *testing.T, store shard.Store) *shardtest.Rows {
	t.Helper()
	rows, _, err := shardtest.LoadRows(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// startHeld starts a replica. Calling slow blocks its transactions until goOn is called.
func startHeld(t *testing.T, store shard.Store) (r *testCell, slow func() (goOn func())) {
	var hold atomic.Pointer[chan struct{}]
	r = start(t, &shardtest.Faulty{Store: store, Before: func(_ context.Context, c shardtest.Call) error {
		if until := hold.Load(); c.Name == "Apply" && until != nil {
			<-*until
		}
		return nil
	}}, named("r2"))
	return r, func() func() {
		until := make(chan struct{})
		hold.Store(&until)
		return func() {
			hold.Store(nil)
			close(until)
			calm()
		}
	}
}

// States wait at a replica whose shard is slow, while another replica writes newer states of the
// next incarnation. Neither the dead agent's last state nor an older one of the running agent
// becomes the row. No adopted claim is released.
func TestRegister_StateThatWaitedForTheShard_UndoesNothingOfTheNextIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		fast := start(t, store, named("r1"))
		late, slow := startHeld(t, store)
		dead := late.register(stateOfBoot(bootA, 1))
		calm()
		goOn := slow()
		dead.send(stateOfBoot(bootA, 2))
		late.says(stateOfBoot(bootB, 1, 1))
		fast.says(stateOfBoot(bootB, 1, 1))
		fast.says(stateOfBoot(bootB, 4, 1, 2))
		before := rowsOf(t, store)
		if h := before.Hosts[hostUUID(1)]; h.BootID != bootB || h.StateVersion != 4 || len(before.Claims) != 2 {
			t.Fatalf("before: incarnation %s, version %d, claims %v", h.BootID, h.StateVersion, before.Claims)
		}
		goOn()
		after := rowsOf(t, store)
		if h := after.Hosts[hostUUID(1)]; h.BootID != bootB || h.StateVersion != 4 {
			t.Errorf("the row is of incarnation %s, version %d", h.BootID, h.StateVersion)
		}
		for id := range before.Claims {
			if c := after.Claims[id]; c == nil || !c.State.Live() {
				t.Errorf("claim %s was released", id)
			}
		}
		if len(after.Claims) != 2 {
			t.Errorf("there are %d claims", len(after.Claims))
		}
	})
}

// An agent answers a Resync and dies. Before its answer is written, the next incarnation replaces
// the row that the Resync was based on.
func TestRegister_AnswerThatComesLate_ReplacesNoOtherIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		fast := start(t, store, named("r1"))
		late, slow := startHeld(t, store)
		fast.says(stateOfBoot(bootA, 5))
		goOn := slow()
		a := late.agent()
		q := a.report(stateOfBoot("dddddddd-0000-4000-8000-000000000001", 1)).GetResync()
		if q == nil {
			t.Fatal("the agent was not asked over another incarnation's row")
		}
		a.send(resaid(a.last, q))
		fast.says(stateOfBoot(bootB, 1, 1))
		goOn()
		if h := rowsOf(t, store).Hosts[hostUUID(1)]; h.BootID != bootB {
			t.Errorf("the row is of incarnation %s", h.BootID)
		}
		m, err := a.stream.Recv()
		if err != nil || m.GetResync().GetEpoch() <= q.GetEpoch() {
			t.Fatalf("the agent is told %v, %v; want that it is asked again", m, err)
		}
		// The agent still runs, as with two agents on one host. Its new answer is based on the
		// current row.
		if m := a.report(resaid(a.last, m.GetResync())); m.GetAccepted() == nil {
			t.Errorf("the answer: %v", m)
		}
		if h := rowsOf(t, store).Hosts[hostUUID(1)]; h.BootID != a.last.GetBootId() {
			t.Errorf("the row is of incarnation %s", h.BootID)
		}
		// The Resync allowed one state only.
		fast.says(stateOfBoot(bootB, 2, 1))
		again := proto.CloneOf(a.last)
		again.Version++
		if m := a.report(again); m.GetResync() == nil {
			t.Errorf("the next state, over another row: %v", m)
		}
	})
}

// A replica that follows waits once for the writing replica, and not again for the answer to a
// Resync.
func TestAFollowersAnswerIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(stateOfBoot(bootA, 1)).cancel()
		s := stateOfBoot(bootB, 1)
		s.Follow = true
		a := r.agent()
		q := a.report(s).GetResync()
		began := time.Now()
		if m := a.report(resaid(s, q)); m.GetAccepted() == nil || time.Since(began) >= agents.FollowFor {
			t.Errorf("after %v: %v", time.Since(began), m)
		}
		rowIs(t, bootB, r)
	})
}

// A state that the cell requests at a heartbeat is written over the row that the request named.
func TestWhatARegainingAgentSaysIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		other := r.agent()
		a := r.register(stateOfBoot(bootA, 1))
		time.Sleep(7 * r.cell.cfg.HeartbeatEvery) // silent for so long that another agent may take over
		q := other.report(stateOfBoot(bootB, 1)).GetResync()
		if m := other.report(resaid(other.last, q)); m.GetAccepted() == nil {
			t.Fatalf("the other's state: %v", m)
		}
		rowIs(t, bootB, r)
		other.cancel()
		q = nil
		responses := make(chan *agentv1.ReportResponse, 16)
		go func() {
			for {
				m, err := a.stream.Recv()
				if err != nil {
					return
				}
				responses <- m
			}
		}()
		for range 4 {
			a.heartbeat()
			time.Sleep(r.cell.cfg.HeartbeatEvery)
		}
		for _, m := range rest(responses) {
			if m.GetResync() != nil {
				q = m.GetResync()
			}
		}
		if !q.GetRenew() {
			t.Fatalf("the agent is asked %v", q)
		}
		s := resaid(a.last, q)
		s.Version++
		a.send(s)
		for _, m := range rest(responses) {
			if m.GetAccepted() == nil {
				t.Errorf("the answer: %v", m)
			}
		}
		rowIs(t, bootA, r)
	})
}
