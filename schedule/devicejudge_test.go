package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/schedule/hardware"
)

// deviceCase is a host with devices that are child providers, and a request for some of them.
type deviceCase struct {
	host    Host
	request *Request
	rules   *Rules
}

// randomDeviceCase draws a case. Pools and providers need not agree, since a compute reports them at different times.
func randomDeviceCase(rng *rand.Rand) *deviceCase {
	c := &deviceCase{rules: &Rules{Filters: []string{ResourceFilter, PCIFilter, NUMAFilter, TreeFilter}, Weighers: []Weigher{}}}
	switch rng.IntN(4) {
	case 0:
		c.rules.Filters = []string{NUMAFilter, ResourceFilter, TreeFilter}
	case 1:
		c.rules.Filters = []string{NUMAFilter, PCIFilter, ResourceFilter, TreeFilter}
	}
	root := testID('h', 1)
	c.host = Host{UUID: root, ServiceHost: "h", NodeName: "n", View: View{CPURatio: 16, RAMRatio: 1.5}}
	c.host.Resources = []Resource{{Class: "VCPU", Capacity: 64, MinUnit: 1, MaxUnit: 64, StepSize: 1}}
	classes := []string{"CUSTOM_A", "CUSTOM_A", "CUSTOM_B"}
	pools := []any{}
	pool := func(tags map[string]string, count int) {
		p := map[string]any{"vendor_id": "8086", "product_id": oneOf(rng, []string{"1", "1", "2"}), "tags": tags, "count": count, "numa_node": nil}
		if rng.IntN(5) > 0 {
			p["numa_node"] = rng.IntN(2)
		}
		if rng.IntN(6) == 0 {
			tags["dev_type"] = oneOf(rng, []string{"type-PF", "type-PCI"})
		}
		pools = append(pools, novaObject(p))
	}
	for i := range 1 + rng.IntN(4) {
		id := testID('c', i)
		total := 1 + rng.Int64N(2)
		child := Provider{UUID: id, Parent: root, Traits: some(rng, []string{"CUSTOM_T"}, 0.5)}
		child.Resources = []Resource{{Class: oneOf(rng, classes), Capacity: total, Used: rng.Int64N(6) / 4, MinUnit: 1, MaxUnit: total, StepSize: 1}}
		c.host.Children = append(c.host.Children, child)
		if rng.IntN(8) > 0 {
			pool(map[string]string{"rp_uuid": id.String()}, int(max(0, total-rng.Int64N(5)/4)))
		}
		if rng.IntN(16) == 0 {
			pool(map[string]string{"rp_uuid": id.String(), "physical_network": "a"}, 1)
		}
	}
	if rng.IntN(3) == 0 {
		pool(map[string]string{}, rng.IntN(3))
	}
	text, err := json.Marshal(novaObject(map[string]any{"objects": pools}))
	if err != nil {
		panic(err)
	}
	facts := FactTexts{Stats: "{}", PCIPools: string(text)}
	facts.NUMATopology, _ = randomHardware(rng)
	c.host.Facts = ParseFacts(facts)

	n := &NovaRequest{Image: &Image{}}
	if rng.IntN(2) == 0 {
		n.NUMA = &hardware.InstanceNUMA{}
		for id := range 1 + rng.IntN(2) {
			n.NUMA.Cells = append(n.NUMA.Cells, hardware.InstanceCell{ID: int64(id), CPUs: 1, MemoryMB: 256})
		}
	}
	tree := &Tree{Isolate: rng.IntN(4) == 0}
	for i := range 1 + rng.IntN(2) {
		r := hardware.PCIRequest{Count: 1 + rng.Int64N(2), Policy: oneOf(rng, []string{"", hardware.PCIRequired, hardware.PCIPreferred, hardware.PCISocket})}
		spec := hardware.PCISpec{{Key: "vendor_id", Value: "8086"}}
		if rng.IntN(2) == 0 {
			spec = append(spec, hardware.PCIProperty{Key: "product_id", Value: oneOf(rng, []string{"1", "2"})})
		}
		r.Specs = []hardware.PCISpec{spec}
		if rng.IntN(8) > 0 {
			class, traits := oneOf(rng, classes), some(rng, []string{"CUSTOM_T"}, 0.3)
			for k := range r.Count {
				suffix := fmt.Sprintf("r%d-%d", i, k)
				r.Groups = append(r.Groups, suffix)
				tree.Groups = append(tree.Groups, ResourceGroup{Suffix: suffix, Resources: []Amount{{class, 1}}, Required: traits})
			}
		}
		n.PCI = append(n.PCI, r)
	}
	c.request = &Request{Resources: []Amount{{"VCPU", 1}}, Tree: tree, Nova: n}
	if rng.IntN(10) == 0 {
		c.request.ForceHosts = []string{"h"}
	}
	return c
}

