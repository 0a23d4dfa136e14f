package cell

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

func ulidText(n int) string { return fmt.Sprintf("%026d", n) }

// decision returns decision number n, made now.
func decision(n int) *cellgatev1.Decision {
	return &cellgatev1.Decision{
		DecisionId: "cell1." + ulidText(n), DecidedAt: timestamppb.Now(), RequestId: fmt.Sprint("req-", n), ProjectId: fmt.Sprint("p", n%2),
		InstanceUuids: []string{strings.ToUpper(consumerUUID(n % 3))}, Message: "m",
		Destinations: []*cellgatev1.Destinations{{InstanceUuid: consumerUUID(n % 3), Selected: &cellgatev1.Selection{
			ComputeNodeUuid: consumerUUID(100 + n%2), ServiceHost: fmt.Sprintf("host-%d", n%2), Cell: fmt.Sprint("cell", n%2),
		}}},
	}
}

func (r *testCell) decide(ds ...*cellgatev1.Decision) error {
	req := &cellv1.PutDecisionsRequest{}
	for _, d := range ds {
		body, err := proto.Marshal(&cellv1.KeptDecision{Decision: d})
		if err != nil {
			return err
		}
		req.Decisions = append(req.Decisions, &cellv1.DecisionToKeep{DecisionId: d.GetDecisionId(), DecidedAt: d.GetDecidedAt(), Terms: wire.DecisionTerms(d), Body: body})
	}
	_, err := r.cells.PutDecisions(context.Background(), req)
	return err
}

func (r *testCell) decisions(req *cellv1.ListDecisionsRequest) (ids []string, more bool) {
	r.t.Helper()
	resp, err := r.cells.ListDecisions(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range resp.GetDecisions() {
		ids = append(ids, strings.TrimPrefix(d.GetDecisionId(), "cell1."))
	}
	return ids, resp.GetMore()
}

func TestDecisionsAreKeptAndFound(t *testing.T) {
	r := start(t, newStore(t))
	var all []*cellgatev1.Decision
	for n := range 6 {
		all = append(all, decision(n))
	}
	all[3].Refusal, all[3].Destinations = string(fault.NoValidHost), nil
	all[3].NoValidHost = &cellgatev1.NoValidHost{Rejects: []*cellgatev1.RejectCount{{Filter: "ResourceFilter", Detail: "MEMORY_MB", Hosts: 2}, {Filter: "ComputeFilter", Hosts: 1}}}
	all[5].Refusal, all[5].Destinations, all[5].DryRun = string(fault.Contended), nil, true
	all[1].DryRun = true
	all[2].TraceId = "4bf92f3577b34da6a3ce929d0e0e4736"
	if err := r.decide(all...); err != nil {
		t.Fatal(err)
	}
	got, err := r.cells.GetDecision(context.Background(), &cellv1.GetDecisionRequest{DecisionId: all[4].GetDecisionId()})
	if err != nil || !proto.Equal(got.GetDecision(), all[4]) {
		t.Errorf("got %v, %v; want %v", got, err, all[4])
	}
	_, err = r.cells.GetDecision(context.Background(), &cellv1.GetDecisionRequest{DecisionId: "cell1." + ulidText(9)})
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("a decision that is not there: %v", err)
	}
	for _, c := range []struct {
		ask  *cellv1.ListDecisionsRequest
		want []int
		more bool
	}{
		{&cellv1.ListDecisionsRequest{}, []int{5, 4, 3, 2, 1, 0}, false},
		{&cellv1.ListDecisionsRequest{PageSize: 2}, []int{5, 4}, true},
		{&cellv1.ListDecisionsRequest{PageSize: 2, Before: ulidText(2)}, []int{1, 0}, false},
		{&cellv1.ListDecisionsRequest{InstanceUuid: consumerUUID(1)}, []int{4, 1}, false},
		{&cellv1.ListDecisionsRequest{InstanceUuid: strings.ToUpper(consumerUUID(1)), ProjectId: "p0"}, []int{4}, false},
		{&cellv1.ListDecisionsRequest{RequestId: "req-2"}, []int{2}, false},
		{&cellv1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_REFUSED}, []int{5, 3}, false},
		{&cellv1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_DRY_RUN}, []int{1}, false},
		{&cellv1.ListDecisionsRequest{Outcome: cellgatev1.DecisionOutcome_PLACED}, []int{4, 2, 0}, false},
		{&cellv1.ListDecisionsRequest{TraceId: "4BF92F3577B34DA6A3CE929D0E0E4736"}, []int{2}, false},
		{&cellv1.ListDecisionsRequest{TraceId: "4bf92f3577b34da6a3ce929d0e0e4737"}, nil, false},
		{&cellv1.ListDecisionsRequest{Reason: "NO_VALID_HOST"}, []int{3}, false},
		{&cellv1.ListDecisionsRequest{Reason: "CONTENDED", Outcome: cellgatev1.DecisionOutcome_REFUSED}, []int{5}, false},
		{&cellv1.ListDecisionsRequest{Reason: "ResourceFilter"}, []int{3}, false},
		{&cellv1.ListDecisionsRequest{Reason: "MEMORY_MB"}, []int{3}, false},
		{&cellv1.ListDecisionsRequest{Reason: "VCPU"}, nil, false},
		{&cellv1.ListDecisionsRequest{Host: "host-0"}, []int{4, 2, 0}, false},
		{&cellv1.ListDecisionsRequest{Host: consumerUUID(101)}, []int{1}, false},
		{&cellv1.ListDecisionsRequest{HostCell: "cell1"}, []int{1}, false},
		{&cellv1.ListDecisionsRequest{HostCell: "cell0", ProjectId: "p0", PageSize: 2}, []int{4, 2}, true},
		{&cellv1.ListDecisionsRequest{From: ulidText(4)}, []int{5, 4}, false},
		{&cellv1.ListDecisionsRequest{From: ulidText(1), Before: ulidText(4), Host: "host-0"}, []int{2}, false},
	} {
		var want []string
		for _, n := range c.want {
			want = append(want, ulidText(n))
		}
		if ids, more := r.decisions(c.ask); !slices.Equal(ids, want) || more != c.more {
			t.Errorf("%v: %v (more: %v), want %v", c.ask, ids, more, want)
		}
	}
}

