package shard

import "fmt"

// NameKind is a registry of custom names.
type NameKind string

// The registries: resource classes and traits.
const (
	ClassName NameKind = "CLASS"
	TraitName NameKind = "TRAIT"
)

// NameRef is a name in a registry.
type NameRef struct {
	Kind NameKind
	Name string
}

// CustomName is the row of a resource class or trait that the Placement API registered. The store does not check
// which of them providers have.
type CustomName struct {
	NameRef
	// Gone: it was deleted. A store keeps no such row; the journal has it.
	Gone bool
}

func (t *transaction) putName(n *NameRef) Outcome {
	if t.view.Names[*n] {
		return Outcome{}
	}
	t.setName(*n, true)
	return Outcome{Created: true}
}

func (t *transaction) deleteName(n *NameRef) Outcome {
	if !t.view.Names[*n] {
		reason := TraitNotFound
		if n.Kind == ClassName {
			reason = ClassNotFound
		}
		return *denied(PlacementRefusal{Reason: reason, Name: n.Name})
	}
	t.setName(*n, false)
	return Outcome{}
}

func (t *transaction) setName(n NameRef, is bool) {
	t.view.Names[n] = is
	t.touch(nameRow, string(n.Kind)+" "+n.Name)
}

func (n *NameRef) problem() string {
	switch {
	case n.Kind != ClassName && n.Kind != TraitName:
		return fmt.Sprintf("kind: is %q, must be CLASS or TRAIT", n.Kind)
	case !isID(n.Name):
		return "name: " + idRule
	}
	return ""
}
