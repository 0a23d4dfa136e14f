package osnames

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
)

// CustomPrefix is the prefix of the names that an operator may create.
const CustomPrefix = "CUSTOM_"

var (
	//go:embed traits.txt
	traitLines string
	//go:embed classes.txt
	classLines string

	traits  = strings.Fields(traitLines)
	classes = strings.Fields(classLines)
)

// Traits lists the standard traits, sorted.
func Traits() []string { return slices.Clone(traits) }

// Classes lists the standard resource classes, sorted.
func Classes() []string { return slices.Clone(classes) }

// IsTrait reports whether a name is a standard trait.
func IsTrait(name string) bool { return in(traits, name) }

// IsClass reports whether a name is a standard resource class.
func IsClass(name string) bool { return in(classes, name) }

func in(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

var notName = regexp.MustCompile(`[^0-9A-Za-z]+`)

// Custom converts any text to the name of a custom trait or resource class (os_traits and
// os_resource_classes, normalize_name).
func Custom(text string) string {
	return CustomPrefix + strings.ToUpper(notName.ReplaceAllString(text, "_"))
}
