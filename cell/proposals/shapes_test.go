package proposals

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

func inZone(zone string) []byte {
	return serialized(&cellv1.Placement{AvailabilityZone: zone, Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}})
}

func TestAShapeIsReadOnce(t *testing.T) {
	s := NewShapes()
	var r wire.Fields
	first := s.read(&r, inZone("az1"))
	if again := s.read(&r, inZone("az1")); again != first {
		t.Error("equal bytes were read twice")
	}
	if other := s.read(&r, inZone("az2")); other == first || other.request.AvailabilityZone != "az2" {
		t.Error("other bytes gave the same shape")
	}
	if !r.Ok() {
		t.Error(r.Err())
	}
}

func TestShapesAreForgottenUnlessTheyAreAskedFor(t *testing.T) {
	s := NewShapes()
	var r wire.Fields
	rare, usual := s.read(&r, inZone("rare")), s.read(&r, inZone("usual"))
	for i := range 4 * maxShapes {
		s.read(&r, inZone(fmt.Sprint("az", i)))
		if s.read(&r, inZone("usual")) != usual {
			t.Fatalf("a shape in use was forgotten after %d others", i+1)
		}
	}
	if n := len(s.young) + len(s.old); n > 2*maxShapes {
		t.Errorf("%d shapes are kept, the most is %d", n, 2*maxShapes)
	}
	if s.read(&r, inZone("rare")) == rare {
		t.Error("a shape that nobody asked for was kept")
	}
}

func TestLargeAndBadPlacementsAreNotKept(t *testing.T) {
	s := NewShapes()
	var r wire.Fields
	large := &cellv1.Placement{Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}}
	for i := range 2000 {
		large.IgnoreHosts = append(large.IgnoreHosts, fmt.Sprint("host-", i))
	}
	if got := s.read(&r, serialized(large)); len(got.request.IgnoreHosts) != 2000 {
		t.Errorf("a large placement lost hosts: %d", len(got.request.IgnoreHosts))
	}
	for range 2 {
		_, _, _, err := s.QueryOf(&cellv1.Query{Limit: 1, Placement: serialized(&cellv1.Placement{Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: -1}}})})
		if fault.KindOf(err) != fault.InvalidRequest {
			t.Errorf("a bad placement: %v", err)
		}
		if _, _, _, err = s.QueryOf(&cellv1.Query{Limit: 1, Placement: []byte{0xff}}); fault.KindOf(err) != fault.InvalidRequest {
			t.Errorf("no placement at all: %v", err)
		}
	}
	if n := len(s.young) + len(s.old); n != 0 {
		t.Errorf("%d shapes are kept", n)
	}
}

func serialized(p *cellv1.Placement) []byte {
	text, err := proto.Marshal(p)
	if err != nil {
		panic(err)
	}
	return text
}
