package python

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// read is a text and how Python reads it: Int in digits, Float as its bits in hexadecimal. nil
// means that Python raised ValueError.
type read struct {
	Text, Strip string
	Split       []string
	Int, Float  *string
}

func (r *read) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.Text, &r.Strip, &r.Split, &r.Int, &r.Float})
}

func (r *read) compare(t *testing.T) {
	t.Helper()
	if got := Strip(r.Text); got != r.Strip {
		t.Errorf("%q: strip %q, want %q", r.Text, got, r.Strip)
	}
	if got := Fields(r.Text); !slices.Equal(got, r.Split) {
		t.Errorf("%q: split %q, want %q", r.Text, got, r.Split)
	}
	n, ok := Int(r.Text)
	if ok != (r.Int != nil) || ok && n != nearest(*r.Int) {
		t.Errorf("%q: int %v %v, want %s", r.Text, n, ok, textOf(r.Int))
	}
	f, ok := Float(r.Text)
	if bits := fmt.Sprintf("%016x", math.Float64bits(f)); ok != (r.Float != nil) || ok && f == f && bits != *r.Float {
		t.Errorf("%q: float %v %v, want %s", r.Text, f, ok, textOf(r.Float))
	}
	if want := r.Float; want != nil && f != f {
		if bits, err := strconv.ParseUint(*want, 16, 64); err != nil || !math.IsNaN(math.Float64frombits(bits)) {
			t.Errorf("%q: float is no number, want %s", r.Text, *want)
		}
	}
}

// nearest returns the int64 that is nearest to an integer.
func nearest(digits string) int64 {
	n, _ := new(big.Int).SetString(digits, 10)
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func textOf(s *string) string {
	if s == nil {
		return "ValueError"
	}
	return *s
}

func compareAll(t *testing.T, lines []byte) {
	t.Helper()
	whole, real, neither := 0, 0, 0
	for s := bufio.NewScanner(bytes.NewReader(lines)); s.Scan(); {
		var r read
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		r.compare(t)
		switch {
		case r.Int != nil:
			whole++
		case r.Float != nil:
			real++
		default:
			neither++
		}
	}
	if whole < 50 || real < 50 || neither < 50 {
		t.Errorf("%d integers, %d other numbers, %d neither: the texts show too little", whole, real, neither)
	}
}

// Compared with how CPython 3.11 reads the texts that testdata/texts.py generated.
func TestTextsAreReadAsPythonReadsThem(t *testing.T) {
	b, err := os.ReadFile("testdata/texts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	compareAll(t, b)
}

func TestTextsAgainstPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("no Python to ask: %v", err)
	}
	seed := strconv.FormatInt(time.Now().UnixNano()%1_000_000, 10)
	out, err := exec.CommandContext(t.Context(), python, "testdata/texts.py", "3000", seed).Output()
	if err != nil {
		t.Fatal(err)
	}
	compareAll(t, out)
	if t.Failed() {
		t.Logf("seed %s", seed)
	}
}

func TestSpaceAroundNumbers(t *testing.T) {
	for s, want := range map[string]bool{
		" 1": true, "1\t\n\v\f\r": true, "\u00a01": true, "\u00851": true, "1\u2003": true, "\u3000\u0661": true,
		"\x1c1": false, "1\x1d": false, "\x1e1": false, "1\x1f": false,
		"\x1c\u0661": false, "1\x1f\u00a0": false, "\u00a01\x1c": false, "\u200b1": false,
	} {
		n, whole := Int(s)
		f, real := Float(s)
		if whole != want || real != want || want && (n != 1 || f != 1) {
			t.Errorf("%q: int %v %v, float %v %v, want %v", s, n, whole, f, real, want)
		}
	}
}
