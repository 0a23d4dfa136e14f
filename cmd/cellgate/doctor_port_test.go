package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/internal/testaddr"
)

// doctorKnowsWhoseAPortIs: a port that something else serves is no port to start on, whatever serves it: another
// cell, replica, gateway or fleet, `cellgate dev`, or a program that is no cellgate.
func doctorKnowsWhoseAPortIs(t *testing.T, s *realSystem) {
	door, other := s.cells[0].args[6], s.cells[1].args[6]
	cell := func(status int, at, name, uuid string, more ...string) result {
		t.Helper()
		key := "cell.grpc "
		if strings.Contains(strings.Join(more, " "), "--metrics "+at) {
			key = "cell.metrics "
		} else {
			more = append(more, "--grpc", at)
		}
		r := diagnoses(t, status, append([]string{"cell", "--name", name, "--uuid", uuid, "--data", filepath.Join(t.TempDir(), "d"), "--grpc", "127.0.0.1:0"}, more...)...)[key+at]
		if r.Status == unhealthy && (!strings.HasPrefix(r.Do, "stop what uses it, or give cell.") || !strings.HasSuffix(r.Do, " another address")) {
			t.Errorf("what to do: %+v", r)
		}
		return r
	}
	const one, two = "c0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002"
	const isOne = "is served by cell cell1 (" + one + ")"
	is := func(r result, status, what string) {
		t.Helper()
		if r.Status != status || r.What != what {
			t.Errorf("%+v, want %s: %s", r, status, what)
		}
	}
	is(cell(exitDone, door, "cell1", one), found, isOne+": already running")
	is(cell(exitRefused, door, "cell2", two), unhealthy, isOne+", not by cell cell2 ("+two+")")
	is(cell(exitRefused, door, "cell1", two), unhealthy, isOne+", not by cell cell1 ("+two+")")
	is(cell(exitRefused, door, "cell9", one), unhealthy, isOne+", not by cell cell9 ("+one+")")
	is(cell(exitRefused, door, "cell1", one, "--replica", "b"), unhealthy, isOne+", not by cell cell1 ("+one+"), replica b")
	is(cell(exitRefused, s.api, "cell1", one), unhealthy, "is served by a gateway over cell1, cell2, not by cell cell1 ("+one+")")
	is(cell(exitRefused, s.web, "cell1", one, "--metrics", s.web), unhealthy, "is served by a gateway over cell1, cell2, not by cell cell1 ("+one+")")

	gateway := func(status int, at string, cells ...string) result {
		t.Helper()
		args := []string{"gateway", "--grpc", at, "--http", "127.0.0.1:0"}
		for _, c := range cells {
			args = append(args, "--cell", c)
		}
		return diagnoses(t, status, args...)["gateway.grpc "+at]
	}
	a, b := "cell1="+one+"@"+door, "cell2="+two+"@"+other
	is(gateway(exitDone, s.api, b, a), found, "is served by a gateway over cell1, cell2: already running")
	is(gateway(exitDone, s.api, a), warned, "is served by a gateway over cell1, cell2, not by a gateway over cell1")
	is(gateway(exitRefused, s.api, "cell7="+testaddr.Dead(t)), unhealthy, "is served by a gateway over cell1, cell2, not by a gateway over cell7")
	is(gateway(exitRefused, door, a, b), unhealthy, isOne+", not by a gateway over cell1, cell2")

	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"ok","checks":[{"name":"process","ok":true}]}`)) // as many answer
	}))
	defer foreign.Close()
	at := foreign.Listener.Addr().String()
	is(cell(exitRefused, at, "cell1", one, "--metrics", at), unhealthy, "is in use by something that does not answer as a cellgate would")
}

// Fleets are told apart by their cell and seed, and dev is no cell and no gateway.
func TestDoctorKnowsAFleetAndDevAtAPort(t *testing.T) {
	p := launch(t, true, "agent", "--cell", "cell1", "--replica", testaddr.Dead(t), "--hosts", "2", "--seed", "7", "--metrics", "127.0.0.1:0")
	at := p.await(`msg="metrics are served" metrics=(\S+)`)[1]
	for _, c := range []struct{ cell, seed, status, what string }{
		{"cell1", "7", found, "is served by agents of cell cell1, seed 7: already running"},
		{"cell1", "8", unhealthy, "is served by agents of cell cell1, seed 7, not by agents of cell cell1, seed 8"},
		{"cell2", "7", unhealthy, "is served by agents of cell cell1, seed 7, not by agents of cell cell2, seed 7"},
	} {
		rows := diagnoses(t, exitRefused, "agent", "--cell", c.cell, "--hosts", "2", "--seed", c.seed, "--replica", testaddr.Dead(t), "--metrics", at)
		must(t, rows, "agent.metrics "+at, c.status, c.what)
	}
	dev := launch(t, false, "dev", "--cells", "1", "--hosts", "2", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--data", t.TempDir())
	api := dev.await(`gRPC   (\S+)`)[1]
	door := dev.await(`cells  cell1 (\S+)`)[1]
	rows := diagnoses(t, exitRefused, "gateway", "--grpc", api, "--http", "127.0.0.1:0", "--cell", "cell1="+door)
	must(t, rows, "gateway.grpc "+api, unhealthy, "is served by a gateway over cell1, of cellgate dev, not by a gateway over cell1")
	rows = diagnoses(t, exitRefused, append([]string{"cell"}, append(cellArgs(t.TempDir())[1:], "--grpc", door)...)...)
	must(t, rows, "cell.grpc "+door, unhealthy, "of cellgate dev, not by cell cell1 (")
}
