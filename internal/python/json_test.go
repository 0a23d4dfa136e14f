package python

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// Which texts Python's json.loads accepts and refuses.
func TestJSONAsPythonReadsIt(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`null`, "None"},
		{` [1, 2.0 , "x"] `, "[1, 2.0, 'x']"},
		{`{"a": NaN, "b": [Infinity, -Infinity]}`, "{'a': nan, 'b': [inf, -inf]}"},
		{`{"a": 1, "b": 2, "a": 3}`, "{'a': 3, 'b': 2}"},
		{`-0`, "0"},
		{`-0.0`, "-0.0"},
		{`1E3`, "1000.0"},
		{`1e400`, "inf"},
		{`123456789012345678901234567890`, "123456789012345678901234567890"},
		{`"\u00e9\ud83d\ude00\"\/"`, "é😀\"/"},
		{`"\ud83d x"`, "\ufffd x"},
		{`"\ud83d\u0041"`, "\ufffdA"},
		{`""`, ""},
		{`[[], {}]`, "[[], {}]"},
	} {
		v, err := ParseJSON(c.text)
		if err != nil || v.String() != c.want {
			t.Errorf("%s: %q %v, want %q", c.text, v.String(), err, c.want)
		}
	}
	for _, bad := range []string{
		"", " ", "x", "[", "[1,]", `{"a": 1,}`, `{"a" 1}`, `{a: 1}`, "{'a': 1}", "01", "1.", ".5", "+1", "- 1", "1e", "[1 2]", `"`, `"\x"`,
		`"\u12"`, "\"\t\"", "nan", "tru", "[] []", "\ufeff1", strings.Repeat("[", 100000), "{", `{"a"`, `{"a":`, `"\`, "-",
	} {
		if v, err := ParseJSON(bad); err == nil {
			t.Errorf("%.20q is read as %s", bad, v.String())
		}
	}
}

// Errors are worded as in Python 3.11. testdata/json-errors.json has texts, some of them random,
// and the errors of its json.loads.
func TestJSONIsRefusedInPythonsWords(t *testing.T) {
	b, err := os.ReadFile("testdata/json-errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) < 300 {
		t.Errorf("%d texts", len(want))
	}
	for s, message := range want {
		if _, err := ParseJSON(s); err == nil || err.Error() != message {
			t.Errorf("%q: %v, want %s", s, err, message)
		}
	}
}

// FuzzJSON compares with encoding/json. Both must read the same values. A text that only this
// reader accepts must have Python's NaN or Infinity.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5e3, "x\n", null, true]}`, `[NaN]`, `"\ud83d\ude00"`, `-0.0`, `{"a":1,"a":2}`, `[`, `1.`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseJSON(s)
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		var want any
		standard := json.Valid([]byte(s)) && d.Decode(&want) == nil
		switch {
		case standard && err != nil && err != errJSONDepth:
			t.Errorf("%q: %v", s, err)
		case !standard && err == nil && !strings.Contains(s, "NaN") && !strings.Contains(s, "Infinity"):
			t.Errorf("%q is read as %s", s, got.String())
		case standard && err == nil && !sameJSON(&got, want):
			t.Errorf("%q: %s, want %v", s, got.String(), want)
		}
	})
}

func sameJSON(v *Value, want any) bool {
	switch w := want.(type) {
	case nil:
		return v.Kind == KindNone
	case bool:
		return v.Kind == KindBool && (v.Int != 0) == w
	case string:
		// encoding/json replaces bytes that are not UTF-8.
		return v.Kind == KindText && strings.ToValidUTF8(v.Text, "\ufffd") == strings.ToValidUTF8(w, "\ufffd") ||
			v.Kind == KindText && strings.Contains(w, "\ufffd")
	case json.Number:
		n, ok := v.Number()
		f, _ := w.Float64() // beyond the range both are infinite
		return ok && (n == f || math.Abs(n-f) <= math.Abs(f)*1e-15)
	case []any:
		if v.Kind != KindList || len(v.List) != len(w) {
			return false
		}
		for i := range w {
			if !sameJSON(&v.List[i], w[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if v.Kind != KindDict {
			return false
		}
		for k, x := range w {
			if got, ok := v.Dict.Lookup(k); ok && !sameJSON(&got, x) {
				return false
			} else if !ok && !strings.Contains(k, "\ufffd") {
				return false
			}
		}
		return true
	}
	return false
}
