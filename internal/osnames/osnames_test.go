package osnames

import (
	"slices"
	"testing"
)

func TestIsTrait_And_IsClass_KnowTheStandardNamesAlone(t *testing.T) {
	for _, names := range [][]string{Traits(), Classes()} {
		if len(names) < 20 || !slices.IsSorted(names) {
			t.Errorf("%d names, sorted %t", len(names), slices.IsSorted(names))
		}
	}
	if !IsTrait("COMPUTE_MANAGED_PCI_DEVICE") || IsTrait("VCPU") || IsTrait("CUSTOM_A") || !IsClass("VCPU") || IsClass("COMPUTE_MANAGED_PCI_DEVICE") {
		t.Error("a name is of the wrong kind")
	}
}

func TestCustom_AnyText_IsNormalizedAsOsTraitsDoes(t *testing.T) {
	for text, want := range map[string]string{"fast": "CUSTOM_FAST", "in rack 7!": "CUSTOM_IN_RACK_7_", "": "CUSTOM_", "Größe": "CUSTOM_GR_E", "a__b": "CUSTOM_A_B"} {
		if got := Custom(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
