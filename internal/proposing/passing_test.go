package proposing

import (
	"context"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Two answers have the same number and sum when the same hosts pass, whatever the order they
// came to the table in; hosts that are left out are in neither, and not in the list.
func TestPassingHosts(t *testing.T) {
	ask := func(seed uint64, but []byte, list bool, hosts ...byte) *cellv1.Passing {
		t.Helper()
		e := schedule.NewTable().Edit()
		for _, n := range hosts {
			e.PutHost(schedule.Host{UUID: schedule.ID{15: n}, ServiceHost: "h", NodeName: "h", Disabled: n > 200})
		}
		q := &cellv1.Query{
			Placement: serialized(&cellv1.Placement{Rules: &cellv1.Rules{Filters: []string{"ComputeFilter"}}}), Limit: 1, Seed: seed,
			Passing: &cellv1.PassingQuery{But: but, List: list},
		}
		out, _, err := NewShapes().Propose(context.Background(), nil, Version{Table: e.Table()}, "v", q)
		if err != nil {
			t.Fatal(err)
		}
		return out.GetPassing()
	}
	same := func(a, b *cellv1.Passing) bool { return a.GetHosts() == b.GetHosts() && a.GetSum() == b.GetSum() }
	id := func(n byte) []byte { return append(make([]byte, 15), n) }
	all := ask(7, nil, false, 1, 2, 3, 4, 201)
	if all.GetHosts() != 4 || len(all.GetUuids()) != 0 {
		t.Errorf("of four that pass it says %v", all)
	}
	if !same(all, ask(7, nil, true, 4, 202, 2, 1, 3)) {
		t.Error("the same hosts in another order have another sum")
	}
	for _, other := range [][]byte{{1, 2, 3, 5}, {1, 2, 3}, {1, 2, 4, 7}, {0, 2, 3, 5}} {
		if same(all, ask(7, nil, false, other...)) {
			t.Errorf("hosts %v have the sum of others", other)
		}
	}
	if b := ask(8, nil, false, 1, 2, 3, 4); same(all, b) {
		t.Error("the sum is the same under another seed: what is not told apart would never be")
	}
	without := ask(7, append(id(2), id(9)...), true, 1, 2, 3)
	if !same(without, ask(7, nil, false, 3, 1)) || string(without.GetUuids()) != string(id(1))+string(id(3)) {
		t.Errorf("without one host it says %v", without)
	}
	if p := ask(7, nil, true); p == nil || p.GetHosts() != 0 || p.GetSum() != 0 {
		t.Errorf("of none it says %v", p)
	}
}

// Who does not ask, and a replica that loads its table, is told nothing.
func TestPassingHostsAreToldWhenAsked(t *testing.T) {
	q := &cellv1.Query{Placement: serialized(&cellv1.Placement{Rules: &cellv1.Rules{}}), Limit: 1}
	for _, c := range []struct {
		part  *Part
		asked *cellv1.PassingQuery
		told  bool
	}{{nil, nil, false}, {nil, &cellv1.PassingQuery{}, true}, {&Part{Hosts: 100}, &cellv1.PassingQuery{}, false}} {
		q.Passing = c.asked
		out, _, err := NewShapes().Propose(context.Background(), nil, Version{Table: tableOf(100), Part: c.part}, "v", q)
		if err != nil || (out.GetPassing() != nil) != c.told {
			t.Errorf("asked %v of part %v it says %v, %v", c.asked, c.part, out.GetPassing(), err)
		}
	}
}
