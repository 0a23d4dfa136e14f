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

func TestReporterSendsStateThenHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		accepted := 0
		host := reporting(t, c, ReporterDeps{Accepted: func(time.Duration) { accepted++ }})
		time.Sleep(10*heartbeatEvery + time.Second)
		synctest.Wait()
		states, beats, _ := c.received()
		if len(states) != 1 || states[0].GetVersion() != 1 || states[0].GetBootId() != host.bootID {
			t.Fatalf("states = %v, want one, version 1 of boot %s", states, host.bootID)
		}
		if accepted != 1 {
			t.Errorf("Accepted called %d times, want 1", accepted)
		}
		// The first heartbeat comes within one interval, the second up to beatGrid/2 off, then one
		// per interval.
		if n := len(beats); n < 10 || n > 11 {
			t.Errorf("%d heartbeats in 10 intervals", n)
		}
		for i := 1; i < len(beats); i++ {
			off := (beats[i].Sub(beats[i-1]) - heartbeatEvery).Abs()
			if off > beatGrid/2 || i > 1 && off > 0 {
				t.Errorf("beat %d is %v off its interval", i, off)
			}
		}
	})
}

func TestReporterResendsWholeStateAfterReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{}
		c.start()
		lost := 0
		host := reporting(t, c, ReporterDeps{Lost: func(error) { lost++ }})
		synctest.Wait()
		c.stop()
		time.Sleep(time.Minute) // several attempts fail
		next := Simulate(1, "cell1", 0)
		next.IoWorkload = 7
		host.Put(next)
		c.start()
		time.Sleep(time.Minute)
		synctest.Wait()
		states, _, streams := c.received()
		if len(states) != 2 || streams != 2 {
			t.Fatalf("%d states over %d streams, want 2 over 2", len(states), streams)
		}
		if s := states[1]; s.GetVersion() != 2 || s.GetIoWorkload() != 7 || s.GetBootId() != states[0].GetBootId() {
			t.Errorf("after the reconnect: version %d, io %d, boot %s; want version 2, io 7, boot %s",
				s.GetVersion(), s.GetIoWorkload(), s.GetBootId(), states[0].GetBootId())
		}
		if lost != 1 {
			t.Errorf("Lost called %d times, want 1: a stream that never was accepted is not lost", lost)
		}
	})
}

func TestReporter_RefusedState_LogsOnceAndWaitsForChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{refuse: func(s *agentv1.FullState) []string {
			if s.GetIoWorkload() != 7 {
				return []string{"io_workload: must be 7"}
			}
			return nil
		}}
		c.start()
		var out bytes.Buffer
		host := reporting(t, c, ReporterDeps{
			Log: slog.New(slog.NewTextHandler(&out, nil)),
		})
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if states, beats, _ := c.received(); len(states) != 1 || len(beats) != 0 {
			t.Fatalf("%d states and %d heartbeats in 4 minutes of refusal, want 1 and 0", len(states), len(beats))
		}
		if why := host.Refused(); !strings.Contains(why, "version 1: INVALID_REQUEST: io_workload: must be 7 (no heartbeat is sent there)") {
			t.Errorf("while it is refused: %q", why)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if states, _, _ := c.received(); len(states) != 2 {
			t.Fatalf("%d states after the slow retry, want 2", len(states))
		}
		if n := strings.Count(out.String(), "io_workload: must be 7"); n != 1 {
			t.Errorf("the refusal was logged %d times, want once:\n%s", n, out.String())
		}
		next := Simulate(1, "cell1", 0)
		next.IoWorkload = 7
		host.Put(next)
		time.Sleep(2 * heartbeatEvery)
		synctest.Wait()
		states, beats, streams := c.received()
		if why := host.Refused(); why != "" {
			t.Errorf("once it is accepted: %q", why)
		}
		if len(states) != 3 || len(beats) == 0 || streams != 1 {
			t.Errorf("after the change: %d states, %d heartbeats, %d streams; want 3, some, 1", len(states), len(beats), streams)
		}
	})
}

// A state is offered to a busy cell again within seconds, without an alarm in the log.
func TestReporterOffersAgainSoonToABusyCell(t *testing.T) {
	for _, reason := range []string{"OVERLOADED", "OUTCOME_UNKNOWN"} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			c := &fakeCell{reason: reason, refuse: func(*agentv1.FullState) []string {
				if asked++; asked <= 2 {
					return []string{"too many operations wait"}
				}
				return nil
			}}
			c.start()
			var out bytes.Buffer
			reporting(t, c, ReporterDeps{Log: slog.New(slog.NewTextHandler(&out, nil))})
			time.Sleep(2*2*busyRetry + time.Second)
			synctest.Wait()
			if states, _, streams := c.received(); len(states) != 3 || streams != 1 {
				t.Errorf("%s: %d states over %d streams, want 3 over 1", reason, len(states), streams)
			}
			if out.Len() > 0 {
				t.Errorf("%s was logged: %s", reason, out.String())
			}
		})
	}
}

func TestReporterGivesUpSilentCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeCell{mute: true}
		c.start()
		reporting(t, c, ReporterDeps{})
		time.Sleep(65 * time.Second)
		synctest.Wait()
		if states, _, streams := c.received(); len(states) != 2 || streams != 2 {
			t.Errorf("%d states over %d streams after 65 s, want 2 over 2", len(states), streams)
		}
	})
}

func TestBackoffGrowsWithinBounds(t *testing.T) {
	b := backoff{least: time.Second, most: 20 * time.Second}
	for i, span := range []time.Duration{1, 2, 4, 8, 16, 20, 20} {
		span *= time.Second
		if d := b.next(); d < span/2 || d > span {
			t.Errorf("wait %d is %v, want between %v and %v", i, d, span/2, span)
		}
	}
	b.reset()
	if d := b.next(); d > time.Second {
		t.Errorf("first wait after reset is %v, want at most 1s", d)
	}
}
