package schedule

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
)

// model is what a table should hold, kept in plain maps.
type model struct {
	hosts     map[ID]Host
	consumers naiveConsumers
}

func (m *model) clone() *model {
	c := &model{hosts: map[ID]Host{}, consumers: maps.Clone(m.consumers)}
	for id, h := range m.hosts {
		h.Resources = slices.Clone(h.Resources)
		c.hosts[id] = h
	}
	return c
}

func (m *model) fleet() *fleet {
	f := &fleet{consumers: m.consumers}
	for _, h := range m.hosts {
		f.hosts = append(f.hosts, h)
	}
	return f
}

// putConsumer models PutConsumer.
func (m *model) putConsumer(host ID, c Consumer) bool {
	if _, ok := m.hosts[host]; !ok {
		return false
	}
	m.consumers[c.Instance] = naiveConsumer{Host: host, Consumer: c}
	return true
}

// addConsumer models AddConsumer.
func (m *model) addConsumer(host ID, c Consumer) bool {
	if _, ok := m.hosts[host]; !ok {
		return false
	}
	was, known := m.consumers[c.Instance]
	if !known {
		return m.putConsumer(host, c)
	}
	places := was.places()
	at := slices.IndexFunc(places, func(p Place) bool { return p.Host == host })
	switch {
	case at < 0:
		places = append(places, Place{host, c.Group})
	case c.Group != ID{}:
		places[at].Group = c.Group
	}
	m.setPlaces(c.Instance, places)
	return true
}

func (m *model) setPlaces(instance ID, places []Place) {
	if len(places) == 0 {
		delete(m.consumers, instance)
		return
	}
	c := naiveConsumer{Host: places[0].Host, Consumer: Consumer{Instance: instance, Group: places[0].Group}}
	if len(places) > 1 {
		c.Also = places[1:]
	}
	m.consumers[instance] = c
}

// randomEdit makes the same random change to a table and to its model. It reports whether both gave
// the same answer.
func randomEdit(rng *rand.Rand, e *Edit, m *model) bool {
	i := rng.IntN(150)
	id, instance := fleetHost(i), fleetInstance(rng.IntN(60))
	h, known := m.hosts[id]
	switch rng.IntN(10) {
	case 0, 1, 2:
		h := randomHost(rng, i)
		e.PutHost(h)
		m.hosts[id] = h
	case 3:
		e.RemoveHost(id)
		delete(m.hosts, id)
		for instance, c := range m.consumers {
			m.setPlaces(instance, slices.DeleteFunc(c.places(), func(p Place) bool { return p.Host == id }))
		}
	case 4:
		view := randomView(rng)
		var used []Amount
		for _, class := range some(rng, fleetClasses, 0.8) {
			used = append(used, Amount{class, rng.Int64N(9)})
		}
		for k := range h.Resources {
			h.Resources[k].Used = 0
			for _, a := range used {
				if a.Class == h.Resources[k].Class {
					h.Resources[k].Used = a.N
				}
			}
		}
		h.View = view
		if known {
			m.hosts[id] = h
		}
		return e.SetUsage(id, used, view) == known
	case 5:
		h.Down = rng.IntN(2) == 0
		if known {
			m.hosts[id] = h
		}
		return e.SetDown(id, h.Down) == known
	case 6, 7:
		c := Consumer{Instance: instance}
		if rng.IntN(3) > 0 {
			c.Group = fleetGroup(rng.IntN(3))
		}
		if rng.IntN(2) == 0 {
			return e.AddConsumer(id, c) == m.addConsumer(id, c)
		}
		return e.PutConsumer(id, c) == m.putConsumer(id, c)
	case 8:
		e.RemoveConsumer(instance)
		delete(m.consumers, instance)
	case 9:
		return e.Take(TentativePlacement{Host: id, Instance: instance}, takenRequest) == m.placeInstance(id, instance)
	}
	return true
}

var takenRequest = &Request{
	Resources: []Amount{{"VCPU", 2}, {"CUSTOM_X", 1}},
	Consume:   Consumption{VCPUs: 2, RAMMB: 700, DiskMB: 3000},
	Group:     &Group{UUID: fleetGroup(1), Policy: AntiAffinity, MembersExact: true, Members: []ID{fleetInstance(3), fleetInstance(4)}},
}

// placeInstance models Take with takenRequest.
func (m *model) placeInstance(id, instance ID) bool {
	h, ok := m.hosts[id]
	if !ok {
		return false
	}
	for k := range h.Resources {
		switch h.Resources[k].Class {
		case "VCPU":
			h.Resources[k].Used += 2
		case "CUSTOM_X":
			h.Resources[k].Used++
		}
	}
	h.View.VCPUsUsed += 2
	h.View.FreeRAMMB -= 700
	h.View.FreeDiskMB -= 3000
	h.View.NumInstances++
	h.View.NumIOOps++
	m.hosts[id] = h
	c := Consumer{Instance: instance}
	if instance == fleetInstance(3) || instance == fleetInstance(4) {
		c.Group = fleetGroup(1)
	}
	return m.addConsumer(id, c)
}

type failer interface{ Fatalf(string, ...any) }

// holds fails unless the table holds exactly what the model does.
func (m *model) holds(t failer, table *Table) {
	if table.Len() != len(m.hosts) {
		t.Fatalf("%d hosts, want %d", table.Len(), len(m.hosts))
	}
	seen := 0
	for h := range table.All() {
		seen++
		if want, ok := m.hosts[h.UUID]; !ok || !reflect.DeepEqual(h, want) {
			t.Fatalf("host %+v\nwant %+v", h, want)
		}
	}
	if seen != len(m.hosts) {
		t.Fatalf("All yields %d hosts, want %d", seen, len(m.hosts))
	}
	for i := range 150 {
		h, ok := table.Host(fleetHost(i))
		if want, known := m.hosts[fleetHost(i)]; ok != known || !reflect.DeepEqual(h, want) {
			t.Fatalf("host %d: %+v %v\nwant %+v %v", i, h, ok, want, known)
		}
	}
	for i := range 60 {
		host, c, ok := table.Consumer(fleetInstance(i))
		want, known := m.consumers[fleetInstance(i)]
		if ok != known || host != want.Host || c != want.Consumer {
			t.Fatalf("consumer %d: %v %v %v, want %+v %v", i, host, c, ok, want, known)
		}
		if known && !slices.Equal(table.Places(fleetInstance(i)), want.places()) {
			t.Fatalf("consumer %d is at %v, want %v", i, table.Places(fleetInstance(i)), want.places())
		}
	}
	if table.consumers.n != len(m.consumers) {
		t.Fatalf("%d consumers, want %d", table.consumers.n, len(m.consumers))
	}
}
