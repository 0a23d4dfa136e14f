package novaconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cellgate/internal/novarelease"
	"cellgate/internal/suggest"
)

// translation is the state of one Read.
type translation struct {
	*Settings
	*source
	known Known
	// values has the values of all options; set the assignments of those that a file sets.
	values map[place]value
	set    map[place]*assignment
}

func (t *translation) note(a *assignment, what, why string) {
	t.Notes = append(t.Notes, Note{Where: a.at(), What: what, Why: why})
}

// options reads every option of the table.
func (t *translation) options() {
	for _, o := range tableOfOptions() {
		names := append([]place{o.place}, o.old...)
		if o.idle == "" && !t.known.Release.ReadsOldNames() {
			t.unread(&o)
			names = names[:1]
		}
		v, err := o.read(o.standard)
		if err != nil && o.standard != "" {
			panic("novaconf: default of " + o.place.String() + ": " + err.Error()) // a defect of the table
		}
		if o.kind == several {
			t.values[o.place] = v
			continue // read where it is used
		}
		if a := t.last(names...); a != nil {
			v = t.given(&o, a, v)
		}
		t.values[o.place] = v
		switch {
		case o.weigher != "":
			t.multipliers[o.weigher] = v.num
		case o.idle == "" && o.missing == "":
			t.Values[o.place.String()] = v.plain(o.kind)
		}
	}
}

// unread adds notes that assignments to an option's old names have no effect.
func (t *translation) unread(o *option) {
	for _, a := range t.every(o.old...) {
		t.note(a, a.place.String(), fmt.Sprintf("does not count: Nova has read [%s] %s alone since 24.0.0 (xena); move the line there, or delete it; with nova_release wallaby or older it counts", o.group, o.name))
	}
}

// given parses an assignment of an option and adds the notes on it.
func (t *translation) given(o *option, a *assignment, standard value) value {
	t.set[o.place] = a
	t.From[o.place.String()] = a.at()
	written := t.text(a)
	if a.place != o.place && o.idle == "" {
		t.note(a, a.place.String(), fmt.Sprintf("is %s today, and counts in %s; since 24.0.0 (xena) Nova ignores the old name: move the line to [%s] as %s, or delete it", o.place, t.known.Release, o.group, o.name))
	}
	switch {
	case written == "" && o.needed:
		t.note(a, a.place.String(), "is empty: cellgate has no zone without a name, Nova's default counts, "+o.standard)
		return standard
	case written == "" && (o.kind == integer || o.kind == number):
		t.note(a, a.place.String(), "is empty: to Nova that is no number; here its default counts, "+cmp.Or(o.standard, "none"))
		return standard
	}
	v, err := o.read(written)
	switch {
	case err != nil:
		t.bad("%s: %s: %v", a.at(), a.place, err)
		return standard
	case o.idle != "":
		t.note(a, a.place.String(), "has no effect here: "+o.idle)
	case o.missing != "" && (v.bool != standard.bool || v.num != standard.num || o.kind == text && v.text != standard.text):
		t.bad("%s: %s = %s: cellgate does not have %s", a.at(), a.place, strings.TrimSpace(written), o.missing)
	case o.most > 0 && v.int > o.most:
		t.note(a, a.place.String(), fmt.Sprintf("counts as %d, the most that cellgate takes; Nova cuts it to the hosts there are", o.most))
		v.int, v.num = o.most, float64(o.most)
	case o.factors:
		v.list = slices.DeleteFunc(v.list, func(item string) bool {
			bad := !isFactor(item)
			if bad {
				t.note(a, a.place.String(), fmt.Sprintf("%q does not count, as in Nova: it is not NAME=NUMBER", item))
			}
			return bad
		})
	}
	return v
}

