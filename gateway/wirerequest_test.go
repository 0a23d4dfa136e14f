package gateway

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// TestConditionsGoToTheWire: an isolation of no traits is not the same
// as none.
func TestConditionsGoToTheWire(t *testing.T) {
	for _, want := range []*schedule.Request{
		{},
		{Fallback: &schedule.Fallback{Resources: []schedule.Amount{{Class: "VCPU", N: 2}}, Required: []string{"X"}, Forbidden: []string{"Y"}}},
		{Tree: &schedule.Tree{Required: []string{"X"}, Both: []string{"X"}}},
		{Tree: &schedule.Tree{
			Forbidden: []string{"Y"}, Isolate: true, SameSubtree: [][]string{{"1", "2"}, {"1"}},
			Groups: []schedule.ResourceGroup{{Suffix: "1", Required: []string{"Z"}, Forbidden: []string{"W"}}, {Suffix: "2", Resources: []schedule.Amount{{Class: "VGPU", N: 2}}}},
		}},
		{Tenant: "p"},
		{Isolated: &schedule.Isolation{}},
		{Isolated: &schedule.Isolation{Traits: []string{"X", "Y"}}},
	} {
		q := &cellv1.Query{Placement: placementBytes(want, &schedule.Rules{}, ""), Limit: 1}
		got := queryFrom(q).Request
		if got.Tenant != want.Tenant || !reflect.DeepEqual(got.Isolated, want.Isolated) || !reflect.DeepEqual(got.Fallback, want.Fallback) ||
			!reflect.DeepEqual(got.Tree, want.Tree) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if p := (&cellv1.Placement{}); proto.Unmarshal(q.GetPlacement(), p) != nil || (p.GetIsolated() != nil) != (want.Isolated != nil) {
			t.Errorf("%v", p)
		}
	}
}
