package mirror

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/placement"
)

// providerWrite gives the write that makes have of the target equal to want of the source; nil if they are equal.
// Either may be nil. A generation is raised to the source's, and never lowered: a caller with an older generation is
// refused once, and reads the provider again.
func providerWrite(have, want *placement.Provider, cell string, countsItself bool) *placement.ProviderWrite {
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return &placement.ProviderWrite{UUID: have.UUID, Delete: true}
	case have == nil:
		w := &placement.ProviderWrite{
			UUID: want.UUID, Create: true, Name: &want.Name, Parent: &want.ParentUUID, Raise: want.Generation,
			Inventories: &want.Inventories, Traits: &want.Traits, Aggregates: &want.Aggregates,
		}
		if want.ParentUUID == "" {
			w.Cell = cell
		}
		return w
	}
	w := &placement.ProviderWrite{UUID: want.UUID, Generation: &have.Generation, Raise: max(0, want.Generation-have.Generation)}
	changed := w.Raise > 0 && !countsItself
	if have.Name != want.Name {
		w.Name, changed = &want.Name, true
	}
	if have.ParentUUID != want.ParentUUID {
		w.Parent, changed = &want.ParentUUID, true
	}
	if !maps.Equal(have.Inventories, want.Inventories) {
		w.Inventories, changed = &want.Inventories, true
	}
	if !slices.Equal(have.Traits, want.Traits) {
		w.Traits, changed = &want.Traits, true
	}
	if !slices.Equal(have.Aggregates, want.Aggregates) {
		w.Aggregates, changed = &want.Aggregates, true
	}
	if !changed {
		return nil
	}
	return w
}

// explain says how a provider differs in the fields of a write.
func explain(have *placement.Provider, w *placement.ProviderWrite) string {
	var out []string
	add := func(changes bool, format string, args ...any) {
		if changes {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if w.Name != nil {
		add(true, "name %q", have.Name)
	}
	if w.Parent != nil {
		add(true, "parent %q, not %q", have.ParentUUID, *w.Parent)
	}
	if w.Inventories != nil {
		for _, class := range slices.Sorted(maps.Keys(*w.Inventories)) {
			i, has := have.Inventories[class]
			add(!has, "no inventory of %s", class)
			add(has && i != (*w.Inventories)[class], "inventory of %s %+v, not %+v", class, i, (*w.Inventories)[class])
		}
		for _, class := range slices.Sorted(maps.Keys(have.Inventories)) {
			_, stays := (*w.Inventories)[class]
			add(!stays, "an inventory of %s", class)
		}
	}
	if w.Traits != nil {
		add(true, "traits %s", changes(have.Traits, *w.Traits))
	}
	if w.Aggregates != nil {
		add(true, "aggregates %s", changes(have.Aggregates, *w.Aggregates))
	}
	if len(out) == 0 {
		return fmt.Sprintf("generation %d", have.Generation)
	}
	return strings.Join(out, "; ")
}

// changes marks entries that have lacks with -, and those that only have has with +.
func changes(have, want []string) string {
	var out []string
	for _, s := range want {
		if !slices.Contains(have, s) {
			out = append(out, "-"+s)
		}
	}
	for _, s := range have {
		if !slices.Contains(want, s) {
			out = append(out, "+"+s)
		}
	}
	return strings.Join(out, " ")
}

// consumerWrite gives the write that makes have of the target equal to want of the source; nil if they are equal.
// Either may be nil. A consumer whose generation started again in the source is emptied first: then the write has no
// allocations, although want has.
//
// A target with generations of its own (countsItself) is not compared by generation.
func consumerWrite(have, want *placement.Consumer, countsItself bool) *placement.ConsumerWrite {
	switch {
	case have == nil && want == nil, have != nil && want != nil && equalConsumers(have, want, countsItself):
		return nil
	case want == nil, have != nil && want.Generation <= have.Generation && !countsItself:
		return &placement.ConsumerWrite{UUID: have.UUID, Generation: &have.Generation, MustExist: true}
	}
	w := &placement.ConsumerWrite{
		UUID: want.UUID, ProjectID: want.ProjectID, UserID: want.UserID, Type: want.Type, Allocations: want.Allocations,
		Raise: want.Generation - 1,
	}
	if w.Type == unknownType {
		w.Type = ""
	}
	if have != nil {
		w.Generation, w.Raise = &have.Generation, want.Generation-have.Generation-1
	}
	w.Raise = max(0, w.Raise)
	return w
}

// equalConsumers compares consumers, but not the type if the source has no types. Of generations, only the source's
// must not be newer. A Remote stores typeOfUnknown for the unknown type, so both are equal.
func equalConsumers(have, want *placement.Consumer, countsItself bool) bool {
	return (countsItself || have.Generation >= want.Generation) && have.ProjectID == want.ProjectID && have.UserID == want.UserID &&
		(have.Type == want.Type || want.Type == unknownType || have.Type == unknownType && want.Type == typeOfUnknown) && equalAllocations(have.Allocations, want.Allocations)
}

func equalAllocations(a, b placement.Allocations) bool {
	return maps.EqualFunc(a, b, func(a, b map[string]int64) bool { return maps.Equal(a, b) })
}

// describe gives allocations as a short text.
func describe(a placement.Allocations) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(a)) {
		for _, class := range slices.Sorted(maps.Keys(a[id])) {
			out = append(out, fmt.Sprintf("%s=%d of %s", class, a[id][class], id))
		}
	}
	return strings.Join(out, ", ")
}
