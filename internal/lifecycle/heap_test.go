package lifecycle

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestHeapGrowsByWhatIsLive(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 256 << 20: 400, 512 << 20: 200, 1 << 30: 100, 8 << 30: 100} {
		if got := gcPercent(live, 1<<30); got != want {
			t.Errorf("%d MiB live: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestSpareHeapFollowsTheMemory(t *testing.T) {
	for memory, want := range map[uint64]uint64{0: 1 << 30, 512 << 20: 256 << 20, 8 << 30: 1 << 30, 24 << 30: 3 << 30, 256 << 30: 4 << 30} {
		if got := spare(memory); got != want {
			t.Errorf("of %d MiB: %d MiB, want %d", memory>>20, got>>20, want>>20)
		}
	}
	for bound, want := range map[uint64]int64{0: 0, 1000: 900, 1 << 63: 4150517416584649110} {
		if got := softLimit(bound); got != want {
			t.Errorf("soft limit in %d bytes: %d, want %d", bound, got, want)
		}
	}
}

// In a process of its own, whose environment is known.
func TestTuneGCFollowsTheEnvironment(t *testing.T) {
	if os.Getenv("TUNED") != "" {
		TuneGC()
		for range 3 {
			runtime.GC()
			runtime.Gosched()
		}
		// A finalizer runs after the collection: wait until one more has.
		done := make(chan struct{})
		runtime.SetFinalizer(&sentinel{}, func(*sentinel) { close(done) })
		for range 2 {
			runtime.GC()
		}
		<-done
		t.Logf("percent=%d", debug.SetGCPercent(100))
		return
	}
	for env, want := range map[string]string{"TUNED=1": "percent=400", "GOGC=70": "percent=70"} {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=TestTuneGCFollowsTheEnvironment")
		cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=", "TUNED=1", env)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("with %s: %v, want %s\n%s", env, err, want, out)
		}
	}
}
