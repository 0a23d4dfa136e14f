package novarelease

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/suggest"
)

// Release is a release of Nova by the first number of its versions: 26 is Zed. The zero value stands
// for the newest known release.
type Release int

// Releases that changed something relevant here.
const (
	Train      Release = 20
	Ussuri     Release = 21
	Xena       Release = 24
	Zed        Release = 26
	Antelope   Release = 27
	Bobcat     Release = 28
	Dalmatian  Release = 30
	Epoxy      Release = 31
	oldest     Release = 15
	firstDated Release = Antelope
)

// names are the names of the releases from the oldest on. Those named after a year are also in
// codeNames.
var names = []string{
	"ocata", "pike", "queens", "rocky", "stein", "train", "ussuri", "victoria", "wallaby", "xena", "yoga", "zed",
	"2023.1", "2023.2", "2024.1", "2024.2", "2025.1", "2025.2", "2026.1", "2026.2",
}

var codeNames = []string{"antelope", "bobcat", "caracal", "dalmatian", "epoxy", "flamingo", "gazpacho"}

// Parse parses a release's name, such as zed, 2023.2 or bobcat; "" is the newest.
func Parse(name string) (Release, error) {
	lower := strings.ToLower(strings.TrimSpace(name))
	if lower == "" {
		return 0, nil
	}
	if i := slices.Index(names, lower); i >= 0 {
		return oldest + Release(i), nil
	}
	if i := slices.Index(codeNames, lower); i >= 0 {
		return firstDated + Release(i), nil
	}
	if near := suggest.Nearest(lower, slices.Concat(names, codeNames), 3); near != "" {
		return 0, fmt.Errorf("%.40q is no release of Nova; did you mean %s?", name, near)
	}
	return 0, fmt.Errorf("%.40q is no release of Nova that is known: %s", name, strings.Join(names, ", "))
}

// or returns the newest release for the zero value.
func (r Release) or() Release {
	if r == 0 {
		return oldest + Release(len(names)-1)
	}
	return r
}

// Has reports whether the release is since or later.
func (r Release) Has(since Release) bool { return r.or() >= since }

// Version is the first number of the release's versions.
func (r Release) Version() int { return int(r.or()) }

// String has the form "Nova 26 (zed)".
func (r Release) String() string {
	return "Nova " + strconv.Itoa(r.Version()) + " (" + names[r.or()-oldest] + ")"
}
