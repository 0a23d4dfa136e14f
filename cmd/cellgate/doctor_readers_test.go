package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// readers are a gate with gateways whose rows are so much older than a moment.
func readersAt(moment time.Time, ages map[string]time.Duration) *cellgatev1.Gate {
	g := &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Reason: "as it is"}
	for name, age := range ages {
		g.Readers = append(g.Readers, &cellgatev1.GateReader{Gateway: name, ReadTo: timestamppb.New(moment.Add(-age)), Lag: durationpb.New(0)})
	}
	return g
}

// Each replica knows of the gateways that report to it. The doctor asks all, and compares what
// they read with what it reads itself.
func TestDoctorUpgradeNamesGatewaysThatAreBehind(t *testing.T) {
	one, other := (&listingCell{}).registered(1, 2), (&listingCell{}).registered(1, 2)
	c := newNovaCell(t, legacytest.MariaDB, 2, one.serve(t))
	text := strings.Replace(readFile(t, c.config), fmt.Sprintf("%q]", c.replica), fmt.Sprintf("%q, %q]", c.replica, other.serve(t)), 1)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	doctor := func() map[string]result {
		t.Helper()
		rows := diagnoses(t, exitDone, "upgrade", "--config", c.config)
		for check := range rows {
			if strings.HasPrefix(check, "cell1 gateway g") && rows[check].Status != warned {
				t.Errorf("%s: %v", check, rows[check])
			}
		}
		return rows
	}
	absent := func(rows map[string]result, checks ...string) {
		t.Helper()
		for _, check := range checks {
			if r, is := rows[check]; is {
				t.Errorf("it says %v", r)
			}
		}
	}
	one.gate = readersAt(c.now, map[string]time.Duration{"g1": 0, "g2": 20 * time.Second})
	rows := doctor()
	must(t, rows, "cell1 gateways", found, "2 report what they read of the tables, the oldest up to 20s before the newest")
	absent(rows, "cell1 gateway g1", "cell1 gateway g2", "cell1 age of the legacy database")

	// The replica says that one is behind, though by now it is not; another replica hears one
	// alone, which is behind what the doctor reads.
	one.gate.Readers[0].BehindSince, one.gate.Readers[0].Imports = timestamppb.New(c.now), true
	behind := "cell1 gateway " + one.gate.Readers[0].GetGateway()
	other.gate = readersAt(c.now, map[string]time.Duration{"g3": 5 * time.Minute})
	rows = doctor()
	must(t, rows, behind, warned, "is behind since "+c.now.UTC().Format(time.RFC3339))
	must(t, rows, behind, warned, "what it imports into the cell is that old")
	must(t, rows, "cell1 gateway g3", warned, "reads a copy of Nova's database that is behind, now by 5m0s")
	absent(rows, "cell1 gateways", "cell1 age of the legacy database")

	// It is the doctor's own that is behind.
	other.gate = readersAt(c.now, map[string]time.Duration{"g3": -10 * time.Minute})
	one.gate = readersAt(c.now, map[string]time.Duration{"g1": -10 * time.Minute, "g2": 0})
	for _, r := range one.gate.GetReaders() {
		if r.GetGateway() == "g2" {
			r.Unreadable = "no route"
		}
	}
	// One that cannot read is named: it holds a gate that is not NATIVE.
	one.gate.State = cellgatev1.Gate_NATIVE
	rows = doctor()
	must(t, rows, "cell1 age of the legacy database", warned, "its newest row is 10m0s older than what a gateway has read")
	must(t, rows, "cell1 gateway g2", warned, "cannot read the legacy database: no route; it tells the cell of no host that Nova's operators take out of service")
	must(t, rows, "cell1 gateways", found, "2 report what they read of the tables")
	absent(rows, "cell1 gateway g1", "cell1 gateway g3")
	one.gate.State = cellgatev1.Gate_SHADOW
	must(t, diagnoses(t, exitRefused, "upgrade", "--config", c.config), "cell1 gateway g2", unhealthy, "it imports nothing, and its report holds the gate")
	one.gate = readersAt(c.now, map[string]time.Duration{"g1": 0})
	other.gate = nil
	must(t, doctor(), "cell1 gateways", found, "1 reports what it reads of the tables")

	// Cells and gateways of before say nothing.
	one.gate, other.gate = &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY}, nil
	absent(doctor(), "cell1 gateways", "cell1 age of the legacy database")
}

