package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// stateOf is a state with the given IO workload.
func stateOf(io int32) *agentv1.FullState {
	s := Simulate(1, "cell1", 0)
	s.IoWorkload = io
	return s
}

// While the cell refuses the newest state, heartbeats name the version that the cell holds. That
// also applies to a stream without an accepted state, and if the host changes faster than it sends
// heartbeats. Once a state is accepted, heartbeats name that one.
func TestARefusedAgentBeatsForTheStateThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{held: 5, refuse: func(s *agentv1.FullState) []string {
			if s.GetIoWorkload() != 7 {
				return []string{"io_workload: must be 7"}
			}
			return nil
		}}
		c.start()
		var out bytes.Buffer
		host := reporting(t, c, ReporterDeps{Log: slog.New(slog.NewTextHandler(&out, nil))})
		began := time.Now()
		time.Sleep(20*heartbeatEvery + time.Second)
		synctest.Wait()
		_, beats, streams := c.received()
		if n := len(beats); n < 21 || n > 22 || beats[0] != began || streams != 1 {
			t.Fatalf("%d heartbeats in 20 intervals, over %d streams: %v", n, streams, beats)
		}
		if why := host.Refused(); !strings.Contains(why, "version 1: INVALID_REQUEST: io_workload: must be 7 (the host stays in service there by version 5)") {
			t.Errorf("while it is refused: %q", why)
		}
		if !strings.Contains(out.String(), "stays in service") {
			t.Errorf("the log is %s", out.String())
		}
		for range 60 {
			host.Put(stateOf(1))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		_, beats, _ = c.received()
		for i := 1; i < len(beats); i++ {
			if d := beats[i].Sub(beats[i-1]); d > heartbeatEvery+beatGrid/2 {
				t.Errorf("beat %d after %v", i, d)
			}
		}
		if why := host.Refused(); !strings.Contains(why, "version 61: ") {
			t.Errorf("after other refusals: %q", why)
		}
		for _, v := range c.named {
			if v != 5 {
				t.Fatalf("heartbeats name %v", c.named)
			}
		}
		host.Put(stateOf(7))
		time.Sleep(2 * heartbeatEvery)
		synctest.Wait()
		if last := c.named[len(c.named)-1]; last != 62 || host.Refused() != "" {
			t.Errorf("once version 62 is accepted heartbeats name %d; %q", last, host.Refused())
		}
	})
}

// A cell that starts again learns at once of a host that stays in service by its held version: a host is down after
// service_down_time (60 s).
func TestReporter_StreamOfARefusedAgentBreaks_ConnectsAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{held: 5, refuse: func(*agentv1.FullState) []string { return []string{"io_workload: must be 7"} }}
		c.start()
		reporting(t, c, ReporterDeps{})
		time.Sleep(2 * heartbeatEvery)
		c.stop()
		time.Sleep(10 * time.Second)
		c.start()
		_, before, _ := c.received()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if _, beats, streams := c.received(); len(beats) < len(before)+2 || streams != 2 {
			t.Errorf("%d heartbeats over %d streams since the cell is back", len(beats)-len(before), streams)
		}
	})
}

// If a repeated refusal names a held version, heartbeats name that version.
func TestARefusedAgentBeatsOnceSomethingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{refuse: func(*agentv1.FullState) []string { return []string{"io_workload: must be 7"} }}
		c.start()
		host := reporting(t, c, ReporterDeps{})
		time.Sleep(5 * heartbeatEvery)
		synctest.Wait()
		if _, beats, _ := c.received(); len(beats) > 0 {
			t.Fatalf("%d heartbeats where nothing is held", len(beats))
		}
		state, _ := host.State()
		c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Refused{Refused: &agentv1.Refused{
			BootId: state.GetBootId(), Version: state.GetVersion(), Reason: "INVALID_REQUEST", Problems: []string{"io_workload: must be 7"}, HeldVersion: 9,
		}}})
		time.Sleep(5 * heartbeatEvery)
		synctest.Wait()
		states, beats, _ := c.received()
		if len(states) != 1 || len(beats) == 0 || c.named[0] != 9 || !strings.Contains(host.Refused(), "stays in service there by version 9") {
			t.Errorf("%d states, heartbeats %v name %v; %s", len(states), beats, c.named, host.Refused())
		}
	})
}

// If the cell requests a refused agent's state, heartbeats name the held version until the state is
// sent. If the next refusal names no version, there are no heartbeats.
func TestARefusedAgentIsAskedForItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{held: 5, refuse: func(*agentv1.FullState) []string { return []string{"io_workload: must be 7"} }}
		c.start()
		reporting(t, c, ReporterDeps{})
		time.Sleep(2 * heartbeatEvery)
		synctest.Wait()
		c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{Epoch: 1, Renew: true}}})
		synctest.Wait()
		states, _, _ := c.received()
		if len(states) != 2 || states[1].GetVersion() != 2 || states[1].GetEpoch() != 1 {
			t.Fatalf("states: %v", states)
		}
		c.mu.Lock()
		c.held = 0
		c.mu.Unlock()
		c.sendToAgent(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{Epoch: 2}}})
		synctest.Wait()
		_, before, _ := c.received()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if _, beats, _ := c.received(); len(beats) != len(before) {
			t.Errorf("%d heartbeats where nothing is held", len(beats)-len(before))
		}
		for _, v := range c.named {
			if v != 5 {
				t.Errorf("heartbeats name %v", c.named)
			}
		}
	})
}
