package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testwait"
)

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
	differ := regexp.MustCompile(`gateways differ in required_version, and the highest counts: gateway (\S+ \S+|\S+) requires 61, gateway (\S+ \S+|\S+) requires 60`)
	var found []string
	becomes(t, "no page says that the gateways differ", func() bool {
		found = differ.FindStringSubmatch(get(t, "http://"+webs[0]+"/v1/cells/cell1"))
		return found != nil
	})
	who, high, low := found[0], found[1], found[2]
	if !strings.Contains(high, doors[1]) || !strings.Contains(low, doors[0]) {
		t.Errorf("%q requires more than %q; their doors are %v", high, low, doors)
	}
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
		// The doctor of either file gives what the gate waits for.
		must(t, diagnoses(t, exitRefused, "upgrade", "--config", files[i]), "cell1 gate", noted, who)
	}
	if page := get(t, "http://"+metrics+"/metrics"); !strings.Contains(page, `cellgate_cell_gate_gateways_differing{cell="cell1",replica="cell1"} 1`) {
		t.Error("the metric does not say so")
	}
}
