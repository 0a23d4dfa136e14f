package lifecycle

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
)

// The test runs in a new process, whose environment is known.
func TestTuneGCFollowsTheEnvironment(t *testing.T) {
	if os.Getenv("TUNED") != "" {
		TuneGC()
		t.Logf("percent=%d limit=%d", debug.SetGCPercent(100), debug.SetMemoryLimit(-1))
		return
	}
	for env, want := range map[string]string{"TUNED=1": "percent=200 ", "GOGC=70": "percent=70 ", "GOMEMLIMIT=1GiB": "percent=200 limit=1073741824"} {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=TestTuneGCFollowsTheEnvironment")
		cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=", "TUNED=1", env)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("with %s: %v, want %s\n%s", env, err, want, out)
		}
	}
}
