package novaconf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// source is the assignments of all files, in their order; later ones win.
type source struct {
	all      []*assignment
	problems []string
	used     map[*assignment]bool
}

func (s *source) bad(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// last returns the assignment that counts for an option with several names: in the last file that has
// any of them, the last assignment to the first such name.
func (s *source) last(names ...place) *assignment {
	all := s.every(names...)
	for _, name := range names {
		for _, a := range slices.Backward(all) {
			if a.place == name && a.file == all[len(all)-1].file {
				return a
			}
		}
	}
	return nil
}

// every returns all assignments to an option with these names, and marks them as known.
func (s *source) every(names ...place) (all []*assignment) {
	for _, a := range s.all {
		if slices.Contains(names, a.place) {
			s.used[a] = true
			all = append(all, a)
		}
	}
	return all
}

// reference is $name, ${name} or ${group.name}; $$ is a dollar.
var reference = regexp.MustCompile(`(?i)\$(?:\$|([_a-z][._a-z0-9]*)|\{([_a-z][._a-z0-9]*)\})`)

// maxDepth bounds references to references.
const maxDepth = 10

// text returns an assignment's value with its references resolved.
func (s *source) text(a *assignment) string { return s.resolve(a, 0) }

func (s *source) resolve(a *assignment, depth int) string {
	value := strings.ReplaceAll(a.value, `\$`, "$$")
	return reference.ReplaceAllStringFunc(value, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		name := strings.Trim(ref, "${}")
		names := []place{{a.group, name}, {"DEFAULT", name}}
		if group, option, ok := strings.Cut(name, "."); ok {
			names = []place{{groupName(group), option}}
		}
		for _, n := range names {
			for _, b := range slices.Backward(s.all) {
				if b.place == n && b != a {
					if depth == maxDepth {
						s.bad("%s: %s refers to itself through %s", a.at(), a.place, ref)
						return ""
					}
					return s.resolve(b, depth+1)
				}
			}
		}
		s.bad("%s: %s refers to %s, which the files do not set; write its value instead", a.at(), a.place, ref)
		return ""
	})
}
