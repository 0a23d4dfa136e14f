package decisions

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestDecisionThatIsTooLargeIsCutDown(t *testing.T) {
	resp := &cellgatev1.Decision{DecisionId: "c.1", Message: "m"}
	for i := range 40 {
		one := &cellgatev1.Selection{ServiceHost: "h", AllocationRequest: strings.Repeat("x", 500)}
		resp.Destinations = append(resp.Destinations, &cellgatev1.Destinations{InstanceUuid: fmt.Sprint(i), Selected: one, Alternates: []*cellgatev1.Selection{one, one}})
	}
	shared := proto.CloneOf(resp)
	for _, tt := range []struct {
		most int
		want string
	}{
		{proto.Size(resp), "m"},
		{proto.Size(resp) - 1, "m; cut down to what is kept: without alternates"},
		{10000, "m; cut down to what is kept: without alternates and allocation requests"},
		{500, "m; cut down to what is kept: without destinations, counts of rejects and ignored fields"},
	} {
		d := &cellgatev1.Decision{DecisionId: "c.1", Message: "m", Destinations: resp.GetDestinations()}
		cutDown(d, tt.most)
		if d.GetMessage() != tt.want || proto.Size(d) > tt.most+100 {
			t.Errorf("%d: %d bytes, %q", tt.most, proto.Size(d), d.GetMessage())
		}
	}
	if !proto.Equal(resp, shared) {
		t.Error("the answer was changed")
	}
}
