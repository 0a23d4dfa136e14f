package proposals

import (
	"context"
	"errors"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// A proposal whose caller has left is not computed, and the error does not blame the query.
func TestAnAbandonedProposalEnds(t *testing.T) {
	shapes, at := NewShapes(), Version{Table: tableOf(100)}
	in := &cellv1.Query{Placement: serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Rules: &cellv1.Rules{},
	}), Limit: 1}
	ctx, cancel := context.WithCancel(context.Background())
	for i, part := range []*Part{nil, nil, {Hosts: 100}} { // the second has a cache
		at.Part = part
		if _, _, err := shapes.Propose(ctx, nil, at, "v", in); err != nil {
			t.Fatal(i, err)
		}
	}
	cancel()
	for i, part := range []*Part{nil, nil, {Hosts: 100}} {
		at.Part = part
		if out, _, err := shapes.Propose(ctx, nil, at, "v", in); !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v, %v", i, out, err)
		}
	}
}
