package config

import (
	"fmt"
	"strings"

	"cellgate/internal/suggest"
)

// Problems are all problems of a configuration. Each entry says where the problem is, in which key,
// what is wrong and what would be right.
type Problems struct{ List []string }

// Error lists the problems, one a line if there are several.
func (p *Problems) Error() string {
	if len(p.List) == 1 {
		return p.List[0]
	}
	return fmt.Sprintf("%d problems with the configuration:\n  %s", len(p.List), strings.Join(p.List, "\n  "))
}

func (p *Problems) add(format string, args ...any) {
	p.List = append(p.List, fmt.Sprintf(format, args...))
}

func (p *Problems) err() error {
	if len(p.List) == 0 {
		return nil
	}
	return p
}

// unknown is the problem of a key that does not exist. All known names begin with prefix; a prefix that
// the name has too does not make it similar to them.
func unknown(what, prefix, name string, known []string) string {
	var rest []string
	for _, k := range known {
		rest = append(rest, strings.TrimPrefix(k, prefix))
	}
	if n := suggest.Nearest(strings.TrimPrefix(name, prefix), rest, 2); n != "" {
		return fmt.Sprintf("unknown %s %s; did you mean %s%s?", what, name, prefix, n)
	}
	return fmt.Sprintf("unknown %s %s; known are %s", what, name, strings.Join(known, ", "))
}
