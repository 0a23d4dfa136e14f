package agent

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// busier puts the next state of a simulated host.
func busier(h *Host, io int32) {
	next := Simulate(1, "cell1", 0)
	next.IoWorkload = io
	h.Put(next)
}

func resync(epoch uint64, within time.Duration, renew bool) *agentv1.ReportResponse {
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{
		Reason: "a test", Epoch: epoch, Within: durationpb.New(within), Renew: renew,
	}}}
}

// Changes are sent as deltas from the newest accepted state, one in flight at a time. The newest
// state replaces those that wait.
func TestChangesGoAsDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		for io := range int32(3) {
			busier(host, 10+io)
			synctest.Wait()
		}
		states, _, streams := c.received()
		deltas := c.receivedDeltas()
		if len(states) != 1 || len(deltas) != 3 || streams != 1 {
			t.Fatalf("%d states and %d deltas over %d streams, want 1, 3, 1", len(states), len(deltas), streams)
		}
		for i, d := range deltas {
			if d.GetBaseVersion() != uint64(i+1) || d.GetVersion() != uint64(i+2) || d.GetIoWorkload() != int32(10+i) || d.GetFollow() || proto.Size(d) > 64 {
				t.Errorf("delta %d: %v", i, d)
			}
		}
	})
}

// One state is in flight at a time. Changes in the meantime are sent once, as the newest state.
func TestTheNewestStateOvertakesThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		late := true
		c.answer = func(d *agentv1.Delta) *agentv1.ReportResponse {
			if late {
				return &agentv1.ReportResponse{} // no answer yet
			}
			return nil
		}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		for io := range int32(5) {
			busier(host, 10+io)
			synctest.Wait()
		}
		if deltas := c.receivedDeltas(); len(deltas) != 1 || deltas[0].GetVersion() != 2 {
			t.Fatalf("while one is not answered: %v", deltas)
		}
		c.mu.Lock()
		late = false
		c.mu.Unlock()
		c.sendToAgent(c.accepted(host.bootID, 2))
		synctest.Wait()
		if deltas := c.receivedDeltas(); len(deltas) != 2 || deltas[1].GetBaseVersion() != 2 || deltas[1].GetVersion() != 6 || deltas[1].GetIoWorkload() != 14 {
			t.Errorf("after the answer: %v", deltas)
		}
	})
}

// A refused delta is followed by the whole state at once. Only if that is refused too does the
// agent wait.
func TestARefusedDeltaIsFollowedByTheWholeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.answer = func(d *agentv1.Delta) *agentv1.ReportResponse {
			return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Refused{Refused: &agentv1.Refused{
				BootId: d.GetBootId(), Version: d.GetVersion(), Reason: "INVALID_REQUEST", Problems: []string{"removed_instances[0]: not held"},
			}}}
		}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		busier(host, 10)
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 2 || states[1].GetVersion() != 2 || len(c.receivedDeltas()) != 1 {
			t.Errorf("%d states, %d deltas: want the whole of version 2 after its delta", len(states), len(c.receivedDeltas()))
		}
	})
}

// After a Resync, the agent sends its whole state within the given time, with the Resync's epoch.
// Heartbeats continue meanwhile, and a change is not delayed.
func TestResyncAsksForTheWholeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		const within = 10 * time.Minute
		c.sendToAgent(resync(3, within, false))
		c.sendToAgent(resync(3, within, false)) // repeated: no new time is drawn
		time.Sleep(within + time.Second)
		synctest.Wait()
		states, beats, _ := c.received()
		if len(states) != 2 || states[1].GetEpoch() != 3 || states[1].GetVersion() != 1 {
			t.Fatalf("%d states within the time, want the same one with epoch 3", len(states))
		}
		if most, n := int(within/heartbeatEvery), len(beats); n < most-3 {
			t.Errorf("%d heartbeats in %d intervals", n, most)
		}
		busier(host, 10)
		synctest.Wait()
		if d := c.receivedDeltas(); len(d) != 1 || d[0].GetEpoch() != 3 {
			t.Errorf("after that: %v", d)
		}
		c.sendToAgent(resync(4, longestPause, true))
		synctest.Wait()
		busier(host, 11)
		synctest.Wait()
		states, _, _ = c.received()
		if len(states) != 3 || states[2].GetEpoch() != 4 || states[2].GetIoWorkload() != 11 || states[2].GetVersion() != 3 {
			t.Errorf("a change in the pause: %d states, the last %v", len(states), states[len(states)-1].GetVersion())
		}
	})
}

// With renew, the whole state is a new version. A time that no cell would give counts as none.
func TestResyncRenewsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		reporting(t, c, ReporterDeps{})
		synctest.Wait()
		c.sendToAgent(resync(1, -time.Hour, true))
		time.Sleep(time.Second)
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 2 || states[1].GetVersion() != 2 || states[1].GetEpoch() != 1 {
			t.Fatalf("%d states, want version 2 with epoch 1", len(states))
		}
	})
}

// An agent whose version is below the cell's continues above it. Other agents do not skip versions
// for that.
func TestResyncRenewsAboveWhatTheCellHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		for n, above := range []uint64{40, 40} {
			m := resync(uint64(n+1), 0, true)
			m.GetResync().Above = above
			c.sendToAgent(m)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		busier(host, 10)
		synctest.Wait()
		states, _, _ := c.received()
		if len(states) != 3 || states[1].GetVersion() != 41 || states[2].GetVersion() != 42 {
			t.Fatalf("the states are %v, want the versions 1, 41 and 42", states)
		}
		if d := c.receivedDeltas(); len(d) != 1 || d[0].GetBaseVersion() != 42 || d[0].GetVersion() != 43 {
			t.Errorf("the deltas are %v, want one from 42 to 43", d)
		}
	})
}

