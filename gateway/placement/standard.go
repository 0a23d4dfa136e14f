package placement

import "cellgate/internal/osnames"

// customPrefix begins the names that callers may create.
const customPrefix = osnames.CustomPrefix

// StandardNames lists the names of a kind that every deployment has, sorted.
func StandardNames(kind NameKind) []string {
	if kind == ClassName {
		return osnames.Classes()
	}
	return osnames.Traits()
}

// IsStandard reports whether every deployment has a name.
func IsStandard(kind NameKind, name string) bool {
	if kind == ClassName {
		return osnames.IsClass(name)
	}
	return osnames.IsTrait(name)
}
