package wire

import (
	"fmt"
	"math"
	"strconv"

	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Fields decodes fields of messages and collects their problems, so that all are
// reported at once. The zero value is ready.
type Fields struct {
	bad []fault.Field
	// Expressions caches compiled expressions; nil compiles each one again.
	Expressions *expression.Cache
}

// Problem adds a problem of a field.
func (r *Fields) Problem(path, format string, args ...any) {
	r.bad = append(r.bad, fault.Field{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// ID decodes a uuid. If s is not one, that is a problem and the ID is zero.
func (r *Fields) ID(path, s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	return id
}

// IDs decodes a list of uuids; nil for an empty one.
func (r *Fields) IDs(path string, in []string) []schedule.ID {
	var out []schedule.ID
	for i, s := range in {
		out = append(out, r.ID(fmt.Sprintf("%s[%d]", path, i), s))
	}
	return out
}

// UUID decodes a uuid and returns its canonical text.
func (r *Fields) UUID(path, s string) string { return r.ID(path, s).String() }

// finite checks that a number is finite.
func (r *Fields) finite(path string, x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		r.Problem(path, "must be a finite number")
	}
	return x
}

// ItemPath is the path of a list's item.
func ItemPath(list string, i int, field string) string {
	return list + "[" + strconv.Itoa(i) + "]" + field
}

// Ok reports whether there is no problem.
func (r *Fields) Ok() bool { return len(r.bad) == 0 }

// Err is INVALID_REQUEST with all problems; nil if there is none.
func (r *Fields) Err() error { return fault.InvalidFields(r.bad) }
