package schedule

import (
	"slices"
	"testing"
)

// movingTable has instance 1 of group 1 on host 1, and on host 2 too when doubled. Hosts 3 and 4
// are empty.
func movingTable(doubled bool) *Table {
	e := NewTable().Edit()
	for i := 1; i <= 4; i++ {
		h := Host{UUID: fleetHost(i), ServiceHost: string(rune('a' + i)), NodeName: "n"}
		e.PutHost(h)
	}
	e.PutConsumer(fleetHost(1), Consumer{Instance: fleetInstance(1), Group: fleetGroup(1)})
	if doubled {
		e.AddConsumer(fleetHost(2), Consumer{Instance: fleetInstance(1), Group: fleetGroup(1)})
	}
	return e.Table()
}

func passing(t *testing.T, table *Table, g Group, moving ID) []ID {
	t.Helper()
	g.UUID = fleetGroup(1)
	p := propose(t, table, &Query{Request: &Request{Group: &g, Moving: moving}, Rules: &Rules{}, Limit: 10})
	var ids []ID
	for i := 1; i <= 4; i++ {
		if slices.ContainsFunc(p.Candidates, func(c Candidate) bool { return c.Host == fleetHost(i) }) {
			ids = append(ids, fleetHost(i))
		}
	}
	return ids
}

// An instance that is alone in its affinity group moves anywhere; with other members, only to their
// hosts. Under anti-affinity it may stay, and other members avoid both of its hosts.
func TestAMovingInstance(t *testing.T) {
	all := []ID{fleetHost(1), fleetHost(2), fleetHost(3), fleetHost(4)}
	for _, c := range []struct {
		name    string
		doubled bool
		group   Group
		moving  ID
		other   int // a host with another member; 0: none
		want    []ID
	}{
		{"affinity, alone", false, Group{Policy: Affinity}, fleetInstance(1), 0, all},
		{"affinity, another one's request", false, Group{Policy: Affinity}, ID{}, 0, all[:1]},
		{"affinity, doubled", true, Group{Policy: Affinity}, fleetInstance(1), 0, all},
		{"affinity, doubled, another one's request", true, Group{Policy: Affinity}, ID{}, 0, all[:2]},
		{"affinity, with another", false, Group{Policy: Affinity}, fleetInstance(1), 3, all[2:3]},
		{"affinity, named only", false, Group{Policy: Affinity, Members: []ID{fleetInstance(1)}}, fleetInstance(1), 0, all},
		{"anti-affinity", false, Group{Policy: AntiAffinity}, fleetInstance(1), 3, []ID{fleetHost(1), fleetHost(2), fleetHost(4)}},
		{"anti-affinity, another's on its host", false, Group{Policy: AntiAffinity}, fleetInstance(1), 1, all},
		{"anti-affinity, another one's request", true, Group{Policy: AntiAffinity}, ID{}, 3, all[3:]},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := movingTable(c.doubled)
			if c.other > 0 {
				e := table.Edit()
				e.PutConsumer(fleetHost(c.other), Consumer{Instance: fleetInstance(2), Group: fleetGroup(1)})
				table = e.Table()
			}
			if got := passing(t, table, c.group, c.moving); !slices.Equal(got, c.want) {
				t.Errorf("passing are %v, want %v", got, c.want)
			}
		})
	}
}

// The soft policies count the moving instance like any other, as Nova does.
func TestAMovingInstanceUnderSoftPolicies(t *testing.T) {
	for policy, want := range map[Policy]float64{SoftAffinity: 1, SoftAntiAffinity: -1} {
		weigher := map[Policy]string{SoftAffinity: SoftAffinityWeigher, SoftAntiAffinity: SoftAntiAffinityWeigher}[policy]
		p := propose(t, movingTable(false), &Query{
			Request: &Request{Group: &Group{UUID: fleetGroup(1), Policy: policy}, Moving: fleetInstance(1)},
			Rules:   &Rules{Weighers: []Weigher{{weigher, 1}}}, Limit: 10,
		})
		for _, c := range p.Candidates {
			if c.Host == fleetHost(1) && c.Raw[0] != want || c.Host != fleetHost(1) && c.Raw[0] != 0 {
				t.Errorf("%s: host %v weighs %v", policy, c.Host, c.Raw)
			}
		}
	}
}

// A removed host takes only its own place of a doubled instance.
func TestADoubledInstanceLosesOneHost(t *testing.T) {
	e := movingTable(true).Edit()
	e.RemoveHost(fleetHost(1))
	table := e.Table()
	if got := table.Places(fleetInstance(1)); !slices.Equal(got, []Place{{fleetHost(2), fleetGroup(1)}}) {
		t.Errorf("the instance is at %v", got)
	}
	e = table.Edit()
	e.RemoveConsumer(fleetInstance(1))
	if table = e.Table(); table.consumers.n != 0 || table.groups.n != 0 {
		t.Errorf("%d consumers, %d groups are left", table.consumers.n, table.groups.n)
	}
}
