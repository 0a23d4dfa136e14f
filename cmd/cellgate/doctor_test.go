package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/security/testca"
)

// diagnoses runs a doctor and gives its rows by check.
func diagnoses(t *testing.T, wantStatus int, args ...string) map[string]diagnosis {
	t.Helper()
	out, stderr, status := typed(t.Context(), "", append([]string{"doctor"}, append(args, "-o", "json")...)...)
	var report struct {
		OK     bool
		Checks []diagnosis
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("doctor %v: status %d, %v in\n%s%s", args, status, err, out, stderr)
	}
	if status != wantStatus || report.OK != (wantStatus == exitDone) {
		t.Errorf("doctor %v: status %d, want %d\n%s", args, status, wantStatus, out)
	}
	rows := map[string]diagnosis{}
	for _, r := range report.Checks {
		rows[r.Check] = r
		if (r.Status == unhealthy || r.Status == warned) && r.Do == "" {
			t.Errorf("%v does not say what to do", r)
		}
	}
	return rows
}

// must demands a check with a status and words of what was seen.
func must(t *testing.T, rows map[string]diagnosis, check, status, words string) {
	t.Helper()
	r, ok := rows[check]
	if !ok || r.Status != status || !strings.Contains(r.What, words) {
		t.Errorf("check %q: %+v, want %s and %q; all: %v", check, r, status, words, rows)
	}
}

func TestDoctorOfACellThatIsNotThereYet(t *testing.T) {
	data := filepath.Join(t.TempDir(), "deep", "cell1")
	rows := diagnoses(t, exitDone, append([]string{"cell"}, cellArgs(data)[1:]...)...)
	must(t, rows, "configuration", found, "fits")
	must(t, rows, "shard "+data, found, "not there yet")
	must(t, rows, "lock of the shard", found, "is free")
	must(t, rows, "cell.grpc 127.0.0.1:0", found, "is free")
	for _, check := range []string{"disk", "disk's speed", "clock", "open files", "memory"} {
		if rows[check].Status == "" {
			t.Errorf("%s was not looked at", check)
		}
	}
	if _, err := os.Stat(filepath.Dir(data)); !os.IsNotExist(err) {
		t.Errorf("the doctor made a directory: %v", err)
	}
}

// The doctor of a running system sees who holds what, and disturbs nothing.
func TestDoctorNextToARunningSystem(t *testing.T) {
	s := startSystem(t, 2, 2, nil)
	cell := append([]string{"cell"}, s.cells[0].args[1:]...)
	data, door := s.cells[0].args[8], s.cells[0].args[6]
	before := contentsOf(t, data)
	rows := diagnoses(t, exitDone, cell...)
	must(t, rows, "shard "+data, found, "is of cell cell1")
	must(t, rows, "lock of the shard", found, "cellgate, cell cell1, pid")
	must(t, rows, "cell.grpc "+door, found, "served by cell cell1 (c0000000-0000-4000-8000-000000000001) (serving)")
	if after := contentsOf(t, data); after["FORMAT"] != before["FORMAT"] || after["HOLDER"] != before["HOLDER"] || after["LOCK"] != before["LOCK"] {
		t.Errorf("the shard's directory changed: %v, then %v", before, after)
	}
	rows = diagnoses(t, exitDone, append([]string{"gateway"}, s.gateway.args[1:]...)...)
	must(t, rows, "gateway.grpc "+s.api, found, "served by a gateway (serving)")
	must(t, rows, "gateway.http "+s.web, found, "served by a cellgate whose /healthz says ok")
	must(t, rows, "cell cell1 at "+door, found, "2 of 2 hosts are up")
	must(t, rows, "clock of cell cell1 at "+door, found, "apart from this one")
	rows = diagnoses(t, exitDone, append([]string{"agent"}, s.agents[0].args[1:]...)...)
	must(t, rows, "cell cell1 at "+door, found, "takes reports of this cell's hosts")

	// What is wrong: the cells' addresses exchanged, a cell's directory and port
	// given to another, a shard from the future, and no cell where one should be.
	other := s.cells[1].args[6]
	rows = diagnoses(t, exitRefused, "gateway", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--cell", "cell1=c0000000-0000-4000-8000-000000000001@"+other, "--cell", "cell2="+s.api, "--cell", "cell3="+deadAddress(t))
	must(t, rows, "cell cell1 at "+other, unhealthy, "answers as cell cell2 (c0000000-0000-4000-8000-000000000002)")
	must(t, rows, "cell cell2 at "+s.api, unhealthy, "gives no answer: does not serve this call")
	rows = diagnoses(t, exitRefused, "agent", "--cell", "cell1", "--replica", other)
	must(t, rows, "cell cell1 at "+other, unhealthy, "is cell cell2, which refuses the agents of cell cell1")
	rows = diagnoses(t, exitRefused, "agent", "--cell", "cell1", "--replica", s.api)
	must(t, rows, "cell cell1 at "+s.api, unhealthy, "is no cell")

	s.cells[0].kill()
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(data, "FORMAT"), future, future); err != nil {
		t.Fatal(err)
	}
	rows = diagnoses(t, exitRefused, cell...)
	must(t, rows, "lock of the shard", noted, "did not stop in order")
	must(t, rows, "clock and shard", unhealthy, "the clock was set back")
	cell[2] = "cell9"
	rows = diagnoses(t, exitRefused, cell...)
	must(t, rows, "shard "+data, unhealthy, `is of cell "cell1"`)
}

func TestDoctorTellsAllProblemsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cell.yaml")
	if err := os.WriteFile(file, []byte("cell:\n  name: a\n  dta: x\n  uuid: u\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, status := typed(t.Context(), "", "doctor", "cell", "--config", file)
	for _, want := range []string{
		file + ":3: unknown key cell.dta; did you mean cell.data?", file + `:4: cell.uuid: "u" is not a uuid`, "cell.data: must be set",
		"CHECK", "WHAT TO DO", "clock", "memory", "3 failures",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if status != exitRefused || !strings.Contains(stderr, "something failed") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestDoctorKnowsAPortThatIsNotCellgates(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	addr := l.Addr().String()
	args := append([]string{"cell"}, cellArgs(t.TempDir())[1:]...)
	rows := diagnoses(t, exitRefused, append(args, "--grpc", addr)...)
	must(t, rows, "cell.grpc "+addr, unhealthy, "does not answer as a cellgate")
}

func TestDoctorReadsCertificatesAsTheProcessWould(t *testing.T) {
	ca, dir := testca.New("ours"), t.TempDir()
	long, longKey := ca.Write(dir, "long", testca.Leaf{Server: true, To: time.Now().AddDate(1, 0, 0)})
	soon, soonKey := ca.Write(dir, "soon", testca.Leaf{Server: true})
	past, pastKey := ca.Write(dir, "past", testca.Leaf{Server: true, From: time.Now().Add(-2 * time.Hour), To: time.Now().Add(-time.Hour)})
	for _, c := range []struct {
		cert, key, status, words string
		exit                     int
	}{
		{long, longKey, found, "valid", exitDone},
		{soon, soonKey, warned, soon + ": the certificate ends at", exitDone},
		{past, pastKey, unhealthy, past + ": the certificate ended at", exitRefused},
		{long, soonKey, unhealthy, "private key does not match", exitRefused},
	} {
		args := append([]string{"cell"}, cellArgs(filepath.Join(dir, "data"))[1:]...)
		rows := diagnoses(t, c.exit, append(args, "--tls-cert", c.cert, "--tls-key", c.key)...)
		must(t, rows, "cell.tls", c.status, c.words)
	}
}

// A file limit that is too low is told before pebble meets it.
func TestDoctorSeesLimits(t *testing.T) {
	var had syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	low := had
	low.Cur = leastFiles - 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had); err != nil {
			t.Error(err)
		}
	}()
	rows := diagnoses(t, exitRefused, append([]string{"cell"}, cellArgs(filepath.Join(t.TempDir(), "d"))[1:]...)...)
	must(t, rows, "open files", unhealthy, "at most 1023")
}

func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"FORMAT", "HOLDER", "LOCK"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}
