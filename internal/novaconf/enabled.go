package novaconf

import (
	"os"

	"cellgate/internal/novarelease"
)

// Enabled are the filters that a scheduler of Nova runs by its files.
type Enabled struct {
	// Filters by class, those of other packages by path. All are as enabled, having
	// those that cellgate does not run.
	Filters []string
	// From is where a file sets them; empty for the release's default.
	From string
	// OldName: they are set by their name from before Ocata, in [DEFAULT].
	OldName bool
}

// EnabledFilters reads which filters a scheduler runs. The name from before Ocata counts
// whatever the release: one whose release is not known may be that old. Its error is a
// *Problems; names that nobody has are Read's to refuse.
func EnabledFilters(files []string, release novarelease.Release) (Enabled, error) {
	src := &source{used: map[*assignment]bool{}}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			src.bad("%v", err)
			continue
		}
		all, problems := parseINI(name, string(text))
		src.files, src.problems = append(src.files, all), append(src.problems, problems...)
	}
	e, written := Enabled{}, release.DefaultFilters()
	old := place{"DEFAULT", "scheduler_default_filters"}
	if a := src.last(place{filters, "enabled_filters"}, old); a != nil {
		written, e.From, e.OldName = readList(src.text(a)), a.at(), a.place == old
	}
	for _, name := range written {
		if class, ofNovas := className(name, filterPackage); ofNovas {
			name = class
		}
		e.Filters = append(e.Filters, name)
	}
	if len(src.problems) > 0 {
		return Enabled{}, &Problems{List: src.problems}
	}
	return e, nil
}
