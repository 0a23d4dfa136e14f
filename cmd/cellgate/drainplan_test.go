package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// drain --plan shows what the gateway plans, and prints a script that disables the hosts and then does the moves in order.
func TestDrain_Plan_IsShownAndRunsAsAScript(t *testing.T) {
	dev := launch(t, false, "dev", "--cells", "1", "--hosts", "6", "--data", t.TempDir(), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--cell-base-port", "0")
	api := dev.await(`gRPC   (\S+)`)[1]
	var hosts cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &hosts, "hosts")
	full := slices.MaxFunc(hosts.GetHosts(), func(a, b *cellgatev1.Host) int { return int(a.GetInstances() - b.GetInstances()) })
	var m cellgatev1.PlanDrainResponse
	cellgate(t, api, exitDone, &m, "drain", "--plan", full.GetServiceHost())
	if int32(len(m.GetMoves())+len(m.GetUnplaced())) != full.GetInstances() || len(m.GetMoves()) == 0 {
		t.Fatalf("%s has %d instances: %v", full.GetServiceHost(), full.GetInstances(), &m)
	}
	out, stderr, status := typed(t.Context(), "", "drain", "--plan", full.GetHostUuid(), "--addr", api)
	first := m.GetMoves()[0].GetInstance()
	if status != exitDone || !strings.Contains(out, first.GetInstanceUuid()+"  "+m.GetMoves()[0].GetToServiceHost()) ||
		!strings.Contains(out, fmt.Sprintf("\n%d instances on %s: %d can move", full.GetInstances(), full.GetServiceHost(), len(m.GetMoves()))) ||
		!strings.Contains(out, "The plan ignores what is not known of the instances: required traits, ") {
		t.Errorf("status %d\n%s%s", status, out, stderr)
	}

	for line := range strings.Lines(out) {
		if n := len([]rune(line)) - 1; n > pageWidth {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}

	// Equal hosts may be chosen differently with another seed, so the script is compared with its
	// own plan.
	for _, cold := range []bool{false, true} {
		args := []string{"drain", "--plan", full.GetServiceHost(), "-o", "commands", "--addr", api}
		if cold {
			args = append(args, "--cold")
		}
		script, stderr, status := typed(t.Context(), "", args...)
		if status != exitDone {
			t.Fatalf("status %d: %s", status, stderr)
		}
		lines := ran(t, script)
		want := 1 + len(m.GetMoves())
		if cold {
			want += len(m.GetMoves())
		}
		if len(lines) != want || lines[0] != fmt.Sprintf("cellgate hosts disable %s --reason drain", full.GetHostUuid()) {
			t.Fatalf("ran %d commands, want %d:\n%s", len(lines), want, strings.Join(lines, "\n"))
		}
		for i, v := range m.GetMoves() {
			line, id := lines[1+i], v.GetInstance().GetInstanceUuid()
			if cold {
				line = lines[1+2*i]
				if lines[2+2*i] != "openstack server migration confirm "+id {
					t.Errorf("after %q comes %q", line, lines[2+2*i])
				}
			}
			if !strings.HasSuffix(line, " "+id) || strings.Contains(line, "--live-migration") == cold || !strings.Contains(line, " --wait --host ") || strings.Contains(line, full.GetServiceHost()) {
				t.Errorf("move %d is %q, want %s", i, line, id)
			}
		}
	}

	for _, c := range []struct{ want, args string }{
		{"--plan: is required", "drain " + full.GetServiceHost()},
		{"--cold: is for -o commands alone", "drain --plan --cold " + full.GetServiceHost()},
		{`did you mean "`, "drain --plan x" + full.GetServiceHost()},
	} {
		_, stderr, status := typed(t.Context(), "", append(strings.Fields(c.args), "--addr", api)...)
		if status == exitDone || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %s", c.args, status, stderr)
		}
	}
	dev.stop()
}

// ran runs a script whose commands only print how they were called.
func ran(t *testing.T, script string) []string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"cellgate", "openstack"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+" \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin, cmd.Env = strings.NewReader(script), []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, script)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// A host's name cannot become a command.
func TestDrain_Script_QuotesWhatItIsGiven(t *testing.T) {
	evil := "h'; touch /tmp/pwned; '\n$(touch x)"
	m := &cellgatev1.PlanDrainResponse{
		Hosts:    []*cellgatev1.DrainedHost{{HostUuid: "u1", ServiceHost: evil, Instances: 2}},
		Moves:    []*cellgatev1.PlannedMove{{Instance: &cellgatev1.DrainInstance{InstanceUuid: "i1", ServiceHost: evil}, ToServiceHost: evil}},
		Unplaced: []*cellgatev1.UnplacedInstance{{Instance: &cellgatev1.DrainInstance{InstanceUuid: "i2", ServiceHost: evil}, Message: evil}},
	}
	var p page
	writeDrain(&p, m, false)
	lines := ran(t, p.String())
	if got := strings.Join(lines, "\n"); got != "cellgate hosts disable u1 --reason drain\nopenstack --os-compute-api-version 2.30 server migrate --live-migration --wait --host "+evil+" i1" {
		t.Errorf("ran\n%s\nof\n%s", got, p.String())
	}
}

func TestDrain_Specs_AreRowsOfNova(t *testing.T) {
	got, err := readSpecs([]byte("1a5e0000-0000-4000-8000-000000000001\t{\"a\": {\"b\": 1}}\n\n 2a5e0000-0000-4000-8000-000000000001 {}\n"))
	if err != nil || len(got) != 2 || got[0].GetInstanceUuid() != "1a5e0000-0000-4000-8000-000000000001" ||
		got[0].GetNovaRequestSpec().GetFields()["a"].GetStructValue().GetFields()["b"].GetNumberValue() != 1 || got[1].GetInstanceUuid()[0] != '2' {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{"x\ny": "line 1: has no JSON object", "u {}\nu {": "line 2: "} {
		if _, err := readSpecs([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
