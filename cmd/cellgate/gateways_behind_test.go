package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

// Two gateways of a cell, one of which reads a copy of the database that is behind: it is named
// wherever one looks.
func TestAGatewayThatReadsACopyThatIsBehindIsSeenFromEverywhere(t *testing.T) {
	testlong.Only(t, "TestShowCellHasAllOfTheGate")
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
		for i, d := range []*legacytest.Database{source, behind} {
			file := filepath.Join(t.TempDir(), fmt.Sprintf("gateway%d.yaml", i+1))
			text := fmt.Sprintf("gateway:\n  grpc: 127.0.0.1:0\n  http: 127.0.0.1:0\n  drain_delay: 0s\n  cells: [{name: cell1, uuid: %s, replicas: [%q]}]\n"+
				"  legacy: [{cell: cell1, database: %q, required_version: 68, refresh: 200ms, service_down_time: 1h}]\n", novaCellUUID, at, d.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
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
			if status != exitDone || !strings.Contains(out, "COUNTS AS BEHIND SINCE") || !strings.Contains(out, "\n"+name+" ") || !strings.Contains(out, "\n"+newest+" ") {
				t.Errorf("by %s: %d\n%s%s", door, status, out, stderr)
			}
			if out, _, _ = typed(t.Context(), "", "cells", "--addr", door); !strings.Contains(out, ", 1 gateway behind") {
				t.Errorf("by %s:\n%s", door, out)
			}
		}
		if page := get(t, "http://"+metrics+"/metrics"); !strings.Contains(page, `cellgate_cell_gate_gateways_behind{cell="cell1",replica="cell1"} 1`) || strings.Contains(page, doors[1]) {
			t.Error("the metrics do not say so, or name it")
		}
	})
}
