package nova

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/internal/testlong"
)

// A case of an unforeseen form agrees or disagrees by itself. Whatever it lacks, the other cases
// are compared.
func TestOddCasesDoNotEndTheRun(t *testing.T) {
	var given []map[string]any
	for _, line := range linesOf(t, bundledGolden) {
		var c map[string]any
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		expected := c["expected"].(map[string]any)
		weighed, _ := expected["weighed"].([]any)
		switch _, sequence := expected["sequence"]; {
		case len(weighed) < 2:
		case sequence && len(given) == 0, !sequence && len(given) == 1:
			given = append(given, c)
		}
	}
	if len(given) != 2 {
		t.Fatalf("%d cases to start from", len(given))
	}
	var lines []string
	add := func(c map[string]any) {
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	// Each path, in lists only of the first element, is deleted or set to null. Without CELLGATE_LONG, every third path
	// is.
	for i, c := range given {
		for k, path := range places(c, "", nil) {
			if k%3 != 0 && !testlong.On() {
				continue
			}
			odd, null := clone(c), (i+k)%2 == 0
			odd["id"] = fmt.Sprintf("%s null %v", strings.ReplaceAll(path, "\x00", "/"), null)
			without(odd, path[1:], null)
			add(odd)
		}
	}
	for _, c := range given {
		c["id"] = "as it was"
		add(c)
	}
	name := filepath.Join(t.TempDir(), "odd.jsonl")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, unreadable := readCases(t, name)
	if len(cases)+len(unreadable) != len(lines) || len(cases) < len(lines)*3/4 || len(unreadable) == 0 {
		t.Errorf("%d of %d cases can be read, %d cannot", len(cases), len(lines), len(unreadable))
	}
	all := goldenScores(t, cases)
	x := all.scoreOf("(cases)")
	t.Logf("%d cases, %d unreadable, %d agree", x.cases, len(unreadable), x.agree)
	if x.cases != len(cases) || x.agree == x.cases || x.agree < len(cases)/3 {
		t.Errorf("%d of %d cases are compared, %d agree", x.cases, len(cases), x.agree)
	}
	whole := scores{}
	for _, c := range cases[len(cases)-len(given):] {
		g := goldenRun{T: t, c: c, all: whole}
		if err := g.run(); c.ID != "as it was" || err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
}

// places are the paths in a case, in lists only those of the first element.
func places(v any, path string, all []string) []string {
	switch x := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(x) {
			all = places(x[k], path+"\x00"+k, append(all, path+"\x00"+k))
		}
	case []any:
		if len(x) > 0 {
			all = places(x[0], path+"\x00#", all)
		}
	}
	return all
}

// without deletes a path of a case, or sets it to null.
func without(v any, path string, null bool) {
	key, rest, more := strings.Cut(path, "\x00")
	switch x := v.(type) {
	case []any:
		without(x[0], rest, null)
	case map[string]any:
		switch {
		case more:
			without(x[key], rest, null)
		case null:
			x[key] = nil
		default:
			delete(x, key)
		}
	}
}

// Cases may draw from several best hosts. They may also have options that affect nothing, or that
// belong to weighers that do not run.
func TestOptionsOfOtherCases(t *testing.T) {
	for _, options := range []map[string]any{
		{"host_subset_size": 3.0},
		{"host_subset_size": 1e6},
		{"available_filters": []any{"nova.scheduler.filters.all_filters"}},
		{"track_instance_changes": false},
		{"num_instances_weight_multiplier": 3.0},
		{"hypervisor_version_weight_multiplier": 1.0},
	} {
		var cases []*goldenCase
		for _, line := range linesOf(t, bundledGolden)[:25] {
			var c map[string]any
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatal(err)
			}
			for k, v := range options {
				c["config"].(map[string]any)[k] = v
			}
			b, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			one, err := parseCase(b)
			if err != nil {
				t.Fatal(err)
			}
			cases = append(cases, one)
			// Marshalling lost the order of the extra specs.
			if one.extraSpecs, err = extraSpecOrder(line); err != nil {
				t.Fatal(err)
			}
		}
		all := goldenScores(t, cases)
		if x := all.scoreOf("(cases)"); x.agree != len(cases) {
			t.Errorf("%v: %v", options, all)
		}
		drawn := scores{}
		replayInto(t, drawn, cases, 4)
		for _, picks := range []string{"single picks", "sequences"} {
			if x := drawn.scoreOf(picks); x.agree != x.cases || x.cases == 0 {
				t.Errorf("%v: %s: %s", options, picks, x.first)
			}
		}
	}
}

// A pick of a host of lower weight disagrees, unless the subset to draw from includes the host.
func TestWrongPicksDisagree(t *testing.T) {
	wrong := 0
	for _, c := range loadCases(t, bundledGolden)[:60] {
		last := len(c.Expected.Weighed) - 1
		if c.Expected.Error != nil || c.Expected.Sequence != nil || last < 1 || near(c.Expected.Weighed[0].Weight, c.Expected.Weighed[last].Weight) {
			continue
		}
		w := c.Expected.Weighed
		w[0], w[last] = w[last], w[0]
		for subset, want := range map[int]bool{1: false, last: false, last + 1: true} {
			c.Config.SubsetSize = &subset
			p, _, err := c.replay()
			if err != nil {
				t.Fatal(err)
			}
			p.rnd = rand.New(rand.NewPCG(0, 0))
			if err := p.run(); (err == nil) != want && !(subset == last && near(w[0].Weight, w[last-1].Weight)) {
				t.Errorf("%s: the worst of %d picked, one of %d drawn: %v", c.ID, last+1, subset, err)
			}
			wrong++
		}
	}
	if wrong < 30 {
		t.Errorf("only %d picks", wrong)
	}
}
