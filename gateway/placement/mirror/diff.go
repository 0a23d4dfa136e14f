package mirror

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/placement"
)

// providerWrite gives the write that makes have of the target equal to want of the source; nil if they are equal.
// Either may be nil. Each side counts its own generations.
func providerWrite(have, want *placement.Provider) *placement.ProviderWrite {
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return &placement.ProviderWrite{UUID: have.UUID, Delete: true}
	case have == nil:
		return &placement.ProviderWrite{
			UUID: want.UUID, Create: true, Name: &want.Name, Parent: &want.ParentUUID,
			Inventories: &want.Inventories, Traits: &want.Traits, Aggregates: &want.Aggregates,
		}
	}
	w, changed := &placement.ProviderWrite{UUID: want.UUID, Generation: &have.Generation}, false
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
	return strings.Join(out, "; ")
}

// changes marks entries that have lacks with -, and those that only have has with +.
func changes(have, want []string) string {
	var out []string
	for _, s := range without(want, have) {
		out = append(out, "-"+s)
	}
	for _, s := range without(have, want) {
		out = append(out, "+"+s)
	}
	return strings.Join(out, " ")
}

// without lists the entries of all that are not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// consumerWrite gives the write that makes have of the target equal to want of the source; nil if they are equal.
// Either may be nil.
func consumerWrite(have, want *placement.Consumer) *placement.ConsumerWrite {
	switch {
	case have == nil && want == nil, have != nil && want != nil && equalConsumers(have, want):
		return nil
	case want == nil:
		return &placement.ConsumerWrite{UUID: have.UUID}
	}
	w := &placement.ConsumerWrite{UUID: want.UUID, ProjectID: want.ProjectID, UserID: want.UserID, Type: want.Type, Allocations: want.Allocations}
	if have != nil {
		w.Generation = &have.Generation
	}
	return w
}

// equalConsumers compares consumers without their generations. An unknown type of the source equals every type: it has
// no types, or the target stores typeOfUnknown. So on the way back that type of the source equals an unknown one.
func equalConsumers(have, want *placement.Consumer) bool {
	return have.ProjectID == want.ProjectID && have.UserID == want.UserID && equalAllocations(have.Allocations, want.Allocations) &&
		(have.Type == want.Type || want.Type == placement.UnknownType || have.Type == placement.UnknownType && want.Type == typeOfUnknown)
}

func equalAllocations(a, b placement.Allocations) bool {
	return maps.EqualFunc(a, b, maps.Equal)
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
