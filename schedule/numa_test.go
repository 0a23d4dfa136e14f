package schedule

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// NUMATopologyFilter and PciPassthroughFilter pass the same hosts as the oracle, also after picks
// took hardware.
func TestHardwareIsNaive(t *testing.T) {
	norace.Skip(t, norace.Pure)
	var asked, numa, pci, unreadable, after int
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<30).Draw(t, "seed"), 3))
		f := &fleet{consumers: naiveConsumers{}}
		for i := range 8 {
			h := Host{UUID: fleetHost(i), View: randomView(rng)}
			h.View.CPURatio = oneOf(rng, []float64{1, 1.5, 16})
			text := FactTexts{Stats: "{}"}
			text.NUMATopology, text.PCIPools = randomHardware(rng)
			h.Facts = ParseFacts(text)
			naiveKind[h.Facts] = &naiveKinds[0]
			defer delete(naiveKind, h.Facts)
			f.hosts = append(f.hosts, h)
		}
		table := f.table()
		for range 8 {
			n := &NovaRequest{}
			randomGuest(rng, n)
			q := &Query{
				Request: &Request{Nova: n}, Limit: 8,
				Rules: &Rules{Filters: some(rng, []string{NUMAFilter, PCIFilter}, 0.8), Weighers: []Weigher{{PCIWeigher, 1}, {IoOpsWeigher, -1}}},
			}
			for i := range rng.IntN(12) {
				q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: oneOf(rng, f.hosts).UUID, Instance: fleetInstance(i)})
			}
			got := propose(t, table, q)
			sameProposal(t, q, got, naivePropose(f.hosts, f.consumers, q))
			asked++
			after += bit2int(got.Passed > 0 && len(q.TentativePlacements) > 0 && (n.NUMA != nil || n.PCI != nil))
			for _, r := range got.Rejects {
				numa += bit2int(r.Filter == NUMAFilter && got.Passed > 0)
				pci += bit2int(r.Filter == PCIFilter && got.Passed > 0)
				unreadable += bit2int(r.Detail == Unreadable)
			}
		}
	})
	t.Logf("%d queries: %d split by NUMA cells, %d by devices, %d met unreadable hosts, %d passed hosts after picks", asked, numa, pci, unreadable, after)
	for _, n := range []int{numa, pci, unreadable, after} {
		if n == 0 {
			t.Error("the hosts drawn show too little")
		}
	}
}
