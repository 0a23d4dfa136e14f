package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/internal/security/testca"
	"cellgate/internal/testaddr"
	"cellgate/internal/testwait"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// diagnoses runs a doctor and gives its rows by check.
func diagnoses(t *testing.T, wantStatus int, args ...string) map[string]result {
	t.Helper()
	out, stderr, status := typed(t.Context(), "", append([]string{"doctor"}, append(args, "-o", "json")...)...)
	var report struct {
		OK     bool
		Checks []result
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("doctor %v: status %d, %v in\n%s%s", args, status, err, out, stderr)
	}
	if status != wantStatus || report.OK != (wantStatus == exitDone) {
		t.Errorf("doctor %v: status %d, want %d\n%s", args, status, wantStatus, out)
	}
	rows := map[string]result{}
	for _, r := range report.Checks {
		rows[r.Check] = r
		if (r.Status == unhealthy || r.Status == warned) && r.Do == "" {
			t.Errorf("%v does not say what to do", r)
		}
	}
	return rows
}

// must requires a check with a status and a text.
func must(t *testing.T, rows map[string]result, check, status, words string) {
	t.Helper()
	r, ok := rows[check]
	if !ok || r.Status != status || !strings.Contains(r.What, words) {
		t.Errorf("check %q: %+v, want %s and %q; there are %q", check, r, status, words, slices.Sorted(maps.Keys(rows)))
	}
}

func TestDoctorOfACellThatIsNotThereYet(t *testing.T) {
	data := filepath.Join(t.TempDir(), "deep", "cell1")
	rows := diagnoses(t, exitDone, append([]string{"cell"}, cellArgs(data)[1:]...)...)
	must(t, rows, "configuration", found, "fits")
	must(t, rows, "shard "+data, found, "not there yet")
	must(t, rows, "lock of the shard", found, "is free")
	must(t, rows, "cell.grpc 127.0.0.1:0", found, "is free")
	for _, check := range []string{"disk", "disk's speed", "open files"} {
		if rows[check].Status == "" {
			t.Errorf("%s was not looked at", check)
		}
	}
	if _, err := os.Stat(filepath.Dir(data)); !os.IsNotExist(err) {
		t.Errorf("the doctor made a directory: %v", err)
	}
}