// An abort from before the host knew its instances is sent again once the cell has accepted a state
// with known instances.
func TestAbort_InstancesNowKnown_IsReportedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		next := func(unknown bool) {
			s, _ := host.State()
			s = proto.CloneOf(s)
			if s.InstancesUnknown = unknown; unknown {
				s.Instances = nil
			}
			host.Put(s)
			synctest.Wait()
		}
		verdicts := func() []*agentv1.Verdict {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.verdicts
		}
		next(true)
		s, _ := host.State()
		o := offerTo("a", 10, 1)
		o.Usages[0].ProviderUuid, o.Confirmed, o.WantsVerdict = s.GetHostUuid(), true, false
		c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimOffer{ClaimOffer: o}})
		synctest.Wait()
		if _, err := host.Claims().AbortClaim("a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		next(true)
		if n := len(verdicts()); n != 1 {
			t.Fatalf("sent %d verdicts while nothing was known, want once", n)
		}
		for range 2 {
			next(false)
		}
		if got := verdicts(); len(got) != 2 || got[1].GetReason() != agentv1.Verdict_ABORTED || got[1].GetVersion() != 4 {
			t.Errorf("verdicts are %v, want a second abort of version 4", got)
		}
	})
}

// An agent whose first state is requested again sends it again at once.
func TestTheFirstResyncIsAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{mute: true}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		synctest.Wait()
		c.sendToAgent(resync(1, 0, false))
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 2 || states[1].GetEpoch() != 1 || states[1].GetVersion() != 1 {
			t.Fatalf("%d states, want the same one again with epoch 1", len(states))
		}
		c.sendToAgent(resync(2, 0, false))
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 2 {
			t.Errorf("%d states: asked a second time the agent does not wait", len(states))
		}
		time.Sleep(busyRetry)
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 3 {
			t.Errorf("%d states", len(states))
		}
		// After an acceptance, the next Resync counts as a first one.
		c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Accepted{Accepted: &agentv1.Accepted{Version: 1}}})
		synctest.Wait()
		busier(host, 10)
		synctest.Wait()
		c.sendToAgent(resync(3, 0, false))
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 4 || states[3].GetVersion() != 2 || len(c.receivedDeltas()) != 1 {
			t.Errorf("%d states and %d deltas, want the changed one as a delta, then whole", len(states), len(c.receivedDeltas()))
		}
	})
}

// If a cell answers every state with a Resync, the agent does not answer in a tight loop.
func TestResyncAfterResyncIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{mute: true}
		c.start()
		reporting(t, c, ReporterDeps{})
		synctest.Wait()
		for range 100 {
			c.sendToAgent(resync(1, 0, false))
			synctest.Wait()
		}
		if states, _, _ := c.received(); len(states) > 3 {
			t.Errorf("%d states at once", len(states))
		}
	})
}

// One of the replicas is asked to write. If that replica is gone, another one is.
func TestOneReplicaIsAskedToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cells := map[string]*fakeCell{"a": {}, "b": {}, "c": {}}
		host := NewHost(Simulate(1, "cell1", 0))
		for name, c := range cells {
			c.start()
			reportingTo(t, c, host, ReporterDeps{Replica: name})
		}
		synctest.Wait()
		writers := func(io int32) (names []string) {
			busier(host, io)
			synctest.Wait()
			for name, c := range cells {
				for _, d := range c.receivedDeltas() {
					if d.GetIoWorkload() == io && !d.GetFollow() {
						names = append(names, name)
					}
				}
			}
			return names
		}
		first := writers(10)
		if len(first) != 1 {
			t.Fatalf("%v are asked to write", first)
		}
		if again := writers(11); len(again) != 1 || again[0] != first[0] {
			t.Errorf("then %v, after %v", again, first)
		}
		cells[first[0]].stop()
		synctest.Wait()
		if next := writers(12); len(next) != 1 || next[0] == first[0] {
			t.Errorf("without %v, %v", first, next)
		}
	})
}

// Hosts are spread over the replicas. If a replica goes, only its hosts move.
func TestWritersAreSpread(t *testing.T) {
	count := map[string]int{}
	for i := range 3000 {
		h := NewHost(&agentv1.FullState{HostUuid: fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", i)})
		for _, name := range []string{"127.0.0.1:9101", "127.0.0.1:9102", "127.0.0.1:9103"} {
			h.streamAccepted(name)
		}
		for _, name := range []string{"127.0.0.1:9101", "127.0.0.1:9102", "127.0.0.1:9103"} {
			if h.writes(name) {
				count[name]++
			}
		}
	}
	if len(count) != 3 {
		t.Fatalf("%v", count)
	}
	for name, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("%s writes %d of 3000", name, n)
		}
	}
}

func TestOnGrid_BeatsOfManyHostsFallTogether(t *testing.T) {
	for range 1000 {
		now, d := time.Now().Add(rand.N(time.Hour)), rand.N(20*time.Second)
		at := now.Add(onGrid(now, d))
		switch off := at.Sub(now.Add(d)); {
		case d < time.Second && off != 0:
			t.Errorf("in %v: moved by %v, and the cell wants them that often", d, off)
		case d >= time.Second && (at.UnixNano()%int64(beatGrid) != 0 || off.Abs() > beatGrid/2):
			t.Errorf("in %v: at %v, %v off", d, at, off)
		}
	}
}