// filters builds the list of filters to run.
func (t *translation) filters() {
	enabled, available := place{filters, "enabled_filters"}, place{filters, "available_filters"}
	offered := t.offered(available)
	names := slices.Clone(always)
	a := t.set[enabled]
	refuse := func(format string, args ...any) {
		where := "Nova's default of " + enabled.String()
		if a != nil {
			where = a.at() + ": " + a.place.String()
		}
		t.bad(where+": "+format, args...)
	}
	seen := map[string]bool{}
	list := t.values[enabled].list
	if a == nil {
		list = t.known.Release.DefaultFilters()
	}
	for _, written := range list {
		name, ofNovas := className(written, filterPackage)
		what, is := ofNova[name]
		switch {
		case written == "":
			refuse("has an empty name")
		case strings.ContainsAny(written, " \n\t"):
			refuse("%q is no name: is a comma missing?", written)
		case !ofNovas || !is && offered[name] != "":
			refuse("%s is not Nova's own (%s): cellgate runs no Python; delete it, or keep to cellgate's filters: %s", name, cmp.Or(offered[name], written), t.having())
		case what.gone != "" && !t.known.Filter(name):
			refuse("%s: cellgate does not have it: %s", name, what.gone)
		case !is:
			refuse("%s", unknown("filter", name, t.choices()))
		case offered != nil && offered[name] == "" && offered["*"] == "":
			refuse("%s is enabled, but not in %s", name, available)
		case seen[name]:
			t.filterNote(a, name, "is enabled twice: delete one")
		default:
			seen[name] = true
			names = t.enable(names, name, what.redundant, a, refuse)
		}
	}
	for _, n := range needed {
		if !seen[n.name] {
			names = append(names, n.name)
			if a != nil {
				t.note(a, n.name, "is not enabled, and runs all the same: "+n.why)
			}
		}
	}
	t.Settings.Filters = names
}

// filterNote adds a note on a filter that the files enable. A filter that the release enables by
// default cannot be deleted, so it gets none.
func (t *translation) filterNote(a *assignment, name, why string) {
	if a != nil {
		t.note(a, name, why)
	}
}

// enable adds one of Nova's filters to the list.
func (t *translation) enable(names []string, name, redundant string, a *assignment, refuse func(string, ...any)) []string {
	switch {
	case slices.Contains(names, name):
		t.filterNote(a, name, "redundant: delete it from enabled_filters; "+redundant)
		return names
	case redundant != "":
		t.filterNote(a, name, "redundant: delete it from enabled_filters; "+redundant)
		if !t.known.Filter(name) {
			return names
		}
	case !t.known.Filter(name):
		refuse("%s: cellgate does not have this filter yet; it has %s", name, t.having())
	}
	return append(names, name)
}

// unknown describes a name that does not exist.
func unknown(what, name string, known []string) string {
	if strings.ContainsAny(name, `[]"'`) {
		return fmt.Sprintf("there is no %s %s; write the names without brackets and quotes", what, name)
	}
	if n := suggest.Nearest(name, known, 3); n != "" {
		return fmt.Sprintf("there is no %s %s; did you mean %s?", what, name, n)
	}
	return fmt.Sprintf("there is no %s %s; there are %s", what, name, strings.Join(known, ", "))
}

// offered returns the filters that available_filters names, by class, with their paths; "*" stands for
// all of Nova's. It is nil if no file sets the option.
func (t *translation) offered(available place) map[string]string {
	names := []place{available}
	if t.known.Release.ReadsOldNames() {
		names = append(names, place{"DEFAULT", "scheduler_available_filters"})
	}
	all := t.every(names...)
	if len(all) == 0 {
		return nil
	}
	offered := map[string]string{}
	for _, a := range all {
		path := strings.TrimSpace(t.text(a))
		t.From[available.String()] = a.at()
		name, ofNovas := className(path, filterPackage)
		switch {
		case path == allFilters || path == "nova.scheduler.filters.standard_filters":
			offered["*"] = path
		case !ofNovas:
			offered[name] = path
			if !slices.ContainsFunc(t.values[place{filters, "enabled_filters"}].list, func(e string) bool { return e == name || e == path }) {
				t.note(a, path, "is not Nova's own and not enabled: delete it")
			}
		default:
			offered[name] = path
		}
	}
	return offered
}

