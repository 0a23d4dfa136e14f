package cell

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/agents"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

const hostDiffers = cellgatev1.Finding_HOST_DIFFERS

// rowIs checks which incarnation a host's row is from, in each table.
func rowIs(t *testing.T, boot string, all ...*testCell) {
	t.Helper()
	for _, r := range all {
		if h := r.cell.rows.Host(hostUUID(1)).Host; h.BootID != boot {
			t.Errorf("%s: the row is of incarnation %s, version %d; the host's is %s", r.cell.cfg.Replica, h.BootID, h.StateVersion, boot)
		}
	}
}

func (m *machine) bootID() string {
	s, _ := m.host.State()
	return s.GetBootId()
}

// The last message of a dead agent is read after the host's next agent has reported, on a stream
// that has not ended. No replica writes it. A replica with a stream of the next agent ignores it,
// and any other sends a Resync that nobody answers.
func TestRegister_LateStateOfAnEndedIncarnation_DoesNotStay(t *testing.T) {
	for name, c := range map[string]struct {
		replicas []string
		late     int
		hears    []int
		asks     bool
	}{
		"alone":                       {replicas: []string{"r1"}, hears: []int{0}},
		"at who writes":               {replicas: []string{"r1", "r2"}, hears: []int{0, 1}},
		"at who follows":              {replicas: []string{"r1", "r2"}, late: 1, hears: []int{0, 1}},
		"where the next is not heard": {replicas: []string{"r1", "r2"}, late: 1, hears: []int{0}, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				var all, hear []*testCell
				for _, name := range c.replicas {
					all = append(all, start(t, store, named(name), soon))
				}
				for _, n := range c.hears {
					hear = append(hear, all[n])
				}
				at := all[c.late]
				dead := at.register(plainState(1, 8))
				time.Sleep(2 * time.Second)
				m := boot(t, 1, 8, hear...)
				m.run(1, 2)
				rowIs(t, m.bootID(), all...)
				s := plainState(1, 64)
				s.Version = 2
				s.Instances = []*agentv1.Instance{{InstanceUuid: consumerUUID(9), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", 7)}}}
				if got := dead.report(s); (got.GetResync() != nil) != c.asks || (got.GetAccepted() != nil) == c.asks {
					t.Fatalf("the late state: %v", got)
				}
				calm()
				rowIs(t, m.bootID(), all...)
				for _, r := range all {
					if p := r.propose(query(6)); p.GetPassed() != 1 {
						t.Errorf("%s: the host, of whose 8 VCPU 2 are in use, is not proposed: %v", r.cell.cfg.Replica, p)
					}
					if p := r.propose(query(7)); p.GetPassed() != 0 {
						t.Errorf("%s: the host is as the dead agent said", r.cell.cfg.Replica)
					}
				}
				time.Sleep(found)
				for _, r := range all {
					r.stand()
				}
			})
		})
	}
}

// A replica that cannot read the journal requests no states, because its rows are old.
func TestWhoCannotReadTheJournalAsksNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		var unread atomic.Bool
		var log bytes.Buffer // read when all goroutines are idle
		behind := launchLogged(t, &shardtest.Faulty{Store: store, Before: func(_ context.Context, c shardtest.Call) error {
			if c.Name == "Tail" && unread.Load() {
				return shardtest.Unavailable()
			}
			return nil
		}}, slog.New(slog.NewTextHandler(&log, nil)), named("r1"), soon)
		behind.await(behind.cell.Ready())
		m := boot(t, 1, 8, start(t, store, named("r2"), soon), behind)
		unread.Store(true)
		m.run(1, 2)
		time.Sleep(8 * behind.cell.cfg.HeartbeatEvery)
		synctest.Wait()
		if v := behind.cell.rows.Host(hostUUID(1)).Host.StateVersion; v != 1 {
			t.Errorf("who cannot read the journal has version %d", v)
		}
		if strings.Contains(log.String(), "asked to report anew") {
			t.Errorf("its log is\n%s", log.String())
		}
	})
}

// The newest stream does not represent its host if nothing arrives on it any more.
func TestASilentStreamDoesNotSpeakForItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		m := boot(t, 1, 8, r)
		r.register(plainState(1, 64))
		rowIs(t, bootA, r)
		time.Sleep(7 * r.cell.cfg.HeartbeatEvery)
		rowIs(t, m.bootID(), r)
	})
}

