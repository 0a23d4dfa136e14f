// Package nova_test runs the conductor plug-in in Nova itself.
package nova_test

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cellgate/internal/rabbittest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

// python is the interpreter that distributions install Nova for.
const python = "/usr/bin/python3"

// needs is the modules that the tests import. `make needs-nova` installs them on Debian.
const needs = "import nova.objects, grpc, google.protobuf"

// together are modules of test/ that run in one process: to import Nova takes 2 s of
// CPU. alone is one that compares hosts nobody else may take.
var (
	together = []string{"test_select", "test_trouble", "test_conductor"}
	alone    = "test_placement"
)

// TestPluginInNova places Nova's own objects through Nova's own classes: with
// eventlet, as conductors run up to 2026, and with native threads, as later ones do.
func TestPluginInNova(t *testing.T) {
	needsNova(t)
	grpc, http := system(t)
	for mode, value := range map[string]string{"eventlet": "", "threads": "1"} {
		env := []string{"OS_NOVA_DISABLE_EVENTLET_PATCHING=" + value, "CELLGATE_GRPC=" + grpc, "CELLGATE_HTTP=" + http}
		t.Run(mode, func(t *testing.T) {
			unittest(t, env, together...)
			t.Run(alone, func(t *testing.T) { unittest(t, env, alone) })
		})
	}
}

// needsNova skips the test unless `make test-nova` runs it.
func needsNova(t *testing.T) {
	t.Helper()
	if !testlong.On() {
		t.Skip("not run: it belongs to make test-nova")
	}
	if out, err := exec.Command(python, "-W", "ignore", "-c", needs).CombinedOutput(); err != nil {
		last := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Skipf("Nova is not installed for %s (make needs-nova): %s", python, last[len(last)-1])
	}
}

func TestMain(m *testing.M) { rabbittest.Stop(m.Run()) }

// TestBus_NovaUnchanged_GetsItsHosts calls over a RabbitMQ with Nova's own, unmodified RPC client.
func TestBus_NovaUnchanged_GetsItsHosts(t *testing.T) {
	needsNova(t)
	url := rabbittest.Start(t).URL()
	_, web := system(t, "--bus-url", url)
	awaitReady(t, "http://"+web+"/readyz")
	unittest(t, []string{"BUS_URL=" + url}, "test_bus")
}

// awaitReady waits until the gateway has declared its queues. An earlier call would be lost.
func awaitReady(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not ready: %v %v", resp, err)
		case <-again.C:
		}
	}
}

// verdict matches a line of unittest: a test, and its result.
var verdict = regexp.MustCompile(`(?m)^(test_\w+) \(.*\.\.\. ?(?:(ok)|skipped '(.*)'|(?:FAIL|ERROR))?`)

// unittest runs modules in one process, and reports each skipped test as a skipped Go subtest.
func unittest(t *testing.T, env []string, modules ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"-W", "ignore", "-m", "unittest", "-v"}, modules...)...)
	cmd.Dir = "test"
	cmd.Env = append(append(os.Environ(), env...), "PYTHONPATH=..", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	found := verdict.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		t.Errorf("no test ran:\n%s", out)
	}
	for _, m := range found {
		if m[3] != "" {
			t.Run(m[1], func(t *testing.T) { t.Skip(m[3]) })
		}
	}
	t.Logf("%v: %d tests", modules, len(found))
}

// system runs `cellgate dev` until the test ends and gives its addresses.
func system(t *testing.T, flags ...string) (grpc, http string) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "cellgate")
	build := exec.Command("go", "build", "-o", binary, "cellgate/cmd/cellgate")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // reuses the packages that make test compiled
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary, append([]string{
		"dev", "--cells", "3", "--hosts", "60", "--data", filepath.Join(dir, "data"),
		"--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0",
	}, flags...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("cellgate dev: %v\n%s", err, &log)
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 2 && f[0] == "REST":
			http = strings.TrimPrefix(f[1], "http://")
		case len(f) == 2 && f[0] == "gRPC":
			grpc = f[1]
		}
		if strings.HasPrefix(lines.Text(), "Serving") {
			return grpc, http
		}
	}
	t.Fatalf("cellgate dev ended\n%s", &log)
	return "", ""
}
