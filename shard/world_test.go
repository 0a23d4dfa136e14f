package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// world is all rows of a small shard, with read sets read as view.go says.
type world struct {
	hosts  map[string]*Host
	usages map[string]*Usage
	claims map[string]*Claim
	pins   map[string]*Pin
	gate   *Gate
	// namespaces by host uuid, then name.
	namespaces map[string]map[string]*Namespace
	admins     map[string]*AdminState
}

func newWorld() *world {
	return &world{map[string]*Host{}, map[string]*Usage{}, map[string]*Claim{}, map[string]*Pin{}, nil, map[string]map[string]*Namespace{}, map[string]*AdminState{}}
}

// read gives the rows of a read set, and no others.
func (w *world) read(f ReadSet) *View {
	v := NewView(ReadSet{})
	host := func(id string) {
		if h := w.hosts[id]; h != nil {
			v.Hosts[id] = h
		}
		if u := w.usages[id]; u != nil {
			v.Usages[id] = u
		}
		if a := w.admins[id]; a != nil {
			v.AdminStates[id] = a
		}
	}
	claim := func(c *Claim) {
		v.Claims[c.ClaimID] = c
		host(c.HostUUID)
	}
	live := func(index map[string][]string, key string, is func(*Claim) bool) {
		delete(index, key)
		for _, id := range slices.Sorted(maps.Keys(w.claims)) {
			if c := w.claims[id]; c.State.Live() && is(c) {
				claim(c)
				index[key] = append(index[key], id)
			}
		}
	}
	transferred := func(id string) {
		live(v.TransferredFrom, id, func(c *Claim) bool { return c.TransferredFrom == id })
	}
	consumer := func(id string) {
		live(v.LiveByConsumer, id, func(c *Claim) bool { return c.ConsumerUUID == id })
		transferred(id)
	}
	group := func(id string) {
		live(v.LiveByGroup, id, func(c *Claim) bool { return c.Group != nil && c.Group.UUID == id })
	}
	for _, id := range f.Hosts {
		host(id)
	}
	for _, id := range f.HostClaims {
		host(id)
		live(v.LiveByHost, id, func(c *Claim) bool { return c.HostUUID == id })
	}
	for _, id := range f.Aligned {
		for _, cid := range v.LiveByHost[id] {
			if c := w.claims[cid]; c.GoesWithout(true) {
				transferred(c.ConsumerUUID)
			}
		}
	}
	for _, id := range f.Claims {
		if c := w.claims[id]; c != nil {
			claim(c)
		}
	}
	for _, l := range f.Landings {
		c := w.claims[l.ClaimID]
		if c != nil && c.Group != nil {
			group(c.Group.UUID)
			consumer(c.Instance())
			for _, m := range c.Group.Members {
				consumer(m)
			}
		}
		if c != nil && c.Guest.HasHardware() {
			host := cmp.Or(l.HostUUID, c.HostUUID)
			live(v.LiveByHost, host, func(c *Claim) bool { return c.HostUUID == host })
		}
	}
	for _, id := range f.Consumers {
		consumer(id)
	}
	for _, id := range f.Groups {
		group(id)
	}
	for _, id := range f.Pins {
		if p := w.pins[id]; p != nil {
			v.Pins[id] = p
		}
	}
	for _, id := range f.Namespaces {
		v.Namespaces[id] = maps.Clone(w.namespaces[id])
	}
	if f.Gate {
		v.Gate = w.gate
	}
	return v
}

func (w *world) write(changes []Change) {
	for _, c := range changes {
		switch {
		case c.Host != nil:
			w.hosts[c.Host.UUID] = c.Host
		case c.Usage != nil:
			w.usages[c.Usage.HostUUID] = c.Usage
		case c.Claim != nil:
			w.claims[c.Claim.ClaimID] = c.Claim
		case c.Gate != nil:
			w.gate = c.Gate
		case c.Namespace != nil:
			if w.namespaces[c.Namespace.HostUUID] == nil {
				w.namespaces[c.Namespace.HostUUID] = map[string]*Namespace{}
			}
			w.namespaces[c.Namespace.HostUUID][c.Namespace.Name] = c.Namespace
			if c.Namespace.Facts == "" {
				delete(w.namespaces[c.Namespace.HostUUID], c.Namespace.Name)
			}
		case c.AdminState != nil:
			w.admins[c.AdminState.HostUUID] = c.AdminState
		case len(c.Pin.Holders) == 0:
			delete(w.pins, c.Pin.GroupUUID)
		default:
			w.pins[c.Pin.GroupUUID] = c.Pin
		}
	}
}

