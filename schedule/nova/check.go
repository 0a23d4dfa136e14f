package nova

import (
	"fmt"
	"slices"
	"strings"

	"cellgate/schedule"
)

const unknownClass = "unknown resource class %q: neither a standard class of Placement nor CUSTOM_…"

func (f *findings) class(path, class string) bool {
	if KnownResourceClass(class) {
		return true
	}
	f.invalid(path, unknownClass, shorten(class))
	return false
}

func (f *findings) inRange(path string, n int64) bool {
	p := amountProblem(n)
	if p != "" {
		f.invalid(path, "%s", p)
	}
	return p == ""
}

// name checks the length of a name, which may be empty.
func (f *findings) name(path, name string) string {
	if len(name) > maxName {
		f.invalid(path, "has %d bytes, the most is %d", len(name), maxName)
	}
	return name
}

// names checks a list of names, which must not be empty.
func (f *findings) names(path string, names []string, most int) []string {
	if len(names) > most {
		f.invalid(path, "has %d entries, the most is %d", len(names), most)
		return nil
	}
	for i, n := range names {
		where := fmt.Sprintf("%s[%d]", path, i)
		if n == "" {
			f.invalid(where, "must not be empty")
		}
		f.name(where, n)
	}
	return names
}

func (f *findings) destination(path string, d *schedule.Destination) *schedule.Destination {
	if d == nil {
		return nil
	}
	out := *d
	f.name(path+".host", d.Host)
	f.name(path+".node", d.Node)
	f.name(path+".cell", d.Cell)
	return &out
}

func (f *findings) memberOf(path string, sets [][]string) [][]string {
	if len(sets) > maxSets {
		f.invalid(path, "has %d sets, the most is %d", len(sets), maxSets)
		return nil
	}
	var out [][]string
	for i, set := range sets {
		where := fmt.Sprintf("%s[%d]", path, i)
		if len(set) == 0 {
			f.invalid(where, "is empty: no host could satisfy it")
			continue
		}
		out = append(out, f.aggregates(where, set))
	}
	return out
}

// aggregates gives the uuids in canonical text, sorted, without duplicates.
func (f *findings) aggregates(path string, uuids []string) []string {
	if len(uuids) > maxAggregates {
		f.invalid(path, "has %d aggregates, the most is %d", len(uuids), maxAggregates)
		return nil
	}
	var out []string
	for i, u := range uuids {
		if id, ok := f.uuid(fmt.Sprintf("%s[%d]", path, i), u); ok {
			out = append(out, id.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (f *findings) uuid(path, text string) (schedule.ID, bool) {
	id, err := schedule.ParseID(text)
	if err != nil {
		f.invalid(path, "%q is not a uuid", shorten(text))
	}
	return id, err == nil
}

func (f *findings) group(path string, g *Group) *schedule.Group {
	if g == nil {
		return nil
	}
	if f.resolved && (g.Policy == "" || g.Policy == "legacy") {
		// Such groups are from before policies; no filter or weigher of Nova reads them.
		f.ignore(path)
		return nil
	}
	out := &schedule.Group{Policy: schedule.Policy(g.Policy)}
	if g.UUID == "" {
		f.invalid(path+".uuid", "is required")
	} else {
		out.UUID, _ = f.uuid(path+".uuid", g.UUID)
	}
	policies := []string{
		string(schedule.Affinity), string(schedule.AntiAffinity),
		string(schedule.SoftAffinity), string(schedule.SoftAntiAffinity),
	}
	if !slices.Contains(policies, g.Policy) {
		f.invalid(path+".policy", "must be one of %s, not %q", strings.Join(policies, ", "), shorten(g.Policy))
	}
	if f.inRange(path+".max_server_per_host", g.MaxPerHost) {
		switch {
		case out.Policy == schedule.AntiAffinity:
			out.MaxPerHost = int(g.MaxPerHost)
		case g.MaxPerHost > 0:
			f.ignore(path + ".max_server_per_host")
		}
	}
	if len(g.Members) > maxMembers {
		f.invalid(path+".members", "has %d entries, the most is %d", len(g.Members), maxMembers)
		return out
	}
	for i, m := range g.Members {
		if id, ok := f.uuid(fmt.Sprintf("%s.members[%d]", path, i), m); ok {
			out.Members = append(out.Members, id)
		}
	}
	out.Hosts = f.names(path+".hosts", g.Hosts, maxMembers)
	return out
}
