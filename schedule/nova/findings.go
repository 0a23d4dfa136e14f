package nova

import (
	"fmt"
	"strings"

	"cellgate/internal/fault"
)

// maxReported bounds the problems that an error names, so that it fits into response headers.
const maxReported = 32

// findings collects the problems of a form, and the parts of it that are ignored.
type findings struct {
	// fields has the first problem of each path, at most maxReported.
	fields  []fault.Field
	paths   map[string]bool
	ignored []string
	// resolved: the form has its own fields for a NUMA topology and devices. numa, pci: the request has some, from
	// these fields or made from other keys.
	resolved, numa, pci bool
	options             *Options
}

func (f *findings) invalid(path, format string, args ...any) {
	if f.paths[path] {
		return
	}
	if f.paths == nil {
		f.paths = map[string]bool{}
	}
	f.paths[path] = true
	if len(f.fields) < maxReported {
		f.fields = append(f.fields, fault.Field{
			Path:    shorten(path),
			Problem: fmt.Sprintf(format, args...),
		})
	}
}

func (f *findings) ignore(path string) { f.ignored = append(f.ignored, path) }

// readOver is for an extra spec that cannot be parsed, and that Nova ignores with a warning in its log. The request
// is refused or, with strict_nova, the extra spec is reported as ignored.
func (f *findings) readOver(path, format string, args ...any) {
	if f.options.Strict {
		f.ignore(path)
		return
	}
	f.invalid(path, format, args...)
}

func (f *findings) err() error {
	fields := f.fields
	if more := len(f.paths) - len(fields); more > 0 {
		form, _, _ := strings.Cut(fields[0].Path, ".")
		fields = append(fields, fault.Field{Path: form, Problem: fmt.Sprintf("and %d more fields", more)})
	}
	return fault.InvalidFields(fields)
}
