package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

// benchJSON measures a small system that it starts.
func benchJSON(t *testing.T, args ...string) *benchReport {
	t.Helper()
	var out, log bytes.Buffer
	status := run(t.Context(), append([]string{"bench", "--self", "--cells", "2", "--hosts", "75", "-o", "json"}, args...),
		terminal{in: strings.NewReader(""), out: &out, err: &log, env: append(os.Environ(), asCellgate+"=1")})
	if status != exitDone {
		t.Fatalf("status %d\n%s%s", status, out.String(), log.String())
	}
	r := &benchReport{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	return r
}

func TestBenchMeasuresASystemOfItsOwn(t *testing.T) {
	testlong.Only(t, "TestBenchGivesEverythingBackAtTheEnd")
	r := benchJSON(t, "--callers", "1,4", "--duration", "1s", "--warmup", "100ms")
	if r.Cells != 2 || r.Hosts != 150 || len(r.Steps) != 2 || r.SyncMS <= 0 || r.Yardstick.Loopback <= 0 || r.Memory < 1<<20 {
		t.Fatalf("report = %+v, want 2 cells, 150 hosts, 2 steps, the disk and the memory", r)
	}
	for i, s := range r.Steps {
		if want := []int{1, 4}[i]; s.Callers != want || s.Requests == 0 || s.Selections < s.Requests || s.Latency.P50 <= 0 || s.Latency.P99 < s.Latency.P50 {
			t.Errorf("step %d = %+v, want %d callers and what they measured", i, s, want)
		}
		n := 0
		for _, k := range s.Cells {
			n += k
		}
		if n != s.Selections || s.Release == nil || s.Release.Count == 0 {
			t.Errorf("step %d: %d selections by cell of %d, releases %+v", i, n, s.Selections, s.Release)
		}
		if s.CPU.Client <= 0 {
			t.Errorf("step %d: CPU %+v", i, s.CPU)
		}
	}
}

func TestBenchGivesEverythingBackAtTheEnd(t *testing.T) {
	_, _, api := launchDev(t, t.TempDir())
	before := len(claimsOf(t, api))
	out, stderr, status := typed(t.Context(), "", "bench", "--addr", api, "--callers", "2", "--duration", "500ms", "--warmup", "0s", "--release", "end", "--shape", "same", "--timeout", testwait.Limit.String())
	if status != exitDone || !strings.Contains(out, "SELECTIONS/S") || !strings.Contains(out, "RELEASES/S") {
		t.Fatalf("status %d\n%s%s", status, out, stderr)
	}
	if after := len(claimsOf(t, api)); after != before {
		t.Errorf("%d claims before, %d after", before, after)
	}
}

func TestBenchReport_Forms_AreWhatTheySay(t *testing.T) {
	r := &benchReport{Target: "h:1", Steps: []benchStep{{}}}
	for form, want := range map[string]string{"json": "{\n", "yaml": "build:\n", "name": "0\n", "table": "0 cells with 0 hosts"} {
		var out strings.Builder
		if err := r.print(&out, form); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("-o %s: %v, %q does not begin with %q", form, err, out.String(), want)
		}
	}
}

func TestBench_WrongFlags_NamesWhatCannotBeMeasured(t *testing.T) {
	for args, want := range map[string]string{
		"--callers 0":       "--callers: 0 is below 1",
		"--cells 2":         "--cells is of use with --self only",
		"--shape odd":       `--shape: "odd" is none of mix, same`,
		"--release never":   `--release: "never" is none of each, end`,
		"--duration 0s":     "--duration must be above 0",
		"--self --addr h:1": "[addr self]",
	} {
		_, stderr, status := typed(t.Context(), "", append([]string{"bench"}, strings.Fields(args)...)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("bench %s: status %d, stderr %q, want %q", args, status, stderr, want)
		}
	}
	_, stderr, status := typed(t.Context(), "", "dev", "--data", "d", "--pprof", "0.0.0.0:6060")
	if status != exitUsage || !strings.Contains(stderr, "dev.pprof: 0.0.0.0:6060 is not a loopback address") {
		t.Errorf("dev: status %d, stderr %q", status, stderr)
	}
}