// naiveWays are all allocation candidates that Placement and the filters accept, as the provider of each group. Each
// filter judges each candidate.
func (c *deviceCase) naiveWays(hw *naiveHardware, used map[ID]int64) (ways []map[string]ID) {
	groups := c.request.Tree.Groups
	var choose func(way map[string]ID)
	choose = func(way map[string]ID) {
		if len(way) < len(groups) {
			for _, child := range c.host.Children {
				next := map[string]ID{groups[len(way)].Suffix: child.UUID}
				for suffix, id := range way {
					next[suffix] = id
				}
				choose(next)
			}
			return
		}
		taken := map[ID]int64{}
		for _, g := range groups {
			child := c.host.Children[slices.IndexFunc(c.host.Children, func(p Provider) bool { return p.UUID == way[g.Suffix] })]
			res := child.Resources[0]
			taken[child.UUID]++
			if res.Class != g.Resources[0].Class || taken[child.UUID]+used[child.UUID]+res.Used > res.Capacity ||
				len(g.Required) > len(child.Traits) || c.request.Tree.Isolate && taken[child.UUID] > 1 {
				return
			}
		}
		if c.naivelyPasses(hw, way) {
			ways = append(ways, way)
		}
	}
	choose(map[string]ID{})
	return ways
}

// with gives Nova's request with the groups' providers of a way.
func (c *deviceCase) with(way map[string]ID) *NovaRequest {
	n := *c.request.Nova
	n.PCI = slices.Clone(n.PCI)
	for i := range n.PCI {
		for _, suffix := range n.PCI[i].Groups {
			n.PCI[i].Providers = append(slices.Clip(n.PCI[i].Providers), way[suffix].String())
		}
	}
	return &n
}

func (c *deviceCase) naivelyPasses(hw *naiveHardware, way map[string]ID) bool {
	if c.request.Forced() {
		return true
	}
	n := c.with(way)
	if slices.Contains(c.rules.Filters, PCIFilter) && !hw.apply(hw.copyPools(), n.PCI, nil) {
		return false
	}
	if n.NUMA == nil {
		return true
	}
	if len(hw.cells) == 0 {
		return false
	}
	guest, err := hw.fit(n, c.host.View.CPURatio, c.host.View.RAMRatio, true)
	return guest != nil && err == nil
}

// A host passes if the filters accept an allocation candidate. Its allocation is one of the accepted candidates, and
// each instance takes the devices that its allocation names.
func TestPCIGroups_EachFilterOfEachCandidate_IsNaive(t *testing.T) {
	norace.Skip(t, norace.Pure)
	passed, second, refused := 0, 0, 0
	propChecks(t, 6000)
	rapid.Check(t, func(rt *rapid.T) {
		c := randomDeviceCase(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3)))
		e := NewTable().Edit()
		e.PutHost(c.host)
		table, hw, used := e.Table(), readNaiveHardware(c.host.Facts), map[ID]int64{}
		q := &Query{Request: c.request, Limit: 1, Rules: c.rules}
		for i := range 3 {
			ways := c.naiveWays(hw, used)
			p := propose(rt, table, q)
			if len(p.Candidates) == 0 {
				if len(ways) > 0 {
					rt.Fatalf("instance %d: rejected %+v, naive ways %v", i, p.Rejects, ways)
				}
				if refused++; i == 1 {
					second++
				}
				return
			}
			way := map[string]ID{}
			if a := p.Candidates[0].Allocation; a != nil {
				for _, m := range a.Mappings {
					if m.Suffix != "" {
						way[m.Suffix] = m.Providers[0]
						used[m.Providers[0]]++
					}
				}
			}
			if !slices.ContainsFunc(ways, func(w map[string]ID) bool { return fmt.Sprint(w) == fmt.Sprint(way) }) {
				rt.Fatalf("instance %d: providers %v, naive ways %v", i, way, ways)
			}
			passed++
			hw.assign(c.with(way), c.host.View.CPURatio, c.host.View.RAMRatio, !c.request.Forced())
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: c.host.UUID, Instance: testID('i', i)})
		}
	})
	t.Logf("%d picks, %d refused, %d of them a second instance", passed, refused, second)
	if passed < 500 || refused < 500 || second < 100 {
		t.Error("too few")
	}
}
