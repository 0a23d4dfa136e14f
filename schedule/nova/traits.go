package nova

import (
	"fmt"
	"strings"
)

// traits collects a request's traits from all sources, with the path of each for errors.
type traits struct {
	*findings
	required  map[string]string
	forbidden map[string]string
}

func newTraits(f *findings) *traits {
	return &traits{findings: f, required: map[string]string{}, forbidden: map[string]string{}}
}

func (t *traits) add(to map[string]string, path, trait string) {
	if !symbol(trait) {
		t.invalid(path, "%q is no trait: A-Z, 0-9 and _ are its letters", shorten(trait))
		return
	}
	to[trait] = path
}

func (t *traits) require(path string, names []string) { t.addAll(t.required, path, names) }

func (t *traits) forbid(path string, names []string) { t.addAll(t.forbidden, path, names) }

func (t *traits) addAll(to map[string]string, path string, names []string) {
	if len(names) > maxTraits {
		t.invalid(path, "has %d traits, the most is %d", len(names), maxTraits)
		return
	}
	for i, n := range names {
		t.add(to, fmt.Sprintf("%s[%d]", path, i), n)
	}
}

// any checks the sets of which one trait each is required.
func (t *traits) any(path string, sets [][]string) [][]string {
	if len(sets) > maxSets {
		t.invalid(path, "has %d sets, the most is %d", len(sets), maxSets)
		return nil
	}
	var out [][]string
	for i, set := range sets {
		one := map[string]string{}
		t.addAll(one, fmt.Sprintf("%s[%d]", path, i), set)
		if len(set) == 0 {
			t.invalid(fmt.Sprintf("%s[%d]", path, i), "is empty: no host could satisfy it")
		}
		out = append(out, sortedKeys(one))
	}
	return out
}

// sets gives the collected traits, sorted.
func (t *traits) sets() (required, forbidden []string) {
	for _, name := range sortedKeys(t.forbidden) {
		if where, both := t.required[name]; both {
			t.invalid(t.forbidden[name], "%s is required as well, by %s", name, where)
		}
	}
	if len(t.required) > 0 {
		required = sortedKeys(t.required)
	}
	if len(t.forbidden) > 0 {
		forbidden = sortedKeys(t.forbidden)
	}
	return required, forbidden
}

func (t *traits) extraSpec(path, name, value string) {
	switch value {
	case "required":
		t.add(t.required, path, name)
	case "forbidden":
		t.add(t.forbidden, path, name)
	default:
		t.readOver(path, "must be required or forbidden, not %q", shorten(value))
	}
}

// join adds the traits of another collection.
func (t *traits) join(o *traits) {
	for name, path := range o.required {
		t.required[name] = path
	}
	for name, path := range o.forbidden {
		t.forbidden[name] = path
	}
}

// shorten keeps quoted text in errors readable.
func shorten(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
