package shard

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCanonicalFactsAreOneTextForWhatIsTheSame(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                  `{}`,
		" {\"b\": 1,\n \"a\": [ true, null]}": `{"a":[true,null],"b":1}`,
		`{"n":12345678901234567890}`:          `{"n":12345678901234567890}`,
		`{"a":1,"a":2}`:                       `{"a":2}`,
		`{"t":"\u00e4<&>\"\\"}`:               `{"t":"ä<&>\"\\"}`,
		`{"brackets":"{{{{{{{{{{{{{{{{{{{{"}`: `{"brackets":"{{{{{{{{{{{{{{{{{{{{"}`,
		`{"quote":"\\\"[[[[[[[[[[[[[[[[["}`:   `{"quote":"\\\"[[[[[[[[[[[[[[[[["}`,
	} {
		got, err := CanonicalFacts(text)
		if err != nil || got != want {
			t.Errorf("%s becomes %s, %v; want %s", text, got, err, want)
			continue
		}
		if again, err := CanonicalFacts(got); err != nil || again != got {
			t.Errorf("%s becomes %s, %v", got, again, err)
		}
	}
}

// CanonicalFacts is idempotent, and its result is JSON of at most MaxNamespace bytes.
func FuzzCanonicalFacts(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,{"b":"\u0001"}]}`, `{"a":1e400}`, `[]`, `{"a":"` + strings.Repeat("<", 12000) + `"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := CanonicalFacts(text)
		if err != nil {
			return
		}
		if again, err := CanonicalFacts(got); err != nil || again != got || len(got) > MaxNamespace {
			t.Fatalf("%q becomes %q, then %q, %v", text, got, again, err)
		}
		var a, b any
		if json.Unmarshal([]byte(text), &a) != nil || json.Unmarshal([]byte(got), &b) != nil {
			t.Fatalf("%q becomes %q, which is not JSON", text, got)
		}
	})
}