func TestBadDecisionsNameTheirFields(t *testing.T) {
	r := start(t, newStore(t))
	for field, spoil := range map[string]func(*cellgatev1.Decision){
		"decisions[1].decision_id": func(d *cellgatev1.Decision) { d.DecisionId = "cell2." + ulidText(1) },
		"decisions[1].decided_at":  func(d *cellgatev1.Decision) { d.DecidedAt = nil },
	} {
		bad := decision(1)
		spoil(bad)
		if err := r.decide(decision(0), bad); fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if ids, _ := r.decisions(&cellv1.ListDecisionsRequest{}); len(ids) != 0 {
		t.Errorf("kept %v", ids)
	}
	if _, err := r.cells.ListDecisions(context.Background(), &cellv1.ListDecisionsRequest{InstanceUuid: "x"}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("a bad instance_uuid: %v", err)
	}
}

func TestOldDecisionsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), func(c *Config) { c.DecisionsKeep, c.MaxDecisions = time.Hour, 3 })
		left := func(want ...string) {
			t.Helper()
			if ids, _ := r.decisions(&cellv1.ListDecisionsRequest{}); !slices.Equal(ids, want) {
				t.Errorf("left are %v, want %v", ids, want)
			}
		}
		for n := range 5 {
			if err := r.decide(decision(n)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		left(ulidText(4), ulidText(3), ulidText(2))
		time.Sleep(30 * time.Minute)
		if err := r.decide(decision(5)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		left(ulidText(5))
		time.Sleep(time.Hour)
		synctest.Wait()
		left()
	})
}

// A decision older than the retention is not shown, though it is deleted only some time later.
func TestDecisionsEndOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.DecisionsKeep = replica.TrimEvery / 2 })
		shown := func(want bool) {
			t.Helper()
			for _, ask := range []*cellv1.ListDecisionsRequest{{}, {RequestId: "req-1"}, {InstanceUuid: consumerUUID(1)}, {ProjectId: "p1"}} {
				if ids, _ := r.decisions(ask); (len(ids) == 1) != want {
					t.Errorf("%v lists %v, want it there: %v", ask, ids, want)
				}
			}
			_, err := r.cells.GetDecision(context.Background(), &cellv1.GetDecisionRequest{DecisionId: decision(1).GetDecisionId()})
			if want && err != nil || !want && fault.KindOf(err) != fault.NotFound {
				t.Errorf("GetDecision: %v, want it there: %v", err, want)
			}
		}
		if err := r.decide(decision(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(replica.TrimEvery/2 - time.Second)
		shown(true)
		time.Sleep(2 * time.Second)
		shown(false)
		if p, err := store.FindDecisions(context.Background(), shard.DecisionQuery{}); err != nil || len(p.Decisions) != 1 {
			t.Errorf("the store has %d, %v: it was dropped already, and this test shows nothing", len(p.Decisions), err)
		}
	})
}
