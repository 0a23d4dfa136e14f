package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The doctor's file requires 60, all services are of version 61.
func TestDoctorUpgradeNamesGatewaysThatDiffer(t *testing.T) {
	one, other := (&listingCell{}).registered(1, 2), (&listingCell{}).registered(1, 2)
	c := newNovaCell(t, legacytest.MariaDB, 2, one.serve(t))
	text := strings.Replace(readFile(t, c.config), fmt.Sprintf("%q]", c.replica), fmt.Sprintf("%q, %q]", c.replica, other.serve(t)), 1)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	reader := func(name string, required int32, down time.Duration) *cellgatev1.GateReader {
		return &cellgatev1.GateReader{Gateway: name, RequiredVersion: proto.Int32(required), ServiceDownTime: durationpb.New(down)}
	}
	of := func(required int32, readers ...*cellgatev1.GateReader) *cellgatev1.Gate {
		return &cellgatev1.Gate{State: cellgatev1.Gate_LEGACY, Reason: "as it is", RequiredVersion: required, Readers: readers}
	}
	for name, test := range map[string]struct {
		one, other           *cellgatev1.Gate
		status               int
		required, requiredIs string
		down                 string
	}{
		"all as in the file":            {one: of(60, reader("g1", 60, time.Minute)), other: of(60, reader("g2", 60, time.Minute))},
		"a cell and gateways of before": {one: of(60, &cellgatev1.GateReader{Gateway: "g1"})},
		"nobody reports":                {one: of(0)},
		"a replica hears another number": {
			one: of(60, reader("g1", 60, time.Minute)), other: of(62, reader("g2", 62, time.Minute)), status: exitRefused, requiredIs: unhealthy,
			required: "the gateways differ: gateway g2 requires 62, gateway g1 requires 60, and this file has 60; the highest counts: the gate waits for 2 services of a version below 62, or closes",
		},
		"all services are new enough for both": {
			one: of(61, reader("g1", 60, time.Minute), reader("g2", 61, time.Minute)), requiredIs: warned,
			required: "the gateways differ: gateway g2 requires 61, gateway g1 requires 60, and this file has 60",
		},
		"the file's is another": {
			one: of(62, reader("g1", 62, time.Minute)), status: exitRefused, requiredIs: unhealthy, required: "the gateways require 62, and this file has 60; the highest counts: the gate waits for 2 services",
		},
		"one that has none":                   {one: of(60, reader("g1", 60, time.Minute), reader("g2", 0, time.Minute)), requiredIs: warned, required: "gateway g1 requires 60, gateway g2 requires none"},
		"a cell of before that requires more": {one: of(62), status: exitRefused, requiredIs: unhealthy, required: "the gateways require 62, and this file has 60"},
		"times of gateways": {
			one:  of(60, reader("g1", 60, time.Minute), reader("g2", 60, time.Hour)),
			down: "the gateways differ: gateway g2 has 1h0m0s, gateway g1 has 1m0s, and this file has 1m0s",
		},
		"the file's time": {one: of(60, reader("g1", 60, time.Hour)), down: "the gateways have 1h0m0s, and this file has 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			one.gate, other.gate = test.one, test.other
			rows := diagnoses(t, test.status, "upgrade", "--config", c.config)
			for check, want := range map[string][2]string{"cell1 required_version": {test.requiredIs, test.required}, "cell1 service_down_time": {warned, test.down}} {
				if want[1] != "" {
					must(t, rows, check, want[0], want[1])
				} else if r, is := rows[check]; is {
					t.Errorf("it says %v", r)
				}
			}
		})
	}
}

// Two gateways of a cell of which one requires a newer nova-compute than there is: who does is
// said wherever one looks for why the gate waits.
func TestGatewaysThatRequireDifferentVersionsAreNamed(t *testing.T) {
	source := legacytest.NewCell(t, legacytest.MariaDB.Shared(t))
	novaRows(t, source, 2, 60)
	cell := launch(t, true, append(cellArgs(filepath.Join(t.TempDir(), "cell1")), "--metrics", "127.0.0.1:0")...)
	metrics := cell.await(`msg="metrics are served" metrics=(\S+)`)[1]
	at := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	var doors, webs, files []string
	for i, asks := range []string{"required_version: 60", "required_version: 61, service_down_time: 90s"} {
		file := filepath.Join(t.TempDir(), fmt.Sprintf("gateway%d.yaml", i+1))
		text := fmt.Sprintf("gateway:\n  grpc: 127.0.0.1:0\n  http: 127.0.0.1:0\n  drain_delay: 0s\n  cells: [{name: cell1, uuid: %s, replicas: [%q]}]\n"+
			"  legacy: [{cell: cell1, database: %q, %s, refresh: 200ms}]\n", novaCellUUID, at, source.URL, asks)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		started := launch(t, true, "gateway", "--config", file).await(`msg="gateway starts" grpc=(\S+) http=(\S+)`)
		doors, webs = append(doors, started[1]), append(webs, started[2])
	}
	told := cell.await(`msg="audit: gateways differ in what they ask of Nova's services[^"]*" .*required_version="gateway (.+) requires 61, gateway (.+) requires 60" service_down_time="gateway .+ has 1m30s, gateway .+ has 1m0s"`)
	high, low := told[1], told[2]
	if !strings.Contains(high, doors[1]) || !strings.Contains(low, doors[0]) {
		t.Errorf("%q requires more than %q; their doors are %v", high, low, doors)
	}
	who := fmt.Sprintf("gateways differ in required_version, and the highest counts: gateway %s requires 61, gateway %s requires 60", high, low)
	for i, door := range doors {
		page := ""
		for until := time.Now().Add(testwait.Limit); strings.Count(page, who) == 0 && time.Now().Before(until); hold(t.Context(), 50*time.Millisecond) {
			page = get(t, "http://"+webs[i]+"/v1/cells/cell1")
		}
		for _, want := range []string{who, `"required_version":60`, `"required_version":61`, `"service_down_time":"60s"`, `"service_down_time":"90s"`} {
			if !strings.Contains(strings.ReplaceAll(page, `": `, `":`), want) {
				t.Errorf("by REST of %s there is no %s: %s", door, want, page)
			}
		}
		out, stderr, status := typed(t.Context(), "", "cells", "cell1", "--addr", door)
		if status != exitDone || !strings.Contains(out, "\nwaits for: "+who+"\n") || strings.Count(out, who) != 1 || !strings.Contains(out, "  61        1m30s ") || !strings.Contains(out, "  60        1m0s ") {
			t.Errorf("by %s: %d\n%s%s", door, status, out, stderr)
		}
		if out, _, _ = typed(t.Context(), "", "cells", "--addr", door); !strings.Contains(out, ", gateways differ in required_version") {
			t.Errorf("by %s:\n%s", door, out)
		}
		// The doctor of either file says so, and that of the lower one too that it is not all well.
		rows := diagnoses(t, exitRefused, "upgrade", "--config", files[i])
		must(t, rows, "cell1 required_version", unhealthy, "the gateways differ: gateway "+high+" requires 61, gateway "+low+" requires 60")
		must(t, rows, "cell1 required_version", unhealthy, "the gate waits for 2 services of a version below 61")
		must(t, rows, "cell1 service_down_time", warned, "gateway "+high+" has 1m30s")
	}
	if page := get(t, "http://"+metrics+"/metrics"); !strings.Contains(page, `cellgate_cell_gate_gateways_differing{cell="cell1",replica="cell1"} 1`) {
		t.Error("the metric does not say so")
	}
}
