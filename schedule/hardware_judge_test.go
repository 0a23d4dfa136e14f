package schedule

import (
	"math/rand/v2"
	"testing"

	"cellgate/internal/raced"
)

// TestJudgeGuestsIsWhatTheFiltersSay: instances judged one after the other pass and
// fail as picks of one request do.
func TestJudgeGuestsIsWhatTheFiltersSay(t *testing.T) {
	raced.Skip(t, raced.Pure)
	rng := rand.New(rand.NewPCG(11, 12))
	counts := map[string]int{}
	for range 3000 {
		numa, pci := randomHardware(rng)
		h := Host{UUID: fleetHost(1), View: View{CPURatio: 1, RAMRatio: 1}}
		h.Facts = ParseFacts(FactTexts{NUMATopology: numa, PCIPools: pci})
		if len(h.Facts.Failed) > 0 {
			continue // No filter sees it.
		}
		e := NewTable().Edit()
		e.PutHost(h)
		table := e.Table()
		n := &NovaRequest{}
		randomGuest(rng, n)
		if n.NUMA == nil && len(n.PCI) == 0 {
			continue
		}
		n.NeedThreads = false // Asks nothing that another instance could take.
		q := &Query{Request: &Request{Nova: n}, Rules: &Rules{Filters: []string{NUMAFilter, PCIFilter}}, Limit: 1}
		guests := []GuestCheck{{n, true, true}, {n, true, true}, {n, true, true}}
		got := table.JudgeGuests(h.UUID, guests)
		for i := range guests {
			p := propose(t, table, q)
			want := ""
			for _, r := range p.Rejects {
				want = r.Filter
			}
			counts[want]++
			if got[i] != want {
				t.Fatalf("instance %d is rejected by %q, want %q\n%s\n%s\n%+v", i, got[i], want, numa, pci, n)
			}
			if want != "" {
				break // As good as judged: nothing is taken.
			}
			q.Takes = append(q.Takes, Take{Host: h.UUID, Instance: fleetInstance(i)})
		}
	}
	t.Logf("passes and rejections: %v", counts)
	if counts[""] < 300 || counts[NUMAFilter] < 100 || counts[PCIFilter] < 50 {
		t.Errorf("too few of some: %v", counts)
	}
	if got := NewTable().JudgeGuests(fleetHost(1), make([]GuestCheck, 2)); got[0] != "" || got[1] != "" {
		t.Errorf("an unknown host: %q", got)
	}
}
