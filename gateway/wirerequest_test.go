package gateway

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// TestConditionsOfAggregatesGoToTheWire: an isolation of no traits is not the same
// as none.
func TestConditionsOfAggregatesGoToTheWire(t *testing.T) {
	for _, want := range []*schedule.Request{
		{}, {Tenant: "p"}, {Isolated: &schedule.Isolation{}}, {Isolated: &schedule.Isolation{Traits: []string{"X", "Y"}}},
	} {
		q := &cellv1.Query{Placement: placementBytes(want, &schedule.Rules{}, ""), Limit: 1}
		got := queryFrom(q).Request
		if got.Tenant != want.Tenant || !reflect.DeepEqual(got.Isolated, want.Isolated) {
			t.Errorf("%q %+v, want %q %+v", got.Tenant, got.Isolated, want.Tenant, want.Isolated)
		}
		if p := (&cellv1.Placement{}); proto.Unmarshal(q.GetPlacement(), p) != nil || (p.GetIsolated() != nil) != (want.Isolated != nil) {
			t.Errorf("%v", p)
		}
	}
}
