package placement

import (
	_ "embed"
	"slices"
	"strings"
)

// The names of python3-os-traits 3.4.0 and python3-os-resource-classes 1.1.0, one a line, sorted; and what later
// releases of Nova ask for.
var (
	//go:embed standard_traits.txt
	standardTraits string
	//go:embed standard_classes.txt
	standardClasses string

	standardNames = map[NameKind][]string{
		ClassName: strings.Fields(standardClasses),
		TraitName: strings.Fields(standardTraits),
	}
)

// customPrefix begins the names that callers may create.
const customPrefix = "CUSTOM_"

// StandardNames lists the names of a kind that every deployment has, sorted.
func StandardNames(kind NameKind) []string { return slices.Clone(standardNames[kind]) }

// IsStandard reports whether every deployment has a name.
func IsStandard(kind NameKind, name string) bool {
	_, found := slices.BinarySearch(standardNames[kind], name)
	return found
}
