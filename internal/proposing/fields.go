package proposing

import (
	"fmt"
	"math"
	"strconv"

	"cellgate/internal/expression"
	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Fields reads the fields of a message and keeps what is wrong with them. The zero
// value is ready.
type Fields struct {
	bad []fault.Field
	// compiled keeps expressions; nil keeps none.
	compiled *expression.Cache
}

// Problem notes that a field is wrong.
func (r *Fields) Problem(path, format string, args ...any) {
	r.bad = append(r.bad, fault.Field{Path: path, Problem: fmt.Sprintf(format, args...)})
}

// ID reads a uuid; the zero ID when it is none.
func (r *Fields) ID(path, s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	return id
}

// IDs reads a list of uuids; nil for none.
func (r *Fields) IDs(path string, in []string) []schedule.ID {
	var out []schedule.ID
	for i, s := range in {
		out = append(out, r.ID(fmt.Sprintf("%s[%d]", path, i), s))
	}
	return out
}

// UUID reads a uuid and gives its canonical text.
func (r *Fields) UUID(path, s string) string { return r.ID(path, s).String() }

// finite reads a number that must be one.
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

// Err is INVALID_REQUEST with what is wrong; nil for nothing.
func (r *Fields) Err() error { return fault.InvalidFields(r.bad) }
