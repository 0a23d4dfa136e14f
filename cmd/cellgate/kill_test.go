package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A killed process cannot write anything at its end, so everything acknowledged must already be on
// disk.
func TestI3_KilledProcessKeepsAcknowledgedClaims(t *testing.T) {
	data := t.TempDir()
	var log bytes.Buffer
	cmd := exec.Command(os.Args[0], "dev", "--cells", "2", "--hosts", "20", "--data", data,
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--log-level", "warn")
	cmd.Env = append(os.Environ(), asCellgate+"=1")
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if killed {
			return
		}
		killed = true
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the process ended well, not by being killed")
		}
	}
	defer kill()
	api := ""
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "Serving"); {
		if f := strings.Fields(lines.Text()); len(f) == 2 && f[0] == "gRPC" {
			api = f[1]
		}
	}
	if api == "" {
		t.Fatalf("no address was printed\n%s", log.String())
	}
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select", "--count", "5", "--confirm")
	cellgate(t, api, exitDone, nil, "select", "--instance", leased, "--ttl", "1h")
	before := claimsOf(t, api)
	kill()

	_, _, api = launchDev(t, data)
	after := claimsOf(t, api)
	if diff := difference(before, after); diff != "" || len(before) < 6 {
		t.Fatalf("%d claims before the kill, %d after; the first that differs: %s", len(before), len(after), diff)
	}
	for _, d := range placed.GetDestinations() {
		if want := d.GetSelected().GetClaimId() + " CONFIRMED " + d.GetSelected().GetServiceHost(); after[d.GetInstanceUuid()] != want {
			t.Errorf("instance %s has %q, want %q", d.GetInstanceUuid(), after[d.GetInstanceUuid()], want)
		}
	}
}
