package spell

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
