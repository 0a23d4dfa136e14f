package novaconf

import (
	"fmt"
	"strings"

	"cellgate/internal/python"
)

// place is an option's group and name.
type place struct{ group, name string }

func (p place) String() string { return "[" + p.group + "] " + p.name }

// assignment is an option in a file.
type assignment struct {
	place
	value string
	// file and line are where the assignment begins; line counts from 1.
	file string
	line int
}

func (a assignment) at() string { return fmt.Sprintf("%s:%d", a.file, a.line) }

// parseINI parses a file as oslo.config's iniparser does: a line that begins with a blank continues the
// value before it, an empty line ends a value, and comments are whole lines. Lines that cannot be
// parsed become problems; all others are returned.
func parseINI(file, text string) (all []*assignment, problems []string) {
	var open *assignment
	group := ""
	bad := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: ", file, line)+fmt.Sprintf(format, args...))
	}
	flush := func() {
		if open != nil {
			all = append(all, open)
			open = nil
		}
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \t\r\n\f\v")
		switch {
		case line == "":
			flush()
		case line[0] == ' ' || line[0] == '\t':
			if open == nil {
				bad(n, "begins with a blank, but there is no value to go on with")
				continue
			}
			open.value += "\n" + strings.TrimLeft(line, " \t")
		case line[0] == '[':
			flush()
			name, ended := strings.CutSuffix(line[1:], "]")
			if !ended || name == "" {
				bad(n, "%q is not a section; write it as [name]", line)
				continue
			}
			group = groupName(name)
		case line[0] == '#' || line[0] == ';':
			flush()
		default:
			flush()
			i := strings.IndexAny(line, "=:")
			key := ""
			if i >= 0 {
				key = python.Strip(line[:i])
			}
			switch {
			case key == "":
				bad(n, "%q is not an option; write it as name = value", line)
			case group == "":
				bad(n, "%s stands before the first section", key)
			default:
				open = &assignment{
					place: place{group, key},
					value: unquote(python.Strip(line[i+1:])), file: file, line: n,
				}
			}
		}
	}
	flush()
	return all, problems
}

// groupName: oslo.config compares groups without case, except DEFAULT.
func groupName(name string) string {
	if name == "DEFAULT" {
		return name
	}
	return strings.ToLower(name)
}

// unquote removes the quotes around a whole value; a single quote character counts as both.
func unquote(v string) string {
	if v == `"` || v == "'" {
		return ""
	}
	if len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[0] == v[len(v)-1] {
		return v[1 : len(v)-1]
	}
	return v
}
