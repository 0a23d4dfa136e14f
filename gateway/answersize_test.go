package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/rules"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// longNamed are hosts with the longest names there may be.
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

// The largest request that is allowed has an answer that a client of gRPC takes
// with its defaults; the next larger one is refused before anything is claimed.
func TestTheLargestAnswerFitsADefaultClient(t *testing.T) {
	// One host for all instances, so that every alternate stays.
	w := start(t, []*testCell{newCell(1, longNamed(40)...)}, func(c *Config) {
		c.Weighers = []rules.WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: -1}}
	})
	request := func(n, alternates int) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, n)
		r.ReturnAlternates, r.MaxAlternates = true, int32(alternates)
		return r
	}
	// Where no cell answers, a request that is let in fails at once, for another reason.
	deaf := start(t, []*testCell{newCell(1, longNamed(1)...)}, func(c *Config) {
		c.Weighers = []rules.WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: -1}}
	})
	deaf.cells[0].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "away") }, nil)
	tried := func(req *cellgatev1.SelectDestinationsRequest) error {
		_, err := deaf.scheduler.SelectDestinations(t.Context(), req)
		if fault.KindOf(err) == fault.CellUnavailable {
			return nil
		}
		return err
	}
	if err := tried(request(1000, 0)); err != nil {
		t.Errorf("as many instances as there may be, with Nova's alternates: %v", err)
	}
	const alternates = 32
	most := 1
	for {
		if err := tried(request(most+1, alternates)); err != nil {
			break
		}
		most++
	}
	e := w.refused(request(most+1, alternates), fault.InvalidRequest)
	if e.Fields[0].Path != "max_alternates" || !strings.Contains(e.Message, "4194304") || !strings.Contains(e.Message, "at most 31 ") {
		t.Errorf("%v", e)
	}
	if w.liveClaims() != 0 {
		t.Errorf("%d claims for a refused request", w.liveClaims())
	}
	resp, err := w.scheduler.SelectDestinations(context.Background(), request(most, alternates), grpc.MaxCallRecvMsgSize(4<<20))
	if err != nil {
		t.Fatalf("%d instances: %v", most, err)
	}
	if got := len(resp.GetDestinations()[most-1].GetAlternates()); got != alternates {
		t.Errorf("%d alternates, not %d", got, alternates)
	}
	if size := proto.Size(resp); size < 4<<20*9/10 {
		t.Errorf("%d instances are the most, but their answer has only %d bytes", most, size)
	}
}
