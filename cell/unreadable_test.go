package cell

import (
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// The gateway gets the exception that Nova would raise for a host, with the host's name, also for a
// shape that is answered from the cache.
func TestUnreadableHostsAreNamedToTheGateway(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	r.register(state)
	r.register(plainState(2, 8))
	q := &cellv1.Query{Limit: 10, Seed: 1, Placement: serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}},
		Nova:      &cellv1.NovaRequest{Hints: []*cellv1.NovaHint{{Name: "query", Values: []string{`["<", "$host", 5]`}}}},
		Rules:     &cellv1.Rules{Filters: append(schedule.DefaultFilters(), schedule.JSONFilter)},
	})}
	for range 3 {
		p := r.propose(q)
		if p.GetFailure() != nil || p.GetPassed() != 0 || len(p.GetRejects()) != 1 {
			t.Fatalf("%v", p)
		}
		got := p.GetRejects()[0]
		if got.GetFilter() != schedule.JSONFilter || got.GetDetail() != schedule.Unreadable || got.GetHosts() != 2 || got.GetExample() != state.GetServiceHost() ||
			got.GetExceptionClass() != "TypeError" || got.GetExceptionMessage() != "'<' not supported between instances of 'str' and 'int'" {
			t.Errorf("%v", got)
		}
	}
}
