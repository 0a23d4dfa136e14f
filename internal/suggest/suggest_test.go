package suggest

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"RamFilter", "DiskFilter", "ComputeFilter"}
	for name, want := range map[string]string{
		"RamFilter": "RamFilter", "RAMFilter": "RamFilter", "DiscFilter": "DiskFilter", "Compute": "", "": "", "Zzzzzzzzz": "",
	} {
		if got := Nearest(name, known, 3); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := Nearest("ComFilter", known, 9); got != "" {
		t.Errorf("with fewer changes: %q", got)
	}
	if got := Nearest("ComFilter", known, 2); got != "RamFilter" {
		t.Errorf("with more changes: %q", got)
	}
}

func TestMeantOf_SeveralEquallyAlike_NamesAllOrNone(t *testing.T) {
	for _, tt := range []struct {
		known []string
		want  string
	}{
		{[]string{"az1", "nova"}, `; did you mean "az1"?`},
		{[]string{"az1", "az2", "az1"}, `; did you mean "az1" or "az2"?`},
		{[]string{"az1", "az2", "az3"}, `; did you mean "az1", "az2" or "az3"?`},
		{[]string{"az1", "az2", "az3", "az5"}, ""},
		{[]string{"nova"}, ""},
		{nil, ""},
	} {
		if got := MeantOf("az4", tt.known, 3); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.known, got, tt.want)
		}
	}
}
