package comparison

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// refreshEvery is Nova's scheduler_driver_task_period: 60 s.
const refreshEvery = 60 * time.Second

// TestComparison runs the three schedulers one after the other on equal clouds. No host takes more
// than it has, and every choice is counted. In the long run (make bench-seed), cellgate must make
// fewer wrong choices than the caching scheduler. While instances come and go, it must also place
// more per second than both others.
func TestComparison(t *testing.T) {
	out := os.Getenv("CELLGATE_COMPARISON")
	hosts, every := 60, 300*time.Millisecond
	churn := load{callers: 8, duration: 500 * time.Millisecond, changes: 50, full: 0.85, churn: true, seed: 1}
	fill := load{callers: 8, duration: 500 * time.Millisecond, changes: 50, full: 0.3, seed: 2}
	if out != "" {
		hosts, every = 1000, refreshEvery
		churn.callers, churn.duration, churn.changes = 32, 130*time.Second, 100
		fill.callers, fill.duration, fill.changes = 32, 70*time.Second, 100
	}
	var text strings.Builder
	var runs []cloudRun
	for _, l := range []load{churn, fill} {
		tallies := compare(t, hosts, every, l)
		if out == "" || t.Failed() {
			continue
		}
		ours := tallies[2]
		for _, other := range tallies[:2] {
			if l.churn && ours.rate() <= other.rate() {
				t.Errorf("cellgate does not place more: %s, %s", other.brief(), ours.brief())
			}
		}
		if ours.wrongShare() >= tallies[1].wrongShare() {
			t.Errorf("cellgate chooses wrong more often: %s, %s", tallies[1].brief(), ours.brief())
		}
		text.WriteString(table(hosts, l, tallies) + "\n")
		title := fmt.Sprintf("Nearly full (%.0f %% at the start)", 100*l.full)
		if !l.churn {
			title = fmt.Sprintf("Filling (%.0f %% at the start)", 100*l.full)
		}
		runs = append(runs, cloudRun{title, tallies})
	}
	if out != "" {
		must(t, os.MkdirAll(out, 0o755))
		must(t, os.WriteFile(filepath.Join(out, "comparison.svg"), []byte(chart(runs)), 0o644))
		must(t, os.WriteFile(filepath.Join(out, "comparison.md"), []byte(text.String()), 0o644))
	}
}

// compare gives the tallies of legacy, caching and cellgate.
func compare(t *testing.T, hosts int, every time.Duration, l load) (tallies []*tally) {
	server := legacytest.MariaDB.Shared(t)
	for _, way := range []struct {
		name  string
		model func(t *testing.T, w *cloud) model
	}{
		{"legacy", func(t *testing.T, w *cloud) model { return newReadsAll(t, newTables(t, w, server)) }},
		{"caching", func(t *testing.T, w *cloud) model { return newReadsRarely(t, newTables(t, w, server), every) }},
		{"cellgate", func(t *testing.T, w *cloud) model { return newCellgate(t, w) }},
	} {
		name := map[bool]string{true: "churn/", false: "fill/"}[l.churn] + way.name
		t.Run(name, func(t *testing.T) {
			w := newCloud(hosts, l.full, l.seed)
			done := drive(t, way.name, w, way.model(t, w), l)
			t.Log(done.brief())
			if done.placed == 0 || done.attempted != done.placed+done.wrong {
				t.Errorf("placed %d, attempted %d, wrong %d", done.placed, done.attempted, done.wrong)
			}
			tallies = append(tallies, done)
		})
	}
	return tallies
}