// The doctor of a running system sees which process uses what, and disturbs nothing.
func TestDoctorNextToARunningSystem(t *testing.T) {
	s := startSystem(t, 2, 2, nil)
	s.awaitServing()
	cell := append([]string{"cell"}, s.cells[0].args[1:]...)
	data, cellAddr := s.cells[0].args[8], s.cells[0].args[6]
	before := contentsOf(t, data)
	rows := diagnoses(t, exitDone, cell...)
	must(t, rows, "shard "+data, found, "is of cell cell1")
	must(t, rows, "lock of the shard", noted, "is held by process ")
	must(t, rows, "cell.grpc "+cellAddr, warned, "is in use")
	if after := contentsOf(t, data); after["FORMAT"] != before["FORMAT"] || after["LOCK"] != before["LOCK"] {
		t.Errorf("the shard's directory changed: %v, then %v", before, after)
	}
	rows = diagnoses(t, exitDone, append([]string{"gateway"}, s.gateway.args[1:]...)...)
	must(t, rows, "gateway.grpc "+s.api, warned, "is in use")
	must(t, rows, "cell cell1 at "+cellAddr, found, "2 of 2 hosts are up")
	must(t, rows, "clock of cell cell1 at "+cellAddr, found, "apart from this one")
	rows = diagnoses(t, exitDone, append([]string{"agent"}, s.agents[0].args[1:]...)...)
	must(t, rows, "cell cell1 at "+cellAddr, found, "takes reports of this cell's hosts")

	// Faults: the cells' addresses are exchanged, a cell's directory and port are given to another
	// cell, a shard is too new, and a cell is missing.
	other := s.cells[1].args[6]
	rows = diagnoses(t, exitRefused, "gateway", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--cell", "cell1=c0000000-0000-4000-8000-000000000001@"+other, "--cell", "cell2="+s.api, "--cell", "cell3="+testaddr.Dead(t))
	must(t, rows, "cell cell1 at "+other, unhealthy, "answers as cell cell2 (c0000000-0000-4000-8000-000000000002)")
	must(t, rows, "cell cell2 at "+s.api, unhealthy, "gives no answer: does not serve this call")
	rows = diagnoses(t, exitRefused, "agent", "--cell", "cell1", "--hosts", "2", "--replica", other)
	must(t, rows, "cell cell1 at "+other, unhealthy, "is cell cell2, which refuses the agents of cell cell1")
	rows = diagnoses(t, exitRefused, "agent", "--cell", "cell1", "--hosts", "2", "--replica", s.api)
	must(t, rows, "cell cell1 at "+s.api, unhealthy, "is no cell")

	s.cells[0].kill()
	cell[2] = "cell9"
	rows = diagnoses(t, exitRefused, cell...)
	must(t, rows, "shard "+data, unhealthy, "is of cell cell1")
}

// awaitServing waits until the health services and /readyz agree, and every host is up.
func (s *realSystem) awaitServing() {
	s.t.Helper()
	cellAddrs := map[string]string{s.api: cellgatev1.Scheduler_ServiceDesc.ServiceName}
	for _, c := range s.cells {
		cellAddrs[c.args[6]] = cellv1.CellScheduler_ServiceDesc.ServiceName
	}
	for addr, service := range cellAddrs {
		conn, err := rpc.Dial(addr)
		if err != nil {
			s.t.Fatal(err)
		}
		s.await(testwait.Limit, addr+" is serving", func(ctx context.Context) (bool, string) {
			state, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
			return state.GetStatus() == healthpb.HealthCheckResponse_SERVING, fmt.Sprint(state.GetStatus(), err)
		})
		if err := conn.Close(); err != nil {
			s.t.Error(err)
		}
	}
	s.await(testwait.Limit, "every host is up", func(ctx context.Context) (bool, string) {
		list, err := cellgatev1.NewCellsClient(s.conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
		n := 0
		for _, c := range list.GetCells() {
			n += int(c.GetHostsUp())
		}
		return n == s.hosts, fmt.Sprintf("%d of %d hosts, %v", n, s.hosts, err)
	})
}

func TestDoctorOfAGateway_ManyCellsHang_AreAskedAtOnce(t *testing.T) {
	const cells = 20
	args := []string{"gateway", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	for i := range cells {
		args = append(args, "--cell", fmt.Sprintf("cell%d=%s", i, listen(t).Addr())) // and nobody accepts
	}
	began := time.Now()
	diagnoses(t, exitRefused, args...)
	if took := time.Since(began); took > cells*askWithin/2 {
		t.Errorf("%d cells, each asked for %v, took %v", cells, askWithin, took)
	}
}

// A caller whose certificate or token has another role, or is for other hosts, learns that from the
// doctor.
func TestDoctorKnowsWhoseCredentialsTheseAre(t *testing.T) {
	s := newSecured(t)
	long, longKey := s.ca.Write(s.dir, "long", testca.Leaf{Server: true, To: time.Now().AddDate(1, 0, 0)})
	serve := []string{"--tls-cert", long, "--tls-key", longKey, "--tls-client-ca", s.caFile, "--tls-client-cert-optional", "--tls-tokens", s.path("tokens.yaml")}
	data := t.TempDir()
	p := launch(t, true, append(append(cellArgs(data), "--metrics", "127.0.0.1:0"), serve...)...)
	web := p.await(`msg="metrics are served" metrics=(\S+)`)[1]
	at := p.await(`msg="cell starts".* grpc=(\S+)`)[1]
	p.await(`msg="cell is ready"`)
	// The cell alone, which in this configuration requires a certificate of every caller.
	alone := []string{"cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--grpc", at, "--metrics", web, "--data", data}
	rows := diagnoses(t, exitDone, append(alone, serve...)...)
	must(t, rows, "cell.grpc "+at, warned, "is in use")

	check := "cell cell1 at " + at
	agent := func(status int, more ...string) map[string]result {
		t.Helper()
		return diagnoses(t, status, append([]string{"agent", "--cell", "cell1", "--replica", at, "--hosts", "2", "--tls-ca", s.caFile}, more...)...)
	}
	token := func(role security.Role) string {
		return testca.Put(s.dir, "token-"+string(role), []byte(s.tokens[role]))
	}
	cert := func(name, uri string) []string {
		c, k := s.ca.Write(s.dir, name, testca.Leaf{URIs: []string{uri}, To: time.Now().AddDate(1, 0, 0)})
		return []string{"--tls-cert", c, "--tls-key", k}
	}
	rows = agent(exitRefused, "--tls-token-file", token(security.Reader))
	must(t, rows, check, unhealthy, "does not admit this agent")
	rows = agent(exitDone, "--tls-token-file", token(security.Agent))
	must(t, rows, check, found, "takes reports of this cell's hosts")
	rows = agent(exitRefused, cert("other", "cellgate://agent/cell2-*")...)
	must(t, rows, "agent.tls.cert", unhealthy, "is of the agent of cell2-*, not of cell1-r01-h001 (and 1 more of 2 hosts)")
	rows = agent(exitRefused, cert("reader", "cellgate://reader/x")...)
	must(t, rows, "agent.tls.cert", unhealthy, "is of the role reader, not agent")
	rows = agent(exitDone, cert("own", "cellgate://agent/cell1-*")...)
	must(t, rows, "agent.tls.cert", found, "is of the role agent")
}

// What keeps a gateway from serving Nova's bus and the Placement API is found before its start.
func TestDoctorOfAGateway_BusAndPlacement_AreExamined(t *testing.T) {
	l := listen(t)
	args := []string{
		"gateway", "--cell", "cell1=" + testaddr.Dead(t), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--bus-enabled", "--bus-transport-url", "rabbit://u:p@127.0.0.1/", "--bus-write-allocations", "--bus-ca", "/nonexistent/ca.pem",
		"--placement-enabled", "--placement-listen", l.Addr().String(), "--placement-keystone-auth-url", "http://127.0.0.1:1/v3",
		"--placement-keystone-username", "placement", "--placement-keystone-password-file", "/nonexistent/password",
	}
	rows := diagnoses(t, exitRefused, args...)
	must(t, rows, "gateway.placement.listen "+l.Addr().String(), warned, "is in use")
	report, _, _ := typed(t.Context(), "", append([]string{"doctor", "-o", "json"}, args...)...)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit) // for a gateway that serves
	defer cancel()
	_, start, status := typed(ctx, "", args...)
	for _, want := range []string{"gateway.bus.ca: open /nonexistent/ca.pem", "gateway.bus.write_allocations: [placement] of gateway.nova_conf must have", "gateway.placement.keystone.password_file: open /nonexistent/password"} {
		if !strings.Contains(report, want) || !strings.Contains(start, want) || status != exitRefused {
			t.Errorf("status %d; the doctor or the start does not say %s:\n%s%s", status, want, report, start)
		}
	}
}

// A cell does not start on a damaged table, and names it. Doctor does not read tables; it fails for a directory that
// cannot be made.
func TestDoctorAndStart_DamagedShard_StartNamesTheFile(t *testing.T) {
	data := t.TempDir()
	args := append([]string{"cell"}, cellArgs(data)[1:]...)
	for range 2 { // the second start writes the first one's data to a table
		p := launch(t, true, cellArgs(data)...)
		p.await(`msg="cell is ready"`)
		p.stop()
	}
	rows := diagnoses(t, exitDone, args...)
	must(t, rows, "shard "+data, found, "is of cell cell1")
	tables, err := filepath.Glob(filepath.Join(data, "pebble", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v, %v", tables, err)
	}
	text := []byte(readFile(t, tables[0]))
	for i := range text {
		text[i] ^= 0xff
	}
	testca.Put(filepath.Dir(tables[0]), filepath.Base(tables[0]), text)
	fails(t, cellArgs(data), "data directory "+data, filepath.Base(tables[0]), "bring back a copy of the directory")

	file := testca.Put(t.TempDir(), "file", nil)
	rows = diagnoses(t, exitRefused, append([]string{"cell"}, cellArgs(filepath.Join(file, "below"))[1:]...)...)
	must(t, rows, "shard "+filepath.Join(file, "below"), unhealthy, "cannot be made: "+file+" is a file")
}

func TestDoctor_SeveralProblems_ListsAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cell.yaml")
	if err := os.WriteFile(file, []byte("cell:\n  name: a\n  dta: x\n  uuid: u\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, status := typed(t.Context(), "", "doctor", "cell", "--config", file)
	for _, want := range []string{
		file + ":3:", "unknown key cell.dta; did you mean cell.data?", file + ":4:", `cell.uuid: "u" is not a uuid`, "cell.data: must be set",
		"CHECK", "WHAT TO DO", "open files", "3 failures",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("does not say %q:\n%s", want, out)
		}
	}
	if status != exitRefused || !strings.Contains(stderr, "something failed") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

// Of thousands of hosts the first are named, the others counted.
func TestExamine_ManyResults_OthersAreCounted(t *testing.T) {
	out := examine("cell1 ", 30, mostNamed, []check[int]{{"hosts", func(n int) (all results) {
		for i := range n {
			all = append(all, diagnose(warned, "is down", "look").named(fmt.Sprint("host ", i))...)
		}
		return append(all, good("all else")...)
	}}})
	if len(out) != 22 || out[19].Check != "cell1 host 19" || out[20].What != "all else" || out[21] != (result{"cell1 hosts", warned, "and 10 more", "look"}) {
		t.Errorf("%+v", out)
	}
}

// No line of the table is wider than 100 columns, and failures are an error.
func TestResultsPrint_WideTexts_AreFolded(t *testing.T) {
	var all results
	for i := range 3 {
		what := fmt.Sprintf("no agent reports compute node %s: Nova's rows speak for it, and the gate waits", novaHostID(i))
		all = append(all, diagnose(unhealthy, what, "start its agent with this cell's replicas: 127.0.0.1:9111").named(fmt.Sprintf("cell1 host host%d", i))...)
	}
	all = append(all, good("%s", strings.Repeat("word ", 60)).named("cell1 gate")...)
	out := &strings.Builder{}
	if err := all.print(out, "table"); err == nil || !strings.Contains(out.String(), "3 failures") {
		t.Errorf("failures are no error, or not counted:\n%s", out)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if len(line) > pageWidth {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// A check that did not run is not ok.
func TestDoctorCounts(t *testing.T) {
	for _, tt := range []struct {
		statuses []string
		want     string
	}{
		{nil, "0 ok, 0 notes, 0 warnings, 0 failures"},
		{[]string{found, noted, warned, unhealthy}, "1 ok, 1 note, 1 warning, 1 failure"},
		{[]string{noted, unhealthy, noted, unhealthy, warned, warned}, "0 ok, 2 notes, 2 warnings, 2 failures"},
	} {
		var all results
		for _, s := range tt.statuses {
			all = append(all, diagnose(s, "y", "z").named("x")...)
		}
		out := &strings.Builder{}
		err := all.print(out, "table")
		if !strings.HasSuffix(out.String(), "\n"+tt.want+"\n") || (err != nil) != slices.Contains(tt.statuses, unhealthy) {
			t.Errorf("%v: %v, want %q in\n%s", tt.statuses, err, tt.want, out)
		}
	}
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

// A file limit that is too low is reported before Pebble reaches it.
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
	for _, name := range []string{"FORMAT", "LOCK"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// summaryCell is a cell's scheduler that reports totals of its hosts.
type summaryCell struct {
	cellv1.UnimplementedCellSchedulerServer
	totals *cellgatev1.Cell
}

func (s summaryCell) GetSummary(context.Context, *cellv1.GetSummaryRequest) (*cellv1.GetSummaryResponse, error) {
	return &cellv1.GetSummaryResponse{Cell: "cell1", Totals: s.totals}, nil
}

// While a cell's gate is not NATIVE, its hosts are those of Nova's tables, and up by these. That there
// is no agent is then no finding.
func TestDoctorOfAGatewayKnowsTheGate(t *testing.T) {
	legacy := "\n  legacy: [{cell: cell1, database: 'mysql://nova@127.0.0.1:1/nova'}]"
	gate := func(s cellgatev1.Gate_State) *cellgatev1.Gate { return &cellgatev1.Gate{State: s} }
	for name, c := range map[string]struct {
		totals              *cellgatev1.Cell
		more, status, words string
	}{
		"legacy":           {&cellgatev1.Cell{Hosts: 5, HostsImported: 5, HostsUp: 4, Gate: gate(cellgatev1.Gate_LEGACY)}, legacy, found, "its hosts are those of Nova's tables; 4 of 5 hosts are up"},
		"legacy, down":     {&cellgatev1.Cell{Hosts: 5, HostsImported: 5, Gate: gate(cellgatev1.Gate_LEGACY)}, legacy, warned, "none of its 5 hosts is up"},
		"nobody reads":     {&cellgatev1.Cell{Hosts: 5, HostsUp: 5, Gate: gate(cellgatev1.Gate_SHADOW)}, "", warned, "gateway.legacy does not name it"},
		"native":           {&cellgatev1.Cell{Hosts: 5, HostsUp: 5, Gate: gate(cellgatev1.Gate_NATIVE)}, legacy, found, "5 of 5 hosts are up"},
		"native, left out": {&cellgatev1.Cell{Hosts: 5, HostsImported: 1, HostsUp: 5, Gate: gate(cellgatev1.Gate_NATIVE)}, legacy, warned, "5 of 5 hosts are up, and 1 have no agent"},
		"no gate":          {&cellgatev1.Cell{Hosts: 5}, "", warned, "none of its 5 hosts is up"},
	} {
		t.Run(name, func(t *testing.T) {
			at := serveCell(t, summaryCell{totals: c.totals})
			file := filepath.Join(t.TempDir(), "gateway.yaml")
			text := fmt.Sprintf("gateway:\n  http: 127.0.0.1:0\n  grpc: 127.0.0.1:0\n  cells: [{name: cell1, replicas: [%q]}]%s\n", at, c.more)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			must(t, diagnoses(t, exitDone, "gateway", "--config", file), "cell cell1 at "+at, c.status, c.words)
		})
	}
}
