package novaconf

import (
	"fmt"
	"regexp"
	"strings"
)

// source is all files; later ones win.
type source struct {
	files    [][]assignment
	problems []string
	used     map[*assignment]bool
}

func (s *source) bad(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// last returns the assignment that counts for an option with several names: in the last file that has
// any of them, the last assignment to the first such name.
func (s *source) last(names ...place) *assignment {
	var found *assignment
	for i := len(s.files) - 1; i >= 0; i-- {
		for _, name := range names {
			for j := range s.files[i] {
				a := &s.files[i][j]
				if a.place == name {
					s.used[a] = true
					found = a
				}
			}
			if found != nil {
				s.use(names)
				return found
			}
		}
	}
	return nil
}

// use marks every assignment to the names as known, including overridden ones.
func (s *source) use(names []place) {
	for i := range s.files {
		for j := range s.files[i] {
			for _, name := range names {
				if a := &s.files[i][j]; a.place == name {
					s.used[a] = true
				}
			}
		}
	}
}

// every returns all assignments to an option that may be repeated.
func (s *source) every(names ...place) []*assignment {
	s.use(names)
	var all []*assignment
	for i := range s.files {
		for j := range s.files[i] {
			for _, name := range names {
				if a := &s.files[i][j]; a.place == name {
					all = append(all, a)
				}
			}
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
			for i := len(s.files) - 1; i >= 0; i-- {
				for j := len(s.files[i]) - 1; j >= 0; j-- {
					if b := &s.files[i][j]; b.place == n && b != a {
						if depth == maxDepth {
							s.bad("%s: %s refers to itself through %s", a.at(), a.place, ref)
							return ""
						}
						return s.resolve(b, depth+1)
					}
				}
			}
		}
		s.bad("%s: %s refers to %s, which the files do not set; write its value instead", a.at(), a.place, ref)
		return ""
	})
}
