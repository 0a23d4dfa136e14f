package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

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
	w := start(t, []*fakeCell{newFakeCell(1, longNamed(40)...)}, func(c *Config) {
		c.Weighers = []WeigherConfig{{Name: schedule.RAMWeigher, Multiplier: -1}}
	})
	request := func(n, alternates int) *cellgatev1.SelectDestinationsRequest {
		r := ask(1, n)
		r.ReturnAlternates, r.MaxAlternates = true, int32(alternates)
		return r
	}
	if _, err := w.g.newSelection(request(1000, 0)); err != nil {
		t.Errorf("as many instances as there may be, with Nova's alternates: %v", err)
	}
	const alternates = 32
	most := 1
	for {
		if _, err := w.g.newSelection(request(most+1, alternates)); err != nil {
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

func TestWhatMakesAnAnswerTooLargeIsNamed(t *testing.T) {
	w := start(t, fleet(1, 1), nil)
	for _, tt := range []struct {
		field string
		bad   func(s *selection)
	}{
		{"max_alternates", func(s *selection) { s.alternates = 32 }},
		{"instance_uuids", func(s *selection) {
			for i := range 64 {
				s.request.Resources = append(s.request.Resources, schedule.Amount{Class: fmt.Sprintf("CUSTOM_%0248d", i), N: 1})
			}
		}},
		{"request_spec", func(s *selection) {
			for range 5 {
				s.ignored = append(s.ignored, strings.Repeat("x", 1<<20))
			}
		}},
	} {
		s, err := w.g.newSelection(ask(1, 1000))
		if err != nil {
			t.Fatal(err)
		}
		tt.bad(s)
		if e := mustFail(t, nil, s.answerFits(), fault.InvalidRequest); e.Fields[0].Path != tt.field {
			t.Errorf("%v, want %s", e, tt.field)
		}
	}
}
