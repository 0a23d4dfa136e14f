package cell

import (
	"slices"
	"strings"
	"testing"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

func TestPlainDecisionsAreBounded(t *testing.T) {
	one := func(d *cellv1.DecisionToKeep) []*cellv1.DecisionToKeep { return []*cellv1.DecisionToKeep{d} }
	for name, tt := range map[string]struct {
		ds   []*cellv1.DecisionToKeep
		sure bool
	}{
		"none":           {nil, false},
		"an empty one":   {one(&cellv1.DecisionToKeep{}), true},
		"many":           {slices.Repeat(one(&cellv1.DecisionToKeep{Body: make([]byte, 100)}), 1000), true},
		"too many":       {slices.Repeat(one(&cellv1.DecisionToKeep{}), 1001), false},
		"too large":      {one(&cellv1.DecisionToKeep{Body: make([]byte, plainBody+1)}), false},
		"large together": {slices.Repeat(one(&cellv1.DecisionToKeep{Body: make([]byte, plainBody)}), rpc.MaxMessageBytes/plainBody), false},
		"a long id":      {one(&cellv1.DecisionToKeep{DecisionId: strings.Repeat("x", plainName+1)}), false},
		"terms":          {one(&cellv1.DecisionToKeep{Terms: slices.Repeat([]string{strings.Repeat("x", plainTerm)}, 3)}), true},
		"many terms":     {one(&cellv1.DecisionToKeep{Terms: slices.Repeat([]string{"x"}, plainTerms+1)}), false},
		"a long term":    {one(&cellv1.DecisionToKeep{Terms: []string{strings.Repeat("x", plainTerm+1)}}), false},
	} {
		m := &cellv1.PutDecisionsRequest{Decisions: tt.ds}
		if got := plain(m); got != tt.sure {
			t.Errorf("%s: %v, want %v", name, got, tt.sure)
		}
		if err := rpc.Validate(m); tt.sure && err != nil {
			t.Errorf("%s breaks a rule: %v", name, err)
		}
	}
}