// If two agents of one host run, the newer one's state counts, whatever the older one reports. They
// do not overwrite each other at every heartbeat, and a finding names both. When the newer one
// leaves, the older one gets the host and its offers.
func TestTwoAgentsOfAHostAreFoundAndDoNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, soon, mode(agents.VerifyAsync))
		older := boot(t, 1, 8, r)
		time.Sleep(lookEvery)
		newer := boot(t, 1, 64, r)
		time.Sleep(time.Minute)
		rowIs(t, newer.bootID(), r)
		f := r.stand(hostDiffers)[0]
		for _, boot := range []string{older.bootID(), newer.bootID()} {
			if !strings.Contains(f.GetDetail(), boot) {
				t.Errorf("incarnation %s is not named: %v", boot, f)
			}
		}
		writes := applied(store)
		const times = 360
		for n := range times {
			older.run(n+1, 1)
			older.run(n+1, 0)
			time.Sleep(8 * time.Second)
		}
		// The longest time between two requests is a minute here; the grace is 30 s.
		if n := writes(); n > 2*times+times*10/30+10 {
			t.Errorf("%d states were written, of which %d are the older agent's", n, 2*times)
		}
		r.stand(hostDiffers)
		time.Sleep(2 * time.Minute)
		rowIs(t, newer.bootID(), r)

		newer.stop()
		time.Sleep(time.Minute)
		rowIs(t, older.bootID(), r)
		r.stand()
		if p := r.propose(query(9)); p.GetPassed() != 0 {
			t.Error("the host is as the agent said that left")
		}
		r.must(newClaim("k1", 400, 1, 2))
		calm()
		if v := r.claimNow("k1").GetVerdict(); v.GetOutcome() != "" {
			t.Errorf("the claim's verdict is %v", v)
		}
		if v := r.cell.agents.Verify.VerdictOn("k1"); v.GetBootId() != older.bootID() {
			t.Error("the claim was not offered to the agent that stayed")
		}
	})
}

// A late state of a dead agent does not take the offers away from the running agent.
func TestOffers_AgentReplaced_GoToTheNewAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyAsync))
		dead, responses := r.verifying(1)
		time.Sleep(2 * time.Second)
		m := boot(t, 1, 8, r)
		time.Sleep(time.Minute)
		rest(responses)
		s := plainState(1, 8)
		s.Version, s.Verifies = 2, true
		if err := dead.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}); err != nil {
			t.Fatal(err)
		}
		calm()
		r.must(newClaim("k1", 1, 1, 2))
		calm()
		for _, got := range rest(responses) {
			if got.GetClaimOffer() != nil || got.GetClaimSet() != nil {
				t.Errorf("the dead agent is told %v", got)
			}
		}
		dead.cancel()
		r.must(newClaim("k2", 2, 1, 2))
		time.Sleep(time.Minute)
		for _, id := range []string{"k1", "k2"} {
			if v := r.cell.agents.Verify.VerdictOn(id); v.GetBootId() != m.bootID() {
				t.Errorf("%s has no verdict of the agent that lives", id)
			}
		}
	})
}

// Heartbeats and newer states on the stream that has the offers do not repeat them.
func TestAHeartbeatOffersNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyAsync))
		a, responses := r.verifying(1)
		r.must(newClaim("k1", 1, 1, 2))
		offerIn(t, responses)
		a.says("k1", 0)
		rest(responses)
		for version := range uint64(3) {
			a.heartbeat()
			s := plainState(1, 8)
			s.Version, s.Verifies = 2+version, true
			if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}); err != nil {
				t.Fatal(err)
			}
			calm()
			a.last = s
		}
		a.heartbeat()
		for _, m := range rest(responses) {
			if m.GetAccepted() == nil {
				t.Errorf("the agent is told %v", m)
			}
		}
	})
}

// An agent that reported while a newer one ran is offered claims again when the newer one leaves.
func TestOffersGoToTheAgentThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), mode(agents.VerifyAsync))
		older := boot(t, 1, 8, r)
		time.Sleep(2 * time.Second)
		newer := boot(t, 1, 8, r)
		older.run(1, 1)
		rowIs(t, newer.bootID(), r)
		newer.stop()
		time.Sleep(4 * r.cell.cfg.HeartbeatEvery)
		rowIs(t, older.bootID(), r)
		r.must(newClaim("k1", 2, 1, 2))
		calm()
		if v := r.cell.agents.Verify.VerdictOn("k1"); v.GetBootId() != older.bootID() {
			t.Error("the claim was not offered to the agent that stayed")
		}
	})
}

// A state that waits for the shard while its stream ends is not written.
func TestAStateWhoseStreamHasEndedIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(2, 8))
		calm()
		hold := make(chan struct{})
		var mu sync.Mutex
		var wrote []string
		store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			mu.Lock()
			for _, op := range ops {
				if op.PutHost != nil {
					wrote = append(wrote, op.PutHost.Host.UUID)
				}
			}
			mu.Unlock()
			<-hold
			return commit()
		})
		other := plainState(2, 9)
		other.Version = 2
		held, late := r.agent(), r.agent()
		for _, to := range []struct {
			a *testAgent
			s *agentv1.FullState
		}{{held, other}, {late, plainState(1, 8)}} {
			if err := to.a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: to.s}}); err != nil {
				t.Fatal(err)
			}
			calm()
		}
		late.cancel()
		calm()
		close(hold)
		calm()
		mu.Lock()
		defer mu.Unlock()
		if len(wrote) != 1 || wrote[0] != hostUUID(2) {
			t.Errorf("hosts %v were written, want only the one whose agent waits", wrote)
		}
	})
}
