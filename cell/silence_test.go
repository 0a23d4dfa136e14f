package cell

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/shard"
)

// beat makes agents send a heartbeat every ten seconds.
func beat(lasts time.Duration, agents ...*testAgent) {
	for range lasts / (10 * time.Second) {
		time.Sleep(10 * time.Second)
		for _, a := range agents {
			a.heartbeat()
		}
	}
	synctest.Wait()
}

// slowly configures a replica that reads the journal as rarely as in production.
func slowly(name string) func(*Config) { return func(c *Config) { c.Replica = name } }

// passing gives the service hosts that are proposed.
func (r *testCell) passing() []string {
	r.t.Helper()
	synctest.Wait()
	out := slices.Clone(r.propose(query(1)).GetCandidates().GetServiceHosts())
	slices.Sort(out)
	return out
}

func (r *testCell) mustPass(when string, hosts ...int) {
	r.t.Helper()
	var want []string
	for _, n := range hosts {
		want = append(want, fmt.Sprintf("host-%05d", n))
	}
	if got := r.passing(); !slices.Equal(got, want) {
		r.t.Errorf("%s %v pass, want %v", when, got, want)
	}
}

// silentRows returns the hosts whose rows are marked silent.
func silentRows(t *testing.T, s shard.Store) []string {
	t.Helper()
	var out []string
	_, err := s.Load(t.Context(), func(c shard.Change) error {
		if c.AdminState.IsSilent() {
			out = append(out, c.AdminState.HostUUID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// silenceWrites collects the transactions that change the silent mark of rows.
type silenceWrites struct {
	mu   sync.Mutex
	each []silenceWrite
}

type silenceWrite struct {
	at             time.Time
	silent, others int
}

func (s *silenceWrites) record(store *testStore) {
	store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
		did, err := commit()
		noted := silenceWrite{at: time.Now()}
		for _, c := range did.Entry.Changes {
			switch {
			case c.AdminState == nil:
			case c.AdminState.Silent:
				noted.silent++
			default:
				noted.others++
			}
		}
		if noted.silent+noted.others > 0 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.each = append(s.each, noted)
		}
		return did, err
	})
}

func (s *silenceWrites) drain() []silenceWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.each
	s.each = nil
	return out
}

func TestI8_AReplicaThatStartsLeavesOutHostsThatWereDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		first := start(t, store)
		loud := first.register(plainState(1, 8))
		first.register(plainState(2, 8))
		first.register(plainState(3, 8))
		beat(80*time.Second, loud)
		first.mustPass("before the restart", 1)
		first.stop()

		time.Sleep(time.Hour)
		second := start(t, store)
		second.mustPass("at the start", 1)
		if h := second.host(2); h.GetUp() || h.GetAdmin() != nil {
			t.Errorf("a host that was down is shown as %v", h)
		}
		if s := second.totals(); s.GetHostsUp() != 1 || s.GetHosts() != 3 || s.GetHostsWithheld() != 0 {
			t.Errorf("the totals are %v", s)
		}
		back := second.register(plainState(2, 8))
		second.mustPass("once it is heard", 1, 2)
		loud = second.register(plainState(1, 8))
		beat(10*time.Second, loud, back)
		second.stop()

		third := start(t, store)
		third.mustPass("after it was heard", 1, 2)
		// Host 1 was up when the second replica ended, and still has its grace. Host 3 has been
		// silent for long.
		time.Sleep(50 * time.Second)
		third.mustPass("within the time", 1, 2)
		time.Sleep(20 * time.Second)
		third.mustPass("after the time")
		if got := silentRows(t, store); len(got) != 3 {
			t.Errorf("silent by their rows are %v", got)
		}
	})
}

func TestAHostThatSomeReplicaHearsIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		hears, deaf := start(t, store, slowly("r1")), start(t, store, slowly("r2"))
		a := hears.register(plainState(1, 8))
		b := deaf.register(plainState(1, 8))
		b.cancel()
		var noted silenceWrites
		noted.record(store)
		beat(80*time.Second, a)
		deaf.mustPass("at the one that does not hear it")
		hears.mustPass("at the one that does", 1)
		if got := noted.drain(); len(got) != 2 || got[0].silent != 1 || got[1].others != 1 || got[1].at.Sub(got[0].at) > 12*time.Second {
			t.Errorf("its row was written %+v, want silent once, and then not", got)
		}
		third := start(t, store, slowly("r3"))
		third.mustPass("at one that starts", 1)
		third.stop()

		// The mark is not written again while the other replica hears the host.
		beat(20*time.Minute, a)
		if got := noted.drain(); len(got) != 0 {
			t.Errorf("within 20 minutes its row was written %d times: %+v", len(got), got)
		}
		deaf.mustPass("at the one that does not hear it")

		// The replica that hears the host dies, and so does the host. A replica that starts writes
		// the mark.
		hears.stop()
		fourth := start(t, store, slowly("r4"))
		fourth.mustPass("at one that starts", 1)
		time.Sleep(70 * time.Second)
		fourth.mustPass("which nobody hears")
		if got := silentRows(t, store); len(got) != 1 {
			t.Errorf("silent by their rows are %v", got)
		}
	})
}

// What other replicas hear counts until the replica itself hears the host.
func TestSilence_HostReportsToAnotherReplica_IsUpHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one := start(t, store, slowly("r1"))
		a := one.register(plainState(1, 8))
		beat(40*time.Second, a)
		time.Sleep(25 * time.Second)
		two := start(t, store, slowly("r2"))
		two.mustPass("which one heard 25 s ago", 1)
		time.Sleep(40 * time.Second)
		one.mustPass("which one heard 65 s ago")
		two.mustPass("which nobody heard for 65 s")
		a.heartbeat()
		time.Sleep(2 * time.Second)
		two.mustPass("which one hears", 1)
		beat(50*time.Second, a)
		two.mustPass("which one hears", 1)
		beat(20*time.Second, a)
		two.mustPass("which it did not hear in its time")
		one.mustPass("which it hears", 1)
		b := two.register(plainState(1, 8))
		beat(10*time.Minute, a, b)
		two.mustPass("which both hear", 1)
	})
}

func TestHostsThatGoSilentTogetherAreWrittenInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		const hosts = replica.SilenceBatch + 10
		var agents []*testAgent
		for n := range hosts {
			agents = append(agents, r.register(plainState(n, 8)))
		}
		var noted silenceWrites
		noted.record(store)
		time.Sleep(90 * time.Second)
		check := func(of func(silenceWrite) int) {
			t.Helper()
			total, each := 0, map[int64]int{}
			for _, s := range noted.drain() {
				if of(s) != s.silent+s.others {
					t.Errorf("among them is %+v", s)
				}
				total += of(s)
				each[s.at.UnixNano()/int64(replica.SilenceEvery)] += of(s)
			}
			for _, n := range each {
				if n > replica.SilenceBatch {
					t.Errorf("%d rows were written at once", n)
				}
			}
			if total != hosts {
				t.Errorf("%d rows were written, want %d", total, hosts)
			}
		}
		check(func(s silenceWrite) int { return s.silent })
		if got := silentRows(t, store); len(got) != hosts {
			t.Errorf("%d hosts are silent by their rows", len(got))
		}
		beat(20*time.Second, agents...)
		check(func(s silenceWrite) int { return s.others })
		beat(time.Minute, agents...)
		if got := noted.drain(); len(got) != 0 {
			t.Errorf("then %+v", got)
		}
	})
}

func TestASilenceThatWasNotWrittenIsWrittenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 8))
		store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) {
			return shard.Applied{}, fault.New(fault.CellUnavailable, "no disk")
		})
		time.Sleep(5 * time.Minute)
		store.hook(nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := silentRows(t, store); len(got) != 1 {
			t.Errorf("silent by their rows are %v", got)
		}
	})
}
