package novarelease

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/suggest"
)

// Release is a release of Nova by the first number of its versions: 26 is Zed. The zero
// value stands for the newest one that is known.
type Release int

// Releases with which something changed that matters here.
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

// names are the releases' from the oldest on; those named after a year have one of codeNames too.
var names = []string{
	"ocata", "pike", "queens", "rocky", "stein", "train", "ussuri", "victoria", "wallaby", "xena", "yoga", "zed",
	"2023.1", "2023.2", "2024.1", "2024.2", "2025.1", "2025.2", "2026.1", "2026.2",
}

var codeNames = []string{"antelope", "bobcat", "caracal", "dalmatian", "epoxy", "flamingo", "gazpacho"}

// Parse reads a release's name, as zed, 2023.2 or bobcat; "" is the newest.
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

// or gives the newest for the zero value.
func (r Release) or() Release {
	if r == 0 {
		return oldest + Release(len(names)-1)
	}
	return r
}

// Has reports whether the release is that one or a later one.
func (r Release) Has(since Release) bool { return r.or() >= since }

// Version is the first number of its versions.
func (r Release) Version() int { return int(r.or()) }

// String is as Nova (26, zed).
func (r Release) String() string {
	return "Nova " + strconv.Itoa(r.Version()) + " (" + names[r.or()-oldest] + ")"
}
