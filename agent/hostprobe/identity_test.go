package hostprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"cellgate/internal/rpc"
)

func identity(t *testing.T, c IdentityConfig) *Identity {
	t.Helper()
	id, err := OpenIdentity(c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func refused(t *testing.T, c IdentityConfig, wants ...string) {
	t.Helper()
	id, err := OpenIdentity(c)
	if err == nil {
		t.Errorf("%+v gives %s, want an error", c, id.UUID)
		if err := id.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, id *Identity) {
	t.Helper()
	if err := id.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestIdentityIsMadeOnceAndKept(t *testing.T) {
	c := IdentityConfig{Dir: filepath.Join(t.TempDir(), "a", "b"), ServiceHost: "compute1", Machine: "m1"}
	if id, err := LookUpIdentity(c); err != nil || !id.New || !rpc.IsUUID(id.UUID) {
		t.Fatalf("before the first start: %+v %v", id, err)
	}
	if _, err := os.Stat(c.Dir); err == nil {
		t.Error("looking it up made the directory")
	}
	made := identity(t, c)
	if !made.New {
		t.Error("the first start made no uuid")
	}
	refused(t, c, "another agent runs")
	if id, err := LookUpIdentity(c); err != nil || id.UUID != made.UUID || id.New {
		t.Errorf("looked up beside the agent: %+v %v", id, err)
	}
	closed(t, made)
	again := identity(t, c)
	if again.UUID != made.UUID || again.New {
		t.Errorf("%s after %s", again.UUID, made.UUID)
	}
	closed(t, again)
	// An unknown machine id does not count as another machine.
	for _, machine := range []string{"", "m1"} {
		c.Machine = machine
		closed(t, identity(t, c))
	}
}

func TestIdentityOfAnotherHostIsRefused(t *testing.T) {
	c := IdentityConfig{Dir: t.TempDir(), ServiceHost: "compute1", Machine: "m1"}
	id := identity(t, c)
	closed(t, id)
	other := c
	other.ServiceHost = "compute2"
	refused(t, other, "is of host compute1, not of compute2", "remove host.json alone")
	other = c
	other.Machine = "m2"
	refused(t, other, "on another machine")
	file, host := filepath.Join(c.Dir, "compute_id"), filepath.Join(c.Dir, "host.json")
	write(t, file, "99999999-0000-4000-8000-000000000001\n")
	refused(t, c, "this host was "+id.UUID)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused(t, c, "put that uuid back", id.UUID)
	for _, text := range []string{"", "x", id.UUID[:35], id.UUID + id.UUID} {
		write(t, file, text)
		refused(t, c, file, "not the host's uuid")
	}
	write(t, file, strings.ToUpper(id.UUID))
	closed(t, identity(t, c))
	write(t, host, `{"uuid": "`+strings.ToUpper(id.UUID)+`", "service_host": "compute1"}`)
	upper := identity(t, c)
	if upper.UUID != id.UUID {
		t.Errorf("of files in capitals: %s, want %s", upper.UUID, id.UUID)
	}
	closed(t, upper)
	for _, text := range []string{"", "{}", `{"uuid": "x", "service_host": "y"}`, `{"uuid": "` + id.UUID + `", "service_host": "compute1", "more": 1}`} {
		write(t, host, text)
		refused(t, c, host, "says not whose")
	}
	// Does what the error advises.
	if err := os.Remove(host); err != nil {
		t.Fatal(err)
	}
	other.ServiceHost = "renamed"
	kept := identity(t, other)
	if kept.UUID != id.UUID {
		t.Errorf("%s, want %s", kept.UUID, id.UUID)
	}
	closed(t, kept)
	refused(t, c, "is of host renamed")
}

func TestIdentityFromNovasFile(t *testing.T) {
	nova := filepath.Join(t.TempDir(), "compute_id")
	c := IdentityConfig{Dir: t.TempDir(), UUIDFile: nova, ServiceHost: "compute1"}
	refused(t, c, "agent.host.uuid_file", nova)
	write(t, nova, hostUUID)
	id := identity(t, c)
	if id.UUID != hostUUID || id.New {
		t.Errorf("%+v", id)
	}
	closed(t, id)
	if _, err := os.Stat(filepath.Join(c.Dir, "compute_id")); err == nil {
		t.Error("a uuid was made beside Nova's")
	}
	write(t, nova, "99999999-0000-4000-8000-000000000001")
	refused(t, c, "this host was "+hostUUID)
	// A directory where a file should be cannot be read.
	refused(t, IdentityConfig{Dir: t.TempDir(), UUIDFile: t.TempDir(), ServiceHost: "compute1"}, "cannot be read")
	refused(t, IdentityConfig{Dir: filepath.Join(nova, "below"), ServiceHost: "compute1"}, "agent.host.state_dir", "may write")
}

func TestMachineIDIsNotTheFile(t *testing.T) {
	files := tree(t, "one-node")
	id := MachineID(files)
	if len(id) != 32 || strings.Contains("0123456789abcdef0123456789abcdef", id) || id != MachineID(files) {
		t.Errorf("id %q", id)
	}
	if id := MachineID(fstest.MapFS{}); id != "" {
		t.Errorf("without a file: %q", id)
	}
}
