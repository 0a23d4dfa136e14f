package schedule

import (
	"math/rand/v2"
	"testing"
)

// FuzzHardware holds that no report of NUMA cells and devices panics, nor any request to it.
func FuzzHardware(f *testing.F) {
	rng := rand.New(rand.NewPCG(9, 9))
	for range 20 {
		numa, pci := randomHardware(rng)
		f.Add(numa, pci, rng.Uint64())
	}
	f.Add(`{"cells": [{"id": 0, "cpus": "0-3,^2", "mem": {"total": 512, "used": 0}}]}`, `[{"vendor_id": "1", "product_id": "2", "count": 1}]`, uint64(1))
	f.Add(`{"nova_object.data": {"cells": [{"nova_object.data": {}}]}}`, `{"nova_object.data": {"objects": [{}]}}`, uint64(2))
	f.Add(`{}`, `{"count": 1}`, uint64(3))
	f.Fuzz(func(t *testing.T, numa, pci string, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := Host{UUID: fleetHost(1), View: View{CPURatio: 1, RAMRatio: 1}}
		h.Facts = ParseFacts(FactTexts{NUMATopology: numa, PCIPools: pci})
		e := NewTable().Edit()
		e.PutHost(h)
		table := e.Table()
		n := &NovaRequest{}
		randomGuest(rng, n)
		q := &Query{Request: &Request{Nova: n}, Rules: &Rules{Filters: []string{NUMAFilter, PCIFilter}}, Limit: 1}
		for i := range 3 {
			p := propose(t, table, q)
			if p.Passed == 1 && len(h.Facts.Failed) > 0 {
				t.Errorf("a host passes whose report cannot be read: %v", h.Facts.Failed)
			}
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: h.UUID, Instance: fleetInstance(i)})
		}
	})
}
