package pebbleshard

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
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

// TestOpen_AClockFarAhead_IsRefusedUntilConfirmed: store time never goes back, so a store does not
// follow a clock that is wrong by years.
func TestOpen_AClockFarAhead_IsRefusedUntilConfirmed(t *testing.T) {
	const month = 31 * 24 * time.Hour
	fs, clock := vfs.NewMem(), newTestClock()
	opts := testOptions
	opts.Clock, opts.MaxClockJump = clock.read, month
	use := func(what string) time.Time {
		s, err := open(fs, lossDir, opts)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer mustClose(t, s)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	first := use("a new shard")
	clock.move(month - time.Hour)
	use("a clock within the bound")
	clock.move(10 * 365 * 24 * time.Hour)
	if _, err := open(fs, lossDir, opts); err == nil || !strings.Contains(err.Error(), "set the clock") || !strings.Contains(err.Error(), lossDir) {
		t.Fatalf("a clock ten years ahead: %v", err)
	}
	clock.move(-10 * 365 * 24 * time.Hour)
	if now := use("the clock is right again"); now.Sub(first) > month {
		t.Errorf("store time went from %v to %v", first, now)
	}
	clock.move(2 * month)
	opts.MaxClockJump = 3 * month
	use("a jump that is confirmed")
}

// A store that opened lanes but whose time nobody read has no time of last use. A later clock is
// then no jump.
func TestOpen_TimeNeverRead_NoJump(t *testing.T) {
	dir := t.TempDir()
	opts := testOptions
	opts.MaxClockJump = time.Hour
	for range 3 {
		s, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.OpenLane(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
	}
}
