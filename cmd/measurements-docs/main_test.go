package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestRender_ResultsOfTheRepository_IsThePage(t *testing.T) {
	page, err := render("../../docs/measurements")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../docs/reference/measurements.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, kept) {
		t.Error("docs/reference/measurements.md is stale: make measurements-doc")
	}
}

func TestDecode_ResultNobodyCanRepeat_IsRefused(t *testing.T) {
	_, err := decode([]byte(`{"title": "t", "shows": "s", "date": "d", "commit": "c", "machine": "m", "tables": [{"columns": ["a"], "rows": [["1", "2"]]}]}`))
	if err == nil || !strings.Contains(err.Error(), "command is missing") || !strings.Contains(err.Error(), "2 cells under 1 columns") {
		t.Errorf("error %v", err)
	}
	if _, err := decode([]byte(`{"titel": "t"}`)); err == nil {
		t.Error("an unknown key is read")
	}
}
