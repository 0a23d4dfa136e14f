package cell

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// A query that needs more time than its call has fails alone: the other queries of the call are answered.
func TestProposeBatch_OneQueryNeedsTooLong_OthersAreAnswered(t *testing.T) {
	r := start(t, newStore(t))
	const hosts = 64
	for n := 1; n <= hosts; n++ {
		var cells []string
		for id := range 8 {
			cells = append(cells, fmt.Sprintf(`{"nova_object.name": "NUMACell", "nova_object.data": {"id": %d, "cpuset": [%d], "pcpuset": [],
				"pinned_cpus": [], "siblings": [], "mempages": [], "memory": %d, "memory_usage": 0, "cpu_usage": 0, "socket": 0}}`, id, id, 1000+n))
		}
		state := plainState(n, 8)
		state.Facts = &agentv1.Facts{Stats: "{}", NumaTopology: `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [` + strings.Join(cells, ",") + `]}}`}
		r.register(state)
	}
	// Any seven cells have room, in any order, but no device is near them: tens of milliseconds a host.
	nova := &cellv1.NovaRequest{Numa: &cellv1.GuestNuma{}, PciRequests: oneGPU()}
	for id := range 7 {
		nova.Numa.Cells = append(nova.Numa.Cells, &cellv1.GuestCell{Id: int64(id), Cpus: 1, MemoryMb: 1})
	}
	slow := query(1)
	slow.Placement = serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Nova: nova, Rules: &cellv1.Rules{Filters: []string{schedule.NUMAFilter}},
	})
	// A busy machine may not answer even the quick query in this time, and then needs longer for the slow one, too.
	for limit := 400 * time.Millisecond; ; limit *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		out, err := r.cells.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(1), slow}})
		cancel()
		if (err != nil || out.GetProposals()[0].GetFailure() != nil) && limit < testwait.Limit {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if p := out.GetProposals()[0]; p.GetFailure() != nil || p.GetPassed() != hosts {
			t.Errorf("the quick query: %v, %d hosts", p.GetFailure(), p.GetPassed())
		}
		if f := out.GetProposals()[1].GetFailure(); f.GetReason() != "OVERLOADED" {
			t.Errorf("the slow query: %v", f)
		}
		return
	}
}
