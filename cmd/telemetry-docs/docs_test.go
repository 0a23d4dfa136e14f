package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/internal/telemetry"
)

func TestThePageIsWhatTheCodeSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, generated, ok := strings.Cut(string(page), marker); !ok || generated != tables() {
		t.Error("docs/reference/telemetry.md is not what the names in the code give: run make gen")
	}
	head, _, _ := strings.Cut(string(page), marker)
	for _, word := range strings.FieldsFunc(head, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		if strings.HasPrefix(word, "cellgate_") && !isMetric(word) {
			t.Errorf("the page names %s, which is no metric", word)
		}
	}
}

func isMetric(word string) bool {
	for _, m := range telemetry.Metrics() {
		if word == m.Name || m.Kind == telemetry.Histogram && strings.HasPrefix(word, m.Name+"_") {
			return true
		}
	}
	return false
}

func TestRewriteKeepsWhatPeopleWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("by hand\n"+marker+"old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"page", path}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "by hand\n"+marker+tables() {
		t.Errorf("%v\n%.200s", err, got)
	}
	if err := os.WriteFile(path, []byte("no marker"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"page", path}); err == nil {
		t.Error("a page without the marker is taken")
	}
	if err := run(nil); err == nil {
		t.Error("no arguments are taken")
	}
}

func TestThePictureHasEverySpanOfTheLastTraceBelowItsParent(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	file := filepath.Join(t.TempDir(), "spans.jsonl")
	var text strings.Builder
	e := json.NewEncoder(&text)
	for _, s := range []telemetry.SpanLine{
		{Trace: "a", Span: "0", Name: "of another trace", Start: start},
		{Trace: "b", Span: "3", Parent: "2", Name: "shard.transaction", Start: start.Add(30), Micros: 0.4},
		{Trace: "b", Span: "2", Parent: "1", Name: "cell.<queue>", Start: start.Add(20), Micros: 500, Error: "CONTENDED"},
		{Trace: "b", Span: "4", Parent: "1", Name: "gateway.admit", Start: start.Add(10), Micros: 7},
		{Trace: "b", Span: "1", Parent: "caller", Name: "cellgate.v1.Scheduler/SelectDestinations", Start: start, Micros: 1000},
	} {
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	spans, err := readTrace(file)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, r := range rows(spans) {
		order = append(order, strings.Repeat(">", r.depth)+r.Span)
	}
	if got := strings.Join(order, " "); got != "1 >4 >2 >>3" {
		t.Errorf("order %s", got)
	}
	svg := filepath.Join(t.TempDir(), "t.svg")
	if err := run([]string{"trace", file, svg}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"trace", file, svg}); err == nil {
		t.Error("a file without spans is drawn")
	}
}

func TestTheTraceThatIsShownIsWellFormed(t *testing.T) {
	text := wellFormed(t, "../../docs/trace.svg")
	for _, want := range []string{"Scheduler/SelectDestinations", "gateway.propose", "cell.propose", "CellScheduler/ClaimBatch", "shard.transaction"} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/trace.svg does not show %s: make trace-picture", want)
		}
	}
}

func wellFormed(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return string(text)
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}
