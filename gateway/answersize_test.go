package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// longNamed builds hosts with the longest names that are allowed.
func longNamed(n int) []schedule.Host {
	var out []schedule.Host
	for i := range n {
		h := testHost(i, 200)
		h.ServiceHost = fmt.Sprintf("%0255d", i)
		h.NodeName = h.ServiceHost
		h.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, 1), Metadata: map[string]string{"availability_zone": strings.Repeat("z", 255)}}}
		out = append(out, h)
	}
	return out
}

// The answer to the largest allowed request fits the default message limit of gRPC clients. The next larger request is
// refused before anything is claimed.
func TestTheLargestAnswerFitsADefaultClient(t *testing.T) {
	// One host for all instances, so that every alternate stays.
	w := start(t, []*testCell{newCell(1, longNamed(40)...)}, func(c *Config) {
		patient(c)
		c.Weighers = []rules.WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: -1}}
	})
	const alternates, most = 29, 100 // 3,000 hosts
	request := func(n int) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, n)
		r.ReturnAlternates, r.MaxAlternates = true, alternates
		return r
	}
	e := w.refused(request(most+1), fault.InvalidRequest)
	if len(e.Fields) != 1 || e.Fields[0].Path != "max_alternates" || !strings.Contains(e.Message, "the most is 3000") {
		t.Errorf("%v", e)
	}
	if w.liveClaims() != 0 {
		t.Errorf("%d claims for a refused request", w.liveClaims())
	}
	resp, err := w.scheduler.SelectDestinations(context.Background(), request(most), grpc.MaxCallRecvMsgSize(4<<20))
	if err != nil {
		t.Fatalf("%d instances: %v", most, err)
	}
	if got := len(resp.GetDestinations()[most-1].GetAlternates()); got != alternates {
		t.Errorf("%d alternates, not %d", got, alternates)
	}
}