func checkWorld(t rapid.TB, w *world, o *oracle) {
	checkDevices(t, w, o)
	checkTrees(t, w, o)
	perConsumer := map[string][]*Claim{}
	for _, c := range w.claims {
		if c.State.Live() {
			perConsumer[c.ConsumerUUID] = append(perConsumer[c.ConsumerUUID], c)
		}
		if c.TransferredFrom == c.ConsumerUUID {
			t.Fatalf("claim %s is transferred from its own consumer", c.ClaimID)
		}
		if c.State == Pending == c.ExpiresAt.IsZero() {
			t.Fatalf("claim %s is %s, expires at %v", c.ClaimID, c.State, c.ExpiresAt)
		}
	}
	for id, cs := range perConsumer {
		for i, c := range cs {
			for _, other := range cs[:i] {
				if !MayCoexist(c, other) {
					t.Fatalf("I2: consumer %s has live claims %+v", id, cs)
				}
			}
		}
	}
	if got, want := len(w.claims), len(o.claims); got != want {
		t.Fatalf("%d claims, by the naive rules %d", got, want)
	}
	for id, u := range w.usages {
		var pending, confirmed int32
		for _, c := range o.claims {
			switch {
			case c.HostUUID != id:
			case c.State == Pending:
				pending++
			case c.State == Confirmed:
				confirmed++
			}
		}
		if u.Pending != pending || u.Confirmed != confirmed {
			t.Fatalf("host %s counts %d, %d; has %d, %d", id, u.Pending, u.Confirmed, pending, confirmed)
		}
		for _, a := range u.Used {
			if n := o.inUse(id, a.ProviderUUID, a.ResourceClass); n != a.Amount || n == 0 {
				t.Fatalf("host %s: %+v in use, by the naive rules %d", id, a, n)
			}
		}
		if !slices.IsSortedFunc(u.Used, compareUsed) {
			t.Fatalf("host %s: %+v is not in order", id, u.Used)
		}
	}
	for _, c := range o.claims {
		if row := w.claims[c.ClaimID]; row != nil && c.State.Live() && row.ConsumerGeneration != c.ConsumerGeneration {
			t.Fatalf("claim %s has generation %d, by the naive rules %d", c.ClaimID, row.ConsumerGeneration, c.ConsumerGeneration)
		}
		if row := w.claims[c.ClaimID]; row != nil && !c.Adopted && c.State.Live() && row.Seen != c.Seen {
			t.Fatalf("claim %s was seen: %v, by the naive rules %v", c.ClaimID, row.Seen, c.Seen)
		}
		for _, a := range c.Allocations {
			if c.State.Live() && w.usages[c.HostUUID].Of(a.ProviderUUID, a.ResourceClass) == 0 {
				t.Fatalf("%+v of claim %s is not in use", a, c.ClaimID)
			}
		}
	}
}

// dump writes all rows out, in order.
func dump(w *world) string {
	var s string
	for _, id := range slices.Sorted(maps.Keys(w.hosts)) {
		h := *w.hosts[id]
		var nova NovaHost
		if h.Nova != nil {
			nova = *h.Nova
		}
		h.Nova = nil
		s += fmt.Sprintf("%+v %+v\n", h, nova)
	}
	for _, id := range slices.Sorted(maps.Keys(w.usages)) {
		s += fmt.Sprintf("%+v\n", *w.usages[id])
	}
	for _, id := range slices.Sorted(maps.Keys(w.claims)) {
		c := *w.claims[id]
		g := c.Group
		v := c.Verdict
		guest := ""
		if c.Guest != nil {
			guest = fmt.Sprintf("%s %v %+v", c.Guest.Hardware, c.Guest.Awaited, c.Guest.Assigned)
		}
		c.Group, c.Verdict, c.Guest = nil, nil, nil
		s += fmt.Sprintf("%+v %+v %+v %s\n", c, g, v, guest)
	}
	for _, id := range slices.Sorted(maps.Keys(w.pins)) {
		s += fmt.Sprintf("%+v\n", *w.pins[id])
	}
	for _, id := range slices.Sorted(maps.Keys(w.admins)) {
		s += fmt.Sprintf("%+v\n", *w.admins[id])
	}
	if w.gate != nil {
		s += fmt.Sprintf("%+v\n", *w.gate)
	}
	return s
}
