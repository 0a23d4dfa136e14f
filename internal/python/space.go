package python

import (
	"strings"
	"unicode"
)

// Space reports whether str.strip and str.split treat a character as white space: Unicode's white
// space, and U+001C to U+001F.
func Space(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// Strip is s.strip().
func Strip(s string) string { return strings.TrimFunc(s, Space) }

// Fields is s.split().
func Fields(s string) []string { return strings.FieldsFunc(s, Space) }
