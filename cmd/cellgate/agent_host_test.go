package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// onLinux skips where there is no machine that an agent can read.
func onLinux(t *testing.T) {
	t.Helper()
	for _, file := range []string{"/proc/meminfo", "/sys/devices/system/cpu/online"} {
		if _, err := os.Stat(file); err != nil {
			t.Skip("this machine cannot be read by an agent: ", err)
		}
	}
}

// hostFile writes the configuration of this machine's agent. more are further lines of the section
// host.
func hostFile(t *testing.T, dir, replica string, more ...string) string {
	t.Helper()
	file := filepath.Join(dir, "agent.yaml")
	text := "agent:\n  cell: cell1\n  replicas: [" + replica + "]\n  host:\n    state_dir: " + filepath.Join(dir, "state") +
		"\n    disk_path: " + dir + "\n    reserved_host_memory_mb: 1\n    service_host: compute1\n"
	for _, line := range more {
		text += "    " + line + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const onHost = "33333333-0000-4000-8000-000000000001"

// The agent of this machine reports what it reads, and applies a new configuration.
func TestTheAgentOfThisHost(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	instances := filepath.Join(dir, "instances")
	if err := os.Mkdir(instances, 0o700); err != nil {
		t.Fatal(err)
	}
	instance := `{"instance_uuid": "` + onHost + `", "resources": {"VCPU": 1, "MEMORY_MB": 1}}`
	if err := os.WriteFile(filepath.Join(instances, onHost+".json"), []byte(instance), 0o600); err != nil {
		t.Fatal(err)
	}
	cell := launch(t, true, cellArgs(t.TempDir())...)
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+cellAddr, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]

	file := hostFile(t, dir, cellAddr, "instances_dir: "+instances)
	out, stderr, status := typed(t.Context(), "", "agent", "--config", file, "--print", "-o", "json")
	var printed agentv1.FullState
	if err := protojson.Unmarshal([]byte(out), &printed); err != nil || status != exitDone {
		t.Fatalf("--print: status %d %v\n%s%s", status, err, out, stderr)
	}
	rows := diagnoses(t, exitDone, "agent", "--config", file)
	must(t, rows, "host", found, "compute1 has VCPU ")
	must(t, rows, "host's uuid", noted, "there is none yet")

	p := launch(t, true, "agent", "--config", file)
	uuid := p.await(`msg="agent starts" host=compute1 host_uuid=(\S+) new=true`)[1]
	p.await(`msg="every host is registered"`)
	var got cellgatev1.GetHostResponse
	cellgate(t, api, exitDone, &got, "hosts", uuid)
	h := got.GetHost()
	if h.GetServiceHost() != "compute1" || !h.GetUp() || h.GetInstances() != 1 || len(h.GetInventories()) != len(printed.GetProviders()[0].GetInventories()) {
		t.Errorf("host %v", h)
	}
	for _, want := range printed.GetProviders()[0].GetInventories() {
		for _, i := range h.GetInventories() {
			// Memory may come and go while the test runs; CPUs and disks do not.
			if i.GetResourceClass() == want.GetResourceClass() && want.GetResourceClass() != "MEMORY_MB" && i.GetTotal() != want.GetTotal() {
				t.Errorf("%s is %d, printed was %d", i.GetResourceClass(), i.GetTotal(), want.GetTotal())
			}
		}
	}
	if _, text, status := typed(t.Context(), "", "agent", "--config", file); status != exitRefused || !strings.Contains(text, "another agent runs with") {
		t.Errorf("a second agent: status %d\n%s", status, text)
	}

	// A wrong configuration changes nothing, a right one is applied.
	hangUp := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hostFile(t, dir, cellAddr, "cpu_shared_set: none")
	hangUp()
	p.await(`msg="the new configuration is not taken, the former one stays" err=".*cpu_shared_set`)
	hostFile(t, dir, cellAddr, `nodename: "a\tb"`)
	hangUp()
	p.await(`msg="the new configuration is not taken, the former one stays" err=".*agent.host.nodename`)
	hostFile(t, dir, cellAddr, "disabled: true", "disabled_reason: tested", "instances_dir: "+instances)
	hangUp()
	p.await(`msg="the new configuration is taken"`)
	hostFile(t, dir, cellAddr, "nodename: other\nlog:\n  level: debug")
	hangUp()
	p.await(`level=WARN msg="some of the new configuration takes a restart`)
	p.await(`msg="the new configuration is taken"`)
	hostFile(t, dir, cellAddr, "disabled: true", "disabled_reason: tested", "instances_dir: "+instances)
	p.stop()
	// After a restart the agent reports the same host, with the current configuration.
	p = launch(t, true, "agent", "--config", file)
	p.await(`msg="agent starts" host=compute1 host_uuid=` + uuid + ` new=false`)
	p.await(`msg="every host is registered"`)
	cellgate(t, api, exitDone, &got, "hosts", uuid)
	if h := got.GetHost(); h.GetEnabled() || h.GetDisabledReason() != "tested" {
		t.Errorf("disabled it is %v", h)
	}
	p.stop()
}

// A problem that keeps an agent from starting is reported at once, and no file is created.
func TestTheAgentOfAHostThatCannotStart(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "compute_id"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := hostFile(t, dir, "127.0.0.1:1", "instances_dir: "+filepath.Join(dir, "gone"), "cpu_dedicated_set: 16000")
	for _, more := range [][]string{nil, {"--print"}} {
		_, text, status := typed(t.Context(), "", append([]string{"agent", "--config", file, "--disk-path", filepath.Join(dir, "nowhere")}, more...)...)
		if status != exitRefused {
			t.Errorf("%v: status %d", more, status)
		}
		for _, want := range []string{"3 problems keep this process from starting", "compute_id has \"garbage\"", "agent.host.disk_path: statfs", "agent.host.instances_dir: open"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q is not in\n%s", more, want, text)
			}
		}
	}
	rows := diagnoses(t, exitRefused, "agent", "--config", file)
	if rows["host"].Status != unhealthy {
		t.Errorf("doctor says %v", rows["host"])
	}
}

// A name that every cell refuses is reported before the agent sends anything.
func TestTheAgentOfAHostWhoseNameNoCellTakes(t *testing.T) {
	onLinux(t)
	for _, name := range []string{`"   "`, `"a\tb"`} {
		file := hostFile(t, t.TempDir(), "127.0.0.1:1", "nodename: "+name)
		for _, args := range [][]string{{"agent"}, {"agent", "--print"}, {"doctor", "agent"}} {
			out, text, status := typed(t.Context(), "", append(args, "--config", file)...)
			if status == exitDone || !strings.Contains(out+text, "agent.host.nodename") {
				t.Errorf("%v of %s: status %d\n%s%s", args, name, status, out, text)
			}
		}
	}
}

// The table shows NUMA nodes and devices.
func TestPrintOfThisHost(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	out, text, status := typed(t.Context(), "", "agent", "--print", "--state-dir", filepath.Join(dir, "state"), "--disk-path", dir, "--reserved-host-memory-mb", "1",
		"--pci-device", "vendor_id=dead,product_id=beef")
	if status != exitDone || !strings.Contains(text, "note: agent.host.pci_devices[0] names no device of this machine") {
		t.Errorf("status %d\n%s", status, text)
	}
	for _, want := range []string{"made at the first start", "COMPUTE_NODE", "VCPU ", "MEMORY_MB ", "DISK_GB ", "NUMA NODE"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) { // of a processor with many traits, too; what runs there is one word
		if len(line)-1 > pageWidth && !strings.HasPrefix(line, "runs ") {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state")); err == nil {
		t.Error("--print made the directory")
	}
}
