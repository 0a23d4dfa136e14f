package cell

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// delta sends a delta and gives the answer.
func (a *testAgent) delta(d *agentv1.Delta) *agentv1.ReportResponse {
	a.t.Helper()
	if d.BootId == "" {
		d.BootId = bootA
	}
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Delta{Delta: d}}); err != nil {
		a.t.Fatal(err)
	}
	m, err := a.stream.Recv()
	if err != nil {
		a.t.Fatal(err)
	}
	return m
}

func TestADeltaIsTakenAsItsState(t *testing.T) {
	r := start(t, newStore(t))
	a := r.agent()
	a.report(plainState(1, 8))
	one := &agentv1.Instance{InstanceUuid: consumerUUID(1), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", 6)}}
	if m := a.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, Instances: []*agentv1.Instance{one}}); m.GetAccepted().GetVersion() != 2 {
		t.Fatalf("an instance more: %v", m)
	}
	if p := r.propose(query(3)); p.GetPassed() != 0 {
		t.Errorf("the instance is not counted: %v", p)
	}
	if m := a.delta(&agentv1.Delta{BaseVersion: 2, Version: 5, RemovedInstances: []string{consumerUUID(1)}, Disabled: proto.Bool(true)}); m.GetAccepted().GetVersion() != 5 {
		t.Fatalf("an instance less: %v", m)
	}
	if h := r.cell.rows.Host(hostUUID(1)).Host; !h.Disabled || h.StateVersion != 5 || h.Providers[0].Inventories[0].Total != 8 {
		t.Errorf("the row is %+v", h)
	}
	// A heartbeat names the state that the delta led to.
	a.last = &agentv1.FullState{BootId: bootA, Version: 5}
	a.heartbeat()
	if m := a.delta(&agentv1.Delta{BaseVersion: 5, Version: 6, Disabled: proto.Bool(false)}); m.GetAccepted().GetVersion() != 6 {
		t.Errorf("the answer after a heartbeat: %v", m)
	}
}

// A heartbeat may name a state that is still being accepted, as after a Resync that crossed it. The
// agent then gets only the answer to that state. For any other unknown state it gets a Resync.
func TestAHeartbeatOfAStateThatIsNotHeldIsNoRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var held atomic.Bool
		r := start(t, &shardtest.Faulty{Store: newStore(t), Before: func(_ context.Context, c shardtest.Call) error {
			if c.Name == "Apply" && held.Load() {
				<-free
			}
			return nil
		}})
		a := r.register(plainState(1, 8))
		held.Store(true)
		next := plainState(1, 6)
		next.Version = 2
		if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: next}}); err != nil {
			t.Fatal(err)
		}
		a.last = next
		synctest.Wait() // the state is being accepted
		a.heartbeat()
		synctest.Wait()
		close(free)
		if m, err := a.stream.Recv(); err != nil || m.GetAccepted().GetVersion() != 2 {
			t.Fatalf("the answer to the state is %v, %v", m, err)
		}
		a.last = &agentv1.FullState{BootId: bootA, Version: 7}
		a.heartbeat()
		if m, err := a.stream.Recv(); err != nil || m.GetResync() == nil {
			t.Fatalf("a heartbeat of version 7 is answered %v, %v", m, err)
		}
	})
}

// A delta that does not fit is answered with a Resync. The accepted state stays.
func TestADeltaThatDoesNotFitIsAnsweredResync(t *testing.T) {
	store := newStore(t)
	r := start(t, store)
	none := r.agent()
	if m := none.delta(&agentv1.Delta{BaseVersion: 1, Version: 2}); m.GetResync() == nil {
		t.Errorf("before any state: %v", m)
	}
	a := r.register(plainState(1, 8))
	for why, d := range map[string]*agentv1.Delta{
		"version 1 is held, and version 2 is changed": {BaseVersion: 2, Version: 3},
		"a state of boot_id " + bootA + " is held":    {BootId: consumerUUID(9), BaseVersion: 1, Version: 2},
	} {
		if m := a.delta(d); m.GetResync().GetReason() != why || m.GetResync().GetWithin().AsDuration() != 0 {
			t.Errorf("%v, want: %s", m, why)
		}
	}
	if m := a.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, IoWorkload: proto.Int32(1)}); m.GetAccepted() == nil {
		t.Errorf("one that fits: %v", m)
	}
}

func TestARefusedDeltaLeavesTheHeldState(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(1, 8))
	for _, wrong := range []struct {
		delta   *agentv1.Delta
		problem string
	}{
		{&agentv1.Delta{BaseVersion: 1, Version: 2, IoWorkload: proto.Int32(-1)}, "io_workload: "},
		{&agentv1.Delta{BaseVersion: 1, Version: 2, RemovedInstances: []string{consumerUUID(1)}}, "removed_instances[0]: "},
		{&agentv1.Delta{BaseVersion: 1, Version: 2, RemovedProviders: []string{hostUUID(1)}}, "providers: would have 0 items"},
		{&agentv1.Delta{BaseVersion: 1, Version: 2, Instances: []*agentv1.Instance{
			{InstanceUuid: consumerUUID(1), Usages: []*agentv1.Usage{usage(hostUUID(1), "VGPU", 1)}},
		}}, "instances[0].usages[0]"},
	} {
		m := a.delta(wrong.delta).GetRefused()
		if m.GetVersion() != 2 || m.GetReason() != string(fault.InvalidRequest) || len(m.GetProblems()) != 1 || !strings.HasPrefix(m.GetProblems()[0], wrong.problem) {
			t.Errorf("%v, want %s", m, wrong.problem)
		}
	}
	if m := a.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, IoWorkload: proto.Int32(1)}); m.GetAccepted() == nil {
		t.Errorf("one that fits what is held: %v", m)
	}
}

// writesOf counts the journal entries that write the given version of host 1.
func writesOf(t *testing.T, store shard.Store, version uint64) (n int) {
	t.Helper()
	entries, _, err := store.Tail(t.Context(), nil, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		for _, c := range e.Changes {
			if c.Host != nil && c.Host.UUID == hostUUID(1) && c.Host.StateVersion == version {
				n++
			}
		}
	}
	return n
}

// applied counts the transactions that put hosts.
func applied(store *testStore) func() int {
	var n atomic.Int32
	store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
		for _, op := range ops {
			if op.PutHost != nil {
				n.Add(1)
			}
		}
		return commit()
	})
	return func() int { return int(n.Load()) }
}

// If two replicas have a stream of a host, only the replica that the agent asked writes the state.
// The other one reads it from the journal.
func TestAStateIsWrittenByTheReplicaThatIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1")), start(t, store, named("r2"))
		a, b := one.register(plainState(1, 8)), two.register(plainState(1, 8))
		puts := applied(store)
		answers := make(chan *agentv1.ReportResponse)
		go func() {
			answers <- b.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, Follow: true, Disabled: proto.Bool(true)})
		}()
		synctest.Wait()
		select {
		case m := <-answers:
			t.Fatalf("before anybody wrote it: %v", m)
		default:
		}
		if m := a.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, Disabled: proto.Bool(true)}); m.GetAccepted() == nil {
			t.Fatalf("the writing replica: %v", m)
		}
		began := time.Now()
		if m := <-answers; m.GetAccepted().GetVersion() != 2 {
			t.Errorf("the other one: %v", m)
		}
		if late := time.Since(began); late >= time.Second {
			t.Errorf("the other one answered %v later", late)
		}
		if p := two.propose(query(1)); p.GetPassed() != 0 {
			t.Errorf("the other one's table does not show it: %v", p)
		}
		if n := writesOf(t, store, 2); n != 1 || puts() != 1 {
			t.Errorf("written %d times, in %d operations", n, puts())
		}
	})
}

// If the replica that was asked dies before it writes, the other one writes.
func TestAStateThatNobodyWroteIsWrittenByWhoFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one, two := start(t, store, named("r1")), start(t, store, named("r2"))
		one.register(plainState(1, 8))
		b := two.register(plainState(1, 8))
		one.stop()
		began := time.Now()
		if m := b.delta(&agentv1.Delta{BaseVersion: 1, Version: 2, Follow: true, Disabled: proto.Bool(true)}); m.GetAccepted().GetVersion() != 2 {
			t.Fatalf("answered %v", m)
		}
		if took := time.Since(began); took < time.Second || took > 1600*time.Millisecond {
			t.Errorf("it waited %v", took)
		}
		if n := writesOf(t, store, 2); n != 1 {
			t.Errorf("written %d times", n)
		}
	})
}

// A stream continues while one of its states is being accepted.
func TestAStreamGoesOnWhileAStateIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		a := r.register(plainState(1, 8))
		send := func(d *agentv1.Delta) {
			d.BootId = bootA
			if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Delta{Delta: d}}); err != nil {
				t.Fatal(err)
			}
		}
		send(&agentv1.Delta{BaseVersion: 1, Version: 2, Follow: true, IoWorkload: proto.Int32(1)})
		send(&agentv1.Delta{BaseVersion: 2, Version: 3, IoWorkload: proto.Int32(2)})
		synctest.Wait()
		if !r.cell.agents.Streams.Send(hostUUID(1), &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{Epoch: 7}}}) {
			t.Fatal("nothing could be told")
		}
		var got []any
		for range 3 {
			m, err := a.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if e := m.GetResync().GetEpoch(); e > 0 {
				got = append(got, e)
			} else {
				got = append(got, m.GetAccepted().GetVersion())
			}
		}
		if got[0] != uint64(7) || got[1] != uint64(2) || got[2] != uint64(3) {
			t.Errorf("answered %v, want the message, then versions 2 and 3", got)
		}
	})
}

// If more agents register at once than the queue has room for, they wait. None is refused.
func TestAgentsThatComeAtOnceAreNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 40
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.MaxQueue = 4 })
		open := make(chan struct{})
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			<-open
			return commit()
		})
		answers := make(chan *agentv1.ReportResponse)
		for n := range hosts {
			a := r.agent()
			go func() { answers <- a.report(plainState(n+1, 8)) }()
		}
		synctest.Wait()
		if _, waiting := r.cell.queue.Waiting(); waiting > 4 {
			t.Errorf("%d wait in the queue", waiting)
		}
		close(open)
		for range hosts {
			if m := <-answers; m.GetAccepted() == nil {
				t.Errorf("answered %v", m)
			}
		}
	})
}
