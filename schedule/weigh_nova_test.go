package schedule

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"
)

// novaWeights is a case of testdata/nova-weights.json.gz: the hosts that passed a request's
// filters, as Nova 26.2.2 weighed them. A host is its weight, followed by its raw weight of each
// weigher after clamping.
type novaWeights struct {
	ID       string
	Weighers [][2]any // name, multiplier as configured
	Hosts    [][]float64
}

// host makes a host with these raw weights.
func (c *novaWeights) host(i int) (h Host, members int, policy Policy) {
	h = Host{UUID: fleetHost(i), View: View{VCPUsTotal: 1}}
	for k, w := range c.Weighers {
		raw := c.Hosts[i][k+1]
		n := int64(raw)
		switch w[0] {
		case RAMWeigher:
			h.View.FreeRAMMB = n
		case CPUWeigher:
			h.View.CPURatio = raw
		case DiskWeigher:
			h.View.FreeDiskMB = n
		case IoOpsWeigher:
			h.View.NumIOOps = n
		case NumInstancesWeigher:
			h.View.NumInstances = n
		case PCIWeigher:
			h.View.PCIFree = 100 - n
		case HypervisorVersionWeigher:
			h.View.HypervisorVersion = n
		case BuildFailureWeigher:
			h.View.FailedBuilds = n
		case CrossCellWeigher:
			h.Cell = map[int64]string{1: "source", -1: "other"}[n]
		case SoftAffinityWeigher:
			if n > 0 {
				members, policy = int(n), SoftAffinity
			}
		case SoftAntiAffinityWeigher:
			if n < 0 {
				members, policy = int(-n), SoftAntiAffinity
			}
		}
	}
	return h, members, policy
}

// Weights equal Nova's to the bit, and hosts are in Nova's order.
func TestWeightsAreNovas(t *testing.T) {
	f, err := os.Open("testdata/nova-weights.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var cases []novaWeights
	if err := json.NewDecoder(z).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	hosts := 0
	for _, c := range cases {
		q := &Query{Request: &Request{}, Rules: &Rules{Weighers: []Weigher{}}, Limit: len(c.Hosts)}
		for _, w := range c.Weighers {
			q.Rules.Weighers = append(q.Rules.Weighers, Weigher{w[0].(string), w[1].(float64)})
		}
		e := NewTable().Edit()
		instance := 0
		for i := range c.Hosts {
			h, members, policy := c.host(i)
			e.PutHost(h)
			if h.Cell != "" {
				q.Request.Destination = &Destination{Cell: "source", AllowCrossCellMove: true}
			}
			for range members {
				e.PutConsumer(h.UUID, Consumer{Instance: fleetInstance(instance), Group: fleetGroup(1)})
				instance++
				q.Request.Group = &Group{UUID: fleetGroup(1), Policy: policy}
			}
		}
		got := propose(t, e.Table(), q)
		if len(got.Candidates) != len(c.Hosts) {
			t.Fatalf("%s: %d candidates of %d hosts", c.ID, len(got.Candidates), len(c.Hosts))
		}
		want := map[ID]int{}
		for i := range c.Hosts {
			want[fleetHost(i)] = i
		}
		for at, k := range got.Candidates {
			hosts++
			i := want[k.Host]
			for j := range k.Raw {
				if k.Raw[j] != c.Hosts[i][j+1] {
					t.Errorf("%s host %d: raw %v by %v, Nova has %v", c.ID, i, k.Raw[j], c.Weighers[j][0], c.Hosts[i][j+1])
				}
			}
			if k.Weight != c.Hosts[i][0] {
				t.Errorf("%s host %d weighs %v, with Nova %v", c.ID, i, k.Weight, c.Hosts[i][0])
			}
			if at > 0 && got.Candidates[at-1].Weight < k.Weight {
				t.Errorf("%s: candidate %d weighs more than the one before", c.ID, at)
			}
		}
	}
	t.Logf("%d hosts in %d cases", hosts, len(cases))
	if len(cases) < 300 {
		t.Errorf("%d cases, want 300", len(cases))
	}
}
