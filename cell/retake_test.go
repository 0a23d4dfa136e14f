package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// rolledBack is host n as Nova's tables have it, whose service is old.
func rolledBack(n int, version uint64, consumers ...int) *cellv1.ImportedHost {
	in := importedState(n, version, consumers...)
	in.Retake = true
	return in
}

// left checks that a host is left to its agent, and gives how long that counts as alive.
func (r *replica) left(in *cellv1.ImportedHost) time.Duration {
	r.t.Helper()
	o := r.importHosts(in)[0]
	wait := o.GetRetakeAfter().AsDuration()
	if !proto.Equal(o, &cellv1.ImportOutcome{LeftToAgent: true, RetakeAfter: durationpb.New(wait)}) || wait <= 0 {
		r.t.Errorf("the outcome is %v; want it left to its agent for a while", o)
	}
	return wait
}

// live keeps an agent alive for a time.
func (a *agent) live(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(10 * time.Second)
		a.heartbeat()
	}
	synctest.Wait()
}

func (r *replica) isImported(n int, want bool) {
	r.t.Helper()
	if row := r.cell.rows.host(hostUUID(n)); row.host.Imported != want {
		r.t.Errorf("host %d is imported: %v, want %v", n, row.host.Imported, want)
	}
}

// with is host n as its agent has it, with instances.
func with(n int, consumers ...int) *agentv1.FullState {
	s := plainState(n, 8)
	for _, c := range consumers {
		s.Instances = append(s.Instances, instanceOn(n, c))
	}
	return s
}

// A host whose service is old is its agent's while that has a stream, and for as long
// as a host may be silent; then it is taken back, once.
func TestAHostIsTakenBackWhenItsAgentIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		a := r.register(with(1, 1, 2))
		for v := range uint64(20) {
			a.live(30 * time.Second)
			r.left(rolledBack(1, 1+v, 1))
		}
		time.Sleep(10 * time.Minute) // a stream without heartbeats: it may be stuck
		r.left(rolledBack(1, 29, 1))
		a.heartbeat()
		synctest.Wait()
		a.cancel()
		synctest.Wait()
		wait := r.left(rolledBack(1, 30, 1))
		time.Sleep(wait - time.Second)
		synctest.Wait()
		if again := r.left(rolledBack(1, 31, 1)); again > time.Second {
			t.Errorf("a second before %v are over, %v are left", wait, again)
		}
		r.isImported(1, false)
		time.Sleep(time.Second)
		synctest.Wait()
		r.imported(importedState(1, 32, 1), &cellv1.ImportOutcome{LeftToAgent: true}) // its service is new
		r.imported(rolledBack(1, 33, 1, 3), &cellv1.ImportOutcome{Retaken: true, Adopted: 1, Released: 1})
		if row := r.cell.rows.host(hostUUID(1)); !row.host.Imported || row.host.AgentVersion != 1 {
			t.Errorf("the host is %+v", row.host)
		}
		r.imported(rolledBack(1, 34, 1, 3), &cellv1.ImportOutcome{Unchanged: true})
		page, err := r.cells.ListHosts(t.Context(), &cellv1.ListHostsRequest{})
		if h := page.GetHosts()[0]; err != nil || !h.GetImported() || h.GetAgentVersion() != 1 || h.GetUp() {
			t.Errorf("it is listed as %v, %v", h, err)
		}
		// The agent comes back, new: the host is its own, and its word on claims counts.
		b := r.register(with(1, 2, 3))
		r.isImported(1, false)
		claims, err := r.cells.ListClaims(t.Context(), &cellv1.ListClaimsRequest{HostUuid: hostUUID(1)})
		if err != nil || len(claims.GetClaims()) != 2 {
			t.Errorf("the host has %v, %v; want instances 2 and 3", claims, err)
		}
		b.live(30 * time.Second)
		r.left(rolledBack(1, 35, 1))
	})
}

// Whatever the cell knew of agents is gone with its process: it takes nothing back
// before it has been deaf to an agent for as long again.
func TestACellThatStartsWaitsForAgentsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(with(1, 1)).cancel()
		time.Sleep(time.Hour)
		r.stop()
		r = start(t, store)
		wait := r.left(rolledBack(1, 1, 1, 2))
		if wait < r.cell.cfg.ServiceDownTime {
			t.Errorf("its agent counts as alive for %v; it may take %v to be heard", wait, r.cell.cfg.ServiceDownTime)
		}
		time.Sleep(wait)
		synctest.Wait()
		r.imported(rolledBack(1, 2, 1, 2), &cellv1.ImportOutcome{Retaken: true, Adopted: 1})
		r.stop()
		r = start(t, store)
		r.imported(rolledBack(1, 3, 1, 2), &cellv1.ImportOutcome{Unchanged: true})
	})
}

// An agent that only another replica hears is known by what that writes, no better. One
// that was taken from by mistake has its host again with its next heartbeat, and is
// given more time.
func TestAnAgentThatAnotherReplicaHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		deaf, hears := start(t, store, named("r1")), start(t, store, named("r2"))
		state := with(1, 1)
		a := hears.register(state)
		for v := range uint64(10) { // what it writes is heard
			a.live(time.Minute)
			state.Version++
			if m := a.report(state); m.GetAccepted() == nil {
				t.Fatal(m)
			}
			time.Sleep(time.Second)
			deaf.left(rolledBack(1, 1+v, 1))
		}
		a.live(30 * time.Second)
		first := deaf.left(rolledBack(1, 20, 1))
		a.live(first + 10*time.Second)
		hears.left(rolledBack(1, 21, 1))
		deaf.imported(rolledBack(1, 22, 1), &cellv1.ImportOutcome{Retaken: true})
		time.Sleep(time.Second)
		a.heartbeat()
		if m, err := a.stream.Recv(); err != nil || m.GetRefused().GetReason() != string(fault.StaleGeneration) || m.GetRefused().GetVersion() != state.GetVersion() {
			t.Fatalf("a heartbeat is answered %v, %v", m, err)
		}
		if m := a.report(state); m.GetAccepted() == nil {
			t.Errorf("the agent's state: %v", m)
		}
		time.Sleep(time.Second)
		deaf.isImported(1, false)
		if second := deaf.left(rolledBack(1, 23, 1)); second < 2*time.Minute {
			t.Errorf("it came back, and counts as alive for %v", second)
		}
		// Gone for good.
		a.cancel()
		time.Sleep(5 * time.Minute)
		deaf.imported(rolledBack(1, 24, 1), &cellv1.ImportOutcome{Retaken: true})
	})
}