// choices are the names of Nova's present filters that are not redundant; having lists those that
// cellgate has.
func (t *translation) choices() []string {
	var names []string
	for name, f := range ofNova {
		if f.gone == "" && f.redundant == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (t *translation) having() string {
	return strings.Join(slices.DeleteFunc(t.choices(), func(n string) bool { return !t.known.Filter(n) }), ", ")
}

// weighers builds the list of weighers.
func (t *translation) weighers() {
	option := place{filters, "weight_classes"}
	a := t.set[option]
	var chosen []string // in order, with duplicates, as in Nova
	for _, path := range t.values[option].list {
		name, ofNovas := className(path, weigherPackage)
		switch {
		case path == allWeighers:
			for _, w := range weighers {
				if t.known.Release.HasWeigher(w) {
					chosen = append(chosen, w)
				}
			}
		case !ofNovas:
			t.bad("%s: %s: %s is not Nova's own: cellgate runs no Python; delete it, or keep to %s", a.at(), a.place, path, strings.Join(weighers, ", "))
		case !slices.Contains(weighers, name):
			t.bad("%s: %s: %s", a.at(), a.place, unknown("weigher", name, weighers))
		case !t.known.Release.HasWeigher(name):
			t.bad("%s: %s: %s has no %s, which came with %s", a.at(), a.place, t.known.Release, name, novarelease.WeigherSince(name))
		default:
			if slices.Contains(chosen, name) {
				t.note(a, name, "is named twice: its weight counts twice, as in Nova")
			}
			chosen = append(chosen, name)
		}
	}
	t.multipliersOfNone(chosen)
	var from []string
	for _, o := range tableOfOptions() {
		if at := t.From[o.place.String()]; at != "" && (o.place == option || strings.HasSuffix(o.name, "weight_multiplier")) {
			from = append(from, at)
		}
	}
	t.WeighersFrom = strings.Join(from, ", ")
	t.Settings.Weighers = []Weigher{}
	for _, name := range chosen {
		m := t.multipliers[name]
		// Without weight_setting MetricsWeigher weighs nothing.
		unset := name == "MetricsWeigher" && len(t.values[place{metrics, "weight_setting"}].list) == 0
		switch {
		case unset:
		case t.known.Weigher(name):
			// A weigher with multiplier 0 counts if an aggregate's metadata sets another multiplier.
			t.Settings.Weighers = append(t.Settings.Weighers, Weigher{name, m})
		case m != 0:
			t.bad("%s has the multiplier %v: cellgate does not have this weigher yet", name, m)
		}
	}
}

// multipliersOfNone adds notes on multipliers of weighers that the release lacks.
func (t *translation) multipliersOfNone(chosen []string) {
	for _, o := range tableOfOptions() {
		a := t.set[o.place]
		if a != nil && o.weigher != "" && !t.known.Release.HasWeigher(o.weigher) && !slices.Contains(chosen, o.weigher) {
			t.note(a, a.place.String(), fmt.Sprintf("has no effect: %s has no %s, which came with %s", t.known.Release, o.weigher, novarelease.WeigherSince(o.weigher)))
		}
	}
}

// unknown refuses options that Nova's scheduler does not have: the intended option would have no
// effect. [DEFAULT] also has the options of other services, so an unknown option there that resembles
// the scheduler's gets only a note.
func (t *translation) unknown() {
	names := map[string][]string{}
	for _, o := range tableOfOptions() {
		names[o.group] = append(names[o.group], o.name)
	}
	for _, a := range t.all {
		if t.used[a] {
			continue
		}
		why := "Nova's scheduler has no such option: delete it"
		isDashed := dashed(a.name, names[a.group])
		if isDashed {
			why = "Nova reads no name with dashes: write " + underscored(a.name)
		}
		switch a.group {
		case "DEFAULT", pci:
			switch resembles := strings.HasPrefix(a.name, "scheduler_") || strings.HasSuffix(a.name, "_weight_multiplier"); {
			case slices.Contains(names[filters], a.name):
				t.note(a, a.place.String(), fmt.Sprintf("does not count: Nova reads [%s] %s alone; move the line there, or delete it", filters, a.name))
			case a.group == "DEFAULT" && (resembles || isDashed):
				t.note(a, a.place.String(), why)
			}
		case filters, scheduler, metrics:
			if n := suggest.Nearest(a.name, names[a.group], 3); n != "" && !isDashed {
				why += ", or did you mean " + n + "?"
			}
			t.bad("%s: %s: %s", a.at(), a.place, why)
		}
	}
}

// dashed reports whether a name is known except for its dashes.
func dashed(name string, known []string) bool {
	return strings.Contains(name, "-") && slices.Contains(known, underscored(name))
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }
