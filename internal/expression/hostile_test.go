package expression

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cellgate/schedule"
)

// hostile are texts that would take long on aLargeHost, with their expected result.
var hostile = map[string]string{
	`facts.large.text.matches("(a|aa|aaa)*b{400}c")`: "too costly",
	`facts.large.text.contains(facts.large.text)`:    "too costly",
	`size(facts.large.text) > 3`:                     "too costly",
	`int(facts.large.text) > 3`:                      "too costly",
	`facts.large.text + facts.large.text != ""`:      "too costly",
	`facts == facts`:                                 "too costly",
	`facts.large.maps == facts.large.maps`:           "too costly",
	`facts.large.maps == facts.large.keys`:           "false",
	`facts.large.numbers == [1.0]`:                   "false",
	`facts.large.maps in [[1], facts.large.maps]`:    "too costly",
	`[` + strings.Repeat("facts,", 150) + `1] == [` + strings.Repeat("facts,", 150) + `1]`:                                                "too costly",
	`[` + strings.Repeat("facts.few,", 90) + `1] == [` + strings.Repeat("facts.few,", 90) + `1]`:                                          "too costly",
	`facts.large.short.matches("^(a|b){100}c$")`:                                                                                          "false",
	`["a", "b", "c", "d", "e", "f", "g"].all(t, (facts.large.short + "` + strings.Repeat("a", 300) + `").matches("(a|b){200}c") || true)`: "too costly",
	`facts.few == facts.few`:                  "",
	`facts.large.keys.exists(k, true)`:        "too costly",
	`facts.large.numbers.all(n, n >= 0.0)`:    "too costly",
	`facts.large.numbers.exists(n, n >= 0.0)`: "",
	`-1.0 in facts.large.numbers`:             "too costly",
}

// aLargeHost has facts of nearly as many bytes as a host may have.
func aLargeHost() schedule.Host {
	h := aHost()
	maps, keys, numbers := []any{}, map[string]any{}, []any{}
	for i := range 2000 {
		maps = append(maps, map[string]any{"name": fmt.Sprint("volume-", i), "gb": float64(i)})
		keys[fmt.Sprint("k", i)] = true
		numbers = append(numbers, float64(i))
	}
	few := map[string]any{}
	for i := range 100 {
		few[fmt.Sprint("k", i)] = float64(i)
	}
	large := map[string]any{
		"text": strings.Repeat("a", 60_000), "short": "aaaa", "maps": maps, "keys": keys, "numbers": numbers,
	}
	spaces := map[string]string{}
	for name, facts := range map[string]any{"few": few, "large": large} {
		text, err := json.Marshal(facts)
		if err != nil {
			panic(err)
		}
		spaces[name] = string(text)
	}
	h.Namespaces = schedule.NewNamespaces(spaces)
	return h
}

func TestNoExpressionTakesLongOverAHost(t *testing.T) {
	h := aLargeHost()
	for text, want := range hostile {
		if got := ask(t, text, &schedule.Request{}, h); got != want {
			t.Errorf("%.80s: %q, want %q", text, got, want)
		}
	}
}

// A pattern may have counted repetitions, as long as they are not too large.
func TestPatternsThatCount(t *testing.T) {
	for text, want := range map[string]string{
		`host.nodename.matches("^n[0-9]{1,4}$")`:   "",
		`matches(host.nodename, "^n[0-9]{2,}$")`:   "false",
		`host.nodename.matches("(?i)^N(7|8){1}$")`: "",
		`host.nodename.matches("^\\pL+[0-9]$")`:    "",
	} {
		if got := ask(t, text, &schedule.Request{}, aHost()); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`host.nodename.matches("a{1000}b{1000}")`:                            "line 1, column 23: invalid matches argument: a pattern of",
		`host.nodename.matches("` + strings.Repeat(`\\pL`, 150) + `")`:       "a pattern of",
		`host.nodename.matches(facts.a.b)`:                                   "the pattern of matches must be a text in the expression",
		`"a".matches("b" + host.nodename)`:                                   "the pattern of matches must be a text in the expression",
		`host.nodename.matches("a{600}") || host.nodename.matches("b{600}")`: "line 1, column 58: the patterns come to 1202 steps",
		`host.nodename.matches("` + strings.Repeat("a", 513) + `")`:          "a pattern of 513 bytes",
		`host.nodename.matches("a{1001}")`:                                   "line 1, column 23: invalid matches argument: error parsing regexp: invalid repeat count",
		`matches(host.nodename, "[")`:                                        "line 1, column 24: invalid matches argument: error parsing regexp",
	} {
		if _, err := Compile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	e := schedule.NewTable().Edit()
	e.PutHost(aLargeHost())
	table := e.Table()
	for text := range hostile {
		p, err := Compile(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%.48s", text), func(b *testing.B) {
			for b.Loop() {
				if _, err := table.Propose(&schedule.Query{
					Request: &schedule.Request{Expression: p}, Limit: 1,
					Rules: &schedule.Rules{Filters: []string{schedule.ExpressionFilter}, Weighers: []schedule.Weigher{}},
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
