package pebbleshard

import (
	"testing"
	"time"
)

// TestStoreTimeKeepsPaceAfterTheMachineStepsBack: leases keep their length although the machine's
// clock steps back.
func TestStoreTimeKeepsPaceAfterTheMachineStepsBack(t *testing.T) {
	machine := newTestClock()
	c := clock{machine: machine.read}
	c.tick()
	machine.move(2 * time.Hour)
	far := c.tick()
	machine.move(-2 * time.Hour)
	for range 3 {
		if now := c.tick(); !now.After(far) || now.Sub(far) > time.Second {
			t.Fatalf("store time went from %v to %v while the machine's stood", far, now)
		}
	}
	machine.move(time.Minute)
	if gone := c.tick().Sub(far); gone < time.Minute || gone > time.Minute+time.Second {
		t.Errorf("store time moved %v in a minute", gone)
	}
}

func TestSteadyClockGoesForward(t *testing.T) {
	read := steady()
	first := read()
	if d := time.Since(first); d < 0 || d > time.Minute {
		t.Errorf("a steady clock starts %v from now", d)
	}
	if read().Before(first) {
		t.Error("a steady clock went back")
	}
}
