package cell

import (
	"fmt"
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// The hosts that are short of an amount are those that refuse a claim for it, and what
// they have left is the most that they do not refuse.
func TestHostsShortOfAnAmountAreThoseThatRefuseIt(t *testing.T) {
	r := start(t, newStore(t))
	for n := range 5 {
		s := plainState(n+1, 8)
		inv := s.GetProviders()[0].GetInventories()[0]
		switch n {
		case 1:
			inv.AllocationRatio = 1.5
		case 2:
			inv.Reserved = 3
		case 3:
			inv.MaxUnit = 4
		case 4:
			s.Disabled = true
		}
		r.register(s)
	}
	for n := range 4 {
		r.must(newClaim(fmt.Sprint("held-", n), 100+n, n+1, int32(n+1)))
	}
	for amount := int32(1); amount < 15; amount++ {
		out, err := r.cells.ReportLegacy(t.Context(), &cellv1.ReportLegacyRequest{
			Gateway: "g", Look: true, ShortOf: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: amount}},
		})
		if err != nil {
			t.Fatal(err)
		}
		left := map[string]int64{}
		for _, h := range out.GetShort() {
			if len(h.GetRooms()) != 1 || h.GetRooms()[0].GetResourceClass() != "VCPU" {
				t.Fatalf("it says %v", h)
			}
			left[h.GetHostUuid()] = h.GetRooms()[0].GetAmount()
		}
		for n := range 5 {
			id := fmt.Sprintf("try-%d-%d", amount, n)
			refused := r.do(newClaim(id, 200, n+1, amount))[0].GetRefusal() != nil
			if !refused {
				r.must(release(id, 200))
			}
			most, short := left[hostUUID(n+1)]
			if short != refused || short && most >= int64(amount) {
				t.Errorf("host %d and %d: refused is %v, short is %v with %d left", n+1, amount, refused, short, most)
			}
			if short && most > 0 {
				id += "-most"
				r.must(newClaim(id, 200, n+1, int32(most)), release(id, 200))
			}
		}
	}
	none, err := r.cells.ReportLegacy(t.Context(), &cellv1.ReportLegacyRequest{
		Gateway: "g", Look: true, ShortOf: []*cellv1.Amount{{ResourceClass: "CUSTOM_X", Amount: 1}, {ResourceClass: "VCPU", Amount: 1}},
	})
	if err != nil || len(none.GetShort()) != 5 || len(none.GetAwaited()) != 0 {
		t.Errorf("of a class that no host has: %v, %v", none, err)
	}
	if few := r.cell.rows.shortOf([]*cellv1.Amount{{ResourceClass: "CUSTOM_X", Amount: 1}}, 2); len(few) != 2 {
		t.Errorf("%d of at most 2", len(few))
	}
}
