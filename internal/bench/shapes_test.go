package bench

import (
	"math/rand/v2"
	"testing"

	"cellgate/internal/rpc"
)

func TestMixIsValidAndHasEverything(t *testing.T) {
	const n = 20000
	m := maker{shape: Mix, dice: rand.New(rand.NewPCG(1, 2))}
	seen := map[string]int{}
	for i := range n {
		req, impossible := m.next()
		if i < 500 {
			if err := rpc.Validate(req); err != nil {
				t.Fatalf("%v: %v", req, err)
			}
		}
		spec := req.GetRequestSpec()
		for name, yes := range map[string]bool{
			"zone": spec.GetAvailabilityZone() != "", "traits": len(spec.GetRequiredTraits()) > 0 && !impossible,
			"several": len(req.GetInstanceUuids()) > 1, "group": spec.GetInstanceGroup() != nil, "impossible": impossible,
			"2 vcpus": spec.GetFlavor().GetVcpus() == 2, "32 vcpus": spec.GetFlavor().GetVcpus() == 32,
		} {
			if yes {
				seen[name]++
			}
		}
	}
	for name, percent := range map[string]int{"zone": 12, "traits": 12, "several": 6, "group": 2, "impossible": 2, "2 vcpus": 45, "32 vcpus": 2} {
		if want := n * percent / 100; seen[name] < want*3/4 || seen[name] > want*5/4 {
			t.Errorf("%s: %d of %d, want about %d %%", name, seen[name], n, percent)
		}
	}
	if total := func() (sum int) {
		for _, f := range flavors {
			sum += f.share
		}
		return sum
	}(); total != 100 {
		t.Errorf("the flavors' shares add up to %d", total)
	}
}