// Two gateways of a cell, one of which reads a copy of the database that is behind: it is named
// wherever one looks.
func TestAGatewayThatReadsACopyThatIsBehindIsSeenFromEverywhere(t *testing.T) {
	testlong.Only(t, "TestDoctorUpgradeNamesGatewaysThatAreBehind")
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		source, behind := legacytest.NewCell(t, k.Shared(t)), legacytest.NewCell(t, k.Shared(t))
		for _, d := range []*legacytest.Database{source, behind} {
			novaRows(t, d, 2, 60)
		}
		old := source.Now(t).Truncate(time.Second).Add(-5 * time.Minute)
		behind.Exec(t, "UPDATE services SET last_seen_up = '"+old.Format("2006-01-02 15:04:05")+"', updated_at = NULL")
		cell := launch(t, true, append(cellArgs(filepath.Join(t.TempDir(), "cell1")), "--metrics", "127.0.0.1:0")...)
		metrics := cell.await(`msg="metrics are served" metrics=(\S+)`)[1]
		at := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
		var doors, webs []string
		var files []string
		for i, d := range []*legacytest.Database{source, behind} {
			file := filepath.Join(t.TempDir(), fmt.Sprintf("gateway%d.yaml", i+1))
			text := fmt.Sprintf("gateway:\n  grpc: 127.0.0.1:0\n  http: 127.0.0.1:0\n  drain_delay: 0s\n  cells: [{name: cell1, uuid: %s, replicas: [%q]}]\n"+
				"  legacy: [{cell: cell1, database: %q, required_version: 68, refresh: 200ms, service_down_time: 1h}]\n", novaCellUUID, at, d.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			started := launch(t, true, "gateway", "--config", file).await(`msg="gateway starts" grpc=(\S+) http=(\S+)`)
			doors, webs = append(doors, started[1]), append(webs, started[2])
		}
		told := cell.await(`msg="audit: a gateway reads a copy of Nova's tables that is behind" .*gateway="?([^"]+\))"? since=\S+ by=(?:4m59|5m)\S* .*newest_by="?([^"]+\))"?`)
		name, newest := told[1], told[2]
		if !strings.Contains(name, doors[1]) || !strings.Contains(newest, doors[0]) {
			t.Errorf("%q is behind %q; their doors are %v", name, newest, doors)
		}
		for i, door := range doors {
			// Each has it with the answer to its next report.
			page := ""
			for until := time.Now().Add(testwait.Limit); !strings.Contains(page, `"behind_since"`) && time.Now().Before(until); hold(t.Context(), 50*time.Millisecond) {
				page = get(t, "http://"+webs[i]+"/v1/cells/cell1")
			}
			if strings.Count(page, `"behind_since"`) != 1 || strings.Count(page, `"read_to"`) != 2 {
				t.Errorf("by REST of %s: %s", door, page)
			}
			out, stderr, status := typed(t.Context(), "", "cells", "cell1", "--addr", door)
			if status != exitDone || !strings.Contains(out, "\nbehind: gateway "+name+" reads a copy of Nova's database that is behind since ") || !strings.Contains(out, "\n"+newest+" ") {
				t.Errorf("by %s: %d\n%s%s", door, status, out, stderr)
			}
			if out, _, _ = typed(t.Context(), "", "cells", "--addr", door); !strings.Contains(out, ", 1 gateway behind") {
				t.Errorf("by %s:\n%s", door, out)
			}
		}
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", files[0]), "cell1 gateway "+name, warned, "reads a copy of Nova's database that is behind since ")
		if err := os.WriteFile(files[1], []byte(strings.Replace(readFile(t, files[1]), "service_down_time: 1h", "service_down_time: 60s", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", files[1]), "cell1 age of the legacy database", warned, "older than what a gateway has read")
		if page := get(t, "http://"+metrics+"/metrics"); !strings.Contains(page, `cellgate_cell_gate_gateways_behind{cell="cell1",replica="cell1"} 1`) || strings.Contains(page, doors[1]) {
			t.Error("the metrics do not say so, or name it")
		}
	})
}
