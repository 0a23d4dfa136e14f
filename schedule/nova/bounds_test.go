package nova

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"cellgate/internal/fault"
)

// Filters evaluate hints and extra specs on every host. So Nova's form has the same bounds as the
// typed form, and a JSON query to hosts has a bound on its terms.
func TestHintsAndExtraSpecsAreBounded(t *testing.T) {
	long := strings.Repeat("é", maxValue)
	question := func(terms int) string { return `["and"` + strings.Repeat(",1", terms-2) + "]" }
	many := make([]any, maxHintValues+1)
	for i := range many {
		many[i] = "x"
	}
	for _, c := range []struct {
		at     string
		value  map[string]any
		path   string
		wanted string
	}{
		{"/scheduler_hints", map[string]any{"query": question(maxQueryTerms)}, "", ""},
		{"/scheduler_hints", map[string]any{"query": question(maxQueryTerms + 1)}, `scheduler_hints["query"]`, "asks with 1001 terms, the most is 1000"},
		{"/scheduler_hints", map[string]any{"query": "[" + long + "]"}, `scheduler_hints["query"][0]`, "has 4098 characters, the most is 4096"},
		{"/scheduler_hints", map[string]any{"mine": []any{"", long}}, "", ""},
		{"/scheduler_hints", map[string]any{"mine": []any{"", long + "x"}}, `scheduler_hints["mine"][1]`, "has 4097 characters"},
		{"/scheduler_hints", map[string]any{"same_host": many}, `scheduler_hints["same_host"]`, "has 1025 values, the most is 1024"},
		{"/scheduler_hints", map[string]any{strings.Repeat("x", 256): "1"}, "scheduler_hints", "the name has 256 characters, the most is 255"},
		{"/scheduler_hints", map[string]any{strings.Repeat("x", 256): []any{1.0, 2.0}}, "scheduler_hints", "the name has 256 characters, the most is 255"},
		{"/flavor//extra_specs", map[string]any{"a:b": long}, "", ""},
		{"/flavor//extra_specs", map[string]any{"a:b": long + "x"}, `flavor.extra_specs["a:b"]`, "the value has 4097 characters, the most is 4096"},
		{"/flavor//extra_specs", map[string]any{strings.Repeat("k", 256): ""}, "flavor.extra_specs", "the key has 256 characters, the most is 255"},
	} {
		m := primitive(t)
		put(m, c.at, c.value)
		_, err := new(Options).FromPrimitive(m)
		if c.wanted == "" {
			if err != nil {
				t.Errorf("%s: %v", c.at, err)
			}
			continue
		}
		var e *fault.Error
		if !errors.As(err, &e) || e.Kind != fault.InvalidRequest || len(e.Fields) != 1 ||
			!strings.HasPrefix(e.Fields[0].Path, root+"."+c.path) || !strings.Contains(e.Fields[0].Problem, c.wanted) {
			t.Errorf("%s: %v, want %q of %s", c.at, err, c.wanted, c.path)
		}
	}
}

// docs/reference/api.md states the bounds that the code has.
func TestBoundsAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if c := strings.Split(line, "|"); len(c) == 4 {
			rows[strings.TrimSpace(c[1])] = strings.TrimSpace(c[2])
		}
	}
	for of, most := range map[string]int{
		"extra specs of a flavor, properties of an image, hints (64 in the typed form)": maxPairs,
		"members of a server group; hosts of it":                                        maxMembers,
		"`ignore_hosts`, `force_hosts`, `force_nodes`":                                  maxHosts,
		"aggregates in one set of `member_of`, in `forbidden_aggregates`":               maxAggregates,
		"sets of `member_of`, sets of `any_traits`, overridden resource classes":        maxSets,
		"groups of resources with a suffix, those of `requested_resources` among them":  maxGroups,
		"traits required, forbidden, or in one set":                                     maxTraits,
	} {
		words := strings.Fields(strings.ReplaceAll(rows[of], ",", ""))
		if len(words) == 0 || words[0] != fmt.Sprint(most) {
			t.Errorf("%s: %q, the bound is %d", of, rows[of], most)
		}
	}
}

// A size below 0 is refused as below 0, not as too large.
func TestPageSizesOutOfRange(t *testing.T) {
	for text, want := range map[string]string{
		"-1MB": `must not be below 0, is "-1MB"`, "1TB": `must be at most 16777216 KiB, is "1TB"`, "16777216": "",
	} {
		if _, _, problem := readPageSize(text); problem != want {
			t.Errorf("%s: %q, want %q", text, problem, want)
		}
	}
}
