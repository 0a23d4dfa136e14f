package cell

import (
	"context"
	"testing"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// goneState is the import of host n after its row was deleted. No instance is on it.
func goneState(n int, version uint64) *cellv1.ImportedHost {
	in := importedState(n, version)
	in.State.Disabled, in.State.DisabledReason = true, "it has no row in compute_nodes any more"
	in.State.Providers[0].Inventories = nil
	return in
}

// capacityOf returns a cell's totals of a resource class.
func capacityOf(t *cellgatev1.Cell, class string) (capacity, used int64) {
	for _, r := range t.GetResources() {
		if r.GetResourceClass() == class {
			return r.GetCapacity(), r.GetUsed()
		}
	}
	return 0, 0
}

// A host whose row is deleted has no room. Once it has no claim, it is neither listed nor counted,
// also after a restart, until it is registered again.
func TestAHostThatIsGoneIsNoHostOnceItHoldsNothing(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		r := start(t, open())
		r.importHosts(importedState(1, 1, 1), importedState(2, 1))
		r.must(newClaim("a", 3, 1, 2))
		r.must(confirm("a", 3))
		r.imported(goneState(1, 2), &cellv1.ImportOutcome{Released: 1, Overcommitted: 1})
		names, list := r.listHosts(&cellv1.ListHostsRequest{})
		if len(names) != 2 || list.GetHosts()[0].GetEnabled() || list.GetHosts()[0].GetInstances() != 1 {
			t.Errorf("with a claim on it %v are listed: %v", names, list.GetHosts())
		}
		if capacity, used := capacityOf(r.totals(), "VCPU"); capacity != 8 || used != 0 {
			t.Errorf("%d VCPU of %d, want those of the host that is there", used, capacity)
		}
		if o := r.do(newClaim("b", 4, 1, 1))[0]; o.GetRefusal().GetReason() != string(fault.NoValidHost) {
			t.Errorf("a claim on it: %v", o)
		}
		r.must(release("a", 3))
		none := func(r *testCell, when string) {
			t.Helper()
			if names, _ := r.listHosts(&cellv1.ListHostsRequest{}); len(names) != 1 || names[0] != "host-00002" {
				t.Errorf("%s: %v are listed", when, names)
			}
			if s := r.totals(); s.GetHosts() != 1 || s.GetHostsImported() != 1 {
				t.Errorf("%s: the totals are %v", when, s)
			}
			if p := r.propose(query(1)); p.GetHosts() != 1 {
				t.Errorf("%s: proposed of %v", when, p)
			}
		}
		none(r, "without a claim")
		r.stop()
		r = start(t, open())
		none(r, "after a restart")
		if o := r.do(newClaim("c", 4, 1, 1))[0]; o.GetRefusal() == nil {
			t.Errorf("a claim on it: %v", o)
		}
		r.imported(importedState(1, 3, 5), &cellv1.ImportOutcome{Adopted: 1})
		if s := r.totals(); s.GetHosts() != 2 {
			t.Errorf("it is back: %v", s)
		}
		r.imported(goneState(1, 4), &cellv1.ImportOutcome{Released: 1})
		none(r, "gone again")
		s := plainState(1, 4)
		r.register(s)
		if p := r.propose(query(1)); p.GetPassed() != 1 || p.GetHosts() != 2 {
			t.Errorf("its agent registered it: %v", p)
		}
	})
}

// FindUnclaimed returns the instances without a live claim, whether or not they had one.
func TestFindUnclaimed(t *testing.T) {
	r := start(t, newStore(t))
	r.importHosts(importedState(1, 1, 1))
	r.must(newClaim("a", 2, 1, 1), newClaim("b", 3, 1, 1), newClaim("c", 4, 1, 1))
	r.must(release("b", 3), transfer("c", 4, 5))
	var in []byte
	for n := range 7 {
		id := mustParse(t, consumerUUID(n))
		in = append(in, id[:]...)
	}
	out, err := r.cells.FindUnclaimed(context.Background(), &cellv1.FindUnclaimedRequest{Instances: in})
	if err != nil {
		t.Fatal(err)
	}
	// The claim of 4 was transferred to 5, but it still counts as the claim of instance 4.
	var want []byte
	for _, n := range []int{0, 3, 5, 6} {
		id := mustParse(t, consumerUUID(n))
		want = append(want, id[:]...)
	}
	if string(out.GetUnclaimed()) != string(want) || out.GetAt().AsTime().IsZero() {
		t.Errorf("unclaimed are %x, want %x", out.GetUnclaimed(), want)
	}
	if _, err := r.cells.FindUnclaimed(context.Background(), &cellv1.FindUnclaimedRequest{Instances: in[1:]}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("a part of a uuid: %v", err)
	}
}
