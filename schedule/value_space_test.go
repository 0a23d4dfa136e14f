package schedule

import "testing"

// As CPython 3.11 answers int(s) and float(s).
func TestSpaceAroundNumbers(t *testing.T) {
	for s, want := range map[string]bool{
		" 1": true, "1\t\n\v\f\r": true, "\u00a01": true, "\u00851": true, "1\u2003": true, "\u3000\u0661": true,
		"\x1c1": false, "1\x1d": false, "\x1e1": false, "1\x1f": false,
		"\x1c\u0661": false, "1\x1f\u00a0": false, "\u00a01\x1c": false, "\u200b1": false,
	} {
		n, whole := parseInt(s)
		f, real := parseFloat(s)
		if whole != want || real != want || want && (n != 1 || f != 1) {
			t.Errorf("%q: int %v %v, float %v %v, want %v", s, n, whole, f, real, want)
		}
	}
}
