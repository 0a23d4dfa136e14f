package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if err := rewrite(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "by hand\n"+marker+tables() {
		t.Errorf("%v\n%.200s", err, got)
	}
	if err := os.WriteFile(path, []byte("no marker"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path); err == nil {
		t.Error("a page without the marker is taken")
	}
}
