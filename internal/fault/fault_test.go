package fault

import (
	"errors"
	"fmt"
	"testing"
)

// An error must fit into the headers of an answer.
func TestInvalidFields_Many_FirstAreNamedAndOthersCounted(t *testing.T) {
	for n, want := range map[int]int{2: 2, mostFields: mostFields, mostFields + 1: mostFields + 1, mostFields + 2: mostFields + 1, 10_000: mostFields + 1} {
		fields := make([]Field, n)
		for i := range fields {
			fields[i] = Field{Path: fmt.Sprintf("spec.hosts[%d]", i), Problem: "is wrong"}
		}
		var e *Error
		if !errors.As(InvalidFields(fields), &e) || len(e.Fields) != want {
			t.Fatalf("%d fields: %d are named", n, len(e.Fields))
		}
		last, more := e.Fields[want-1], Field{Path: "spec", Problem: fmt.Sprintf("and %d more fields", n-mostFields)}
		if want == n && last != fields[n-1] || want < n && last != more {
			t.Errorf("%d fields: the last is %+v", n, last)
		}
	}
}
