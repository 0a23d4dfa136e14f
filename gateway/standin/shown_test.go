package standin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// guest is an instance as Nova has committed it, and what its host's row has of it.
type guest struct {
	host, node, vm, task string
	// on is the host whose row has it in use; -1 for none.
	on int
}

// site is a cell in which computes build instances, and move them. Servers of its database may each
// be behind: nova has every state that there was, the newest last.
type site struct {
	*world
	nova []map[int]guest
	// claims are the newest of each instance, ended those that are over.
	claims map[int]*cellv1.NewClaim
	made   int
	// known are the claims that the stand-in was told of, mine its own choices.
	known, mine map[string]bool
}

// commit is a transaction of Nova's.
func (s *site) commit(n int, change func(*guest)) {
	next := maps.Clone(s.nova[len(s.nova)-1])
	g, there := next[n]
	if !there {
		g = guest{on: -1}
	}
	change(&g)
	next[n] = g
	s.nova = append(s.nova, next)
}

// claim makes one of an instance on a host; a move names the one before.
func (s *site) claim(n int, move bool) {
	s.made++
	c := newClaim(n, s.rng.IntN(len(s.rows)))
	c.ClaimId = fmt.Sprintf("claim-%d-%d", n, s.made)
	if move {
		c.MovesClaimId = s.claims[n].GetClaimId()
	}
	s.claims[n] = c
	if s.rng.IntN(3) > 0 {
		s.Chose(c, s.at.Add(time.Hour))
		s.known[c.GetClaimId()], s.mine[c.GetClaimId()] = true, true
	}
}

// work has Nova go on with an instance by one transaction, or a gateway choose for it.
func (s *site) work(n int) {
	c, g := s.claims[n], s.nova[len(s.nova)-1][n]
	if c == nil {
		s.claim(n, false)
		return
	}
	h := hostOf(c)
	state := func(vm, task string) { s.commit(n, func(g *guest) { g.vm, g.task = vm, task }) }
	claimed := func() bool {
		s.commit(n, func(g *guest) { g.host, g.node = service(h), service(h)+".example" })
		s.commit(n, func(g *guest) { g.on = h })
		return true
	}
	switch {
	case g.vm == "" || g.vm == "building" && g.task == "scheduling":
		state("building", "")
	case g.vm == "building" && g.host == "":
		claimed()
		if s.rng.IntN(4) == 0 { // it fails between the two
			s.nova = s.nova[:len(s.nova)-1]
			s.commit(n, func(g *guest) { g.host, g.node, g.task = "", "", "scheduling" })
		}
	case g.vm == "building" && s.rng.IntN(6) == 0: // the build fails; it is built again, there or elsewhere
		s.commit(n, func(g *guest) { g.host, g.node = "", "" })
		s.commit(n, func(g *guest) { g.on = -1 })
		state("building", "scheduling")
		if s.rng.IntN(2) == 0 {
			s.end(n)
			s.claim(n, false)
		}
	case g.vm == "building" && g.task == "spawning":
		state("active", "")
	case g.vm == "building":
		state("building", map[string]string{"": "networking", "networking": "block_device_mapping", "block_device_mapping": "spawning"}[g.task])
	case g.vm == "active" && g.on == h:
		if s.rng.IntN(3) == 0 {
			s.claim(n, true)
		}
	case g.vm == "active": // it is moved: its row may name the host before that has it in use
		s.commit(n, func(g *guest) { g.host, g.node = service(h), service(h)+".example" })
		s.commit(n, func(g *guest) { g.on = h })
	}
}

func hostOf(c *cellv1.NewClaim) int {
	id, _ := schedule.ParseID(c.GetHostUuid()) // of newClaim
	return int(id[15])
}

func (s *site) end(n int) {
	id := s.claims[n].GetClaimId()
	delete(s.known, id)
	s.Ended(id)
}

// read gives what a server has that may be behind, having been asked for instances.
func (s *site) read(asked []schedule.ID, behind int) *legacy.Snapshot {
	state := s.nova[max(0, len(s.nova)-1-behind)]
	for n := range s.rows {
		r := s.change(n)
		r.VCPUsUsed = 0
		for i, g := range state {
			if g.on == n {
				r.VCPUsUsed += int64(newClaim(i, n).GetAllocations()[0].GetAmount())
			}
		}
	}
	x := s.snapshot()
	x.Awaited = map[schedule.ID]legacy.Awaited{}
	for _, id := range asked {
		g := state[int(id[14])<<8|int(id[15])]
		x.Awaited[id] = legacy.Awaited{Host: g.host, Node: g.node, VMState: g.vm, TaskState: g.task}
	}
	for i := range x.Hosts {
		x.Hosts[i].Changed = s.at
	}
	return x
}

// check demands that each instance counts at least once for its newest claim, and that the table has
// what the rows have, and the claims that they do not show, added up naively.
func (s *site) check(step string, behind int) {
	s.Helper()
	state := s.nova[max(0, len(s.nova)-1-behind)]
	want := make([]int64, len(s.rows))
	for i, g := range state {
		if g.on >= 0 {
			want[g.on] += int64(newClaim(i, 0).GetAllocations()[0].GetAmount())
		}
	}
	for _, k := range s.Standin.known.claims {
		if !k.shown {
			want[int(k.host[15])] += k.vcpus
		}
	}
	for n, c := range s.claims {
		k := s.Standin.known.claims[c.GetClaimId()]
		if beside := k != nil && !k.shown; s.known[c.GetClaimId()] && !beside && state[n].on != hostOf(c) {
			s.Fatalf("%s: instance %d counts zero times: %+v, claim %v", step, n, state[n], c)
		}
	}
	for n := range want {
		if got := s.used(n, vcpu); got != want[n] {
			s.Fatalf("%s: host %d has %d CPUs in use, want %d", step, n, got, want[n])
		}
	}
}

// TestConsumptionThatRowsShow: whatever the order of choices, commits of Nova, answers of the cell and
// reads of servers that are behind by turns, builds that fail and begin anew, and moves, no instance
// that was heard of counts zero times. Read from one server that is up to date each that is being built
// counts once.
func TestConsumptionThatRowsShow(t *testing.T) {
	once := 0
	for seed := range uint64(120) {
		s := &site{world: newWorld(t, 3), nova: []map[int]guest{{}}, claims: map[int]*cellv1.NewClaim{}, known: map[string]bool{}, mine: map[string]bool{}}
		s.rng = rand.New(rand.NewPCG(seed, 11))
		const instances = 5
		for k := range 80 {
			s.at = s.at.Add(time.Duration(s.rng.Int64N(int64(900 * time.Millisecond))))
			for range s.rng.IntN(4) {
				s.work(s.rng.IntN(instances))
			}
			var answer []*cellv1.AwaitedClaim
			for _, n := range slices.Sorted(maps.Keys(s.claims)) {
				c := s.claims[n]
				a := awaitedOf(c)
				a.MovesClaimId = c.GetMovesClaimId()
				answer, s.known[c.GetClaimId()] = append(answer, a), true
			}
			at := s.at
			asked := s.Awaits(answer)
			for range s.rng.IntN(3) { // something happens before the rows are read
				if n := s.rng.IntN(instances); s.claims[n] != nil {
					s.work(n)
				}
			}
			for _, n := range slices.Sorted(maps.Keys(s.claims)) {
				c := s.claims[n]
				if heard := slices.ContainsFunc(answer, func(a *cellv1.AwaitedClaim) bool { return a.GetClaimId() == c.GetClaimId() }); !heard && !s.mine[c.GetClaimId()] {
					delete(s.known, c.GetClaimId())
				}
			}
			behind := 0
			if s.rng.IntN(2) == 0 {
				behind = s.rng.IntN(8)
			}
			s.Update(s.read(asked, behind), s.at, answer, at)
			step := fmt.Sprintf("seed %d, step %d", seed, k)
			s.check(step, behind)
			for _, a := range answer {
				known := s.Standin.known.claims[a.GetClaimId()]
				if known == nil { // it has ended
					continue
				}
				g := s.nova[len(s.nova)-1][int(known.consumer.Instance[15])]
				if behind > 0 || g.vm != "building" || g.task == "" || g.task == "scheduling" || g.on != int(known.host[15]) {
					continue
				}
				if once++; !known.shown {
					t.Fatalf("%s: counts twice: %+v, claim %+v", step, g, known)
				}
			}
		}
	}
	if once < 1000 {
		t.Errorf("%d instances were being built: that proves nothing", once)
	}
}

// shows reads the rows of one host, with what is said of instance 3.
func (w *world) shows(a legacy.Awaited) *legacy.Snapshot {
	w.Helper()
	x := w.snapshot()
	x.Awaited = map[schedule.ID]legacy.Awaited{instanceID(3): a}
	for i := range x.Hosts {
		x.Hosts[i].Changed = w.at
	}
	return x
}

// One that is active counts as shown when it was seen on its way, and not otherwise; a move never
// does. A claim that is put on another host begins anew, and one that is shown keeps its place.
func TestConsumptionOfActiveInstances(t *testing.T) {
	on := func(h int, vm, task string) legacy.Awaited {
		return legacy.Awaited{Host: service(h), Node: service(h) + ".example", VMState: vm, TaskState: task}
	}
	active, spawning := on(0, "active", ""), on(0, "building", "spawning")
	for _, c := range []struct {
		name   string
		before []legacy.Awaited
		moves  string
		// others: another gateway chose it.
		others bool
		want   int64
	}{
		{name: "never seen before", want: 4},
		{name: "seen nowhere", before: []legacy.Awaited{{}}},
		{name: "seen on no host", before: []legacy.Awaited{{VMState: "building"}}},
		{name: "seen being built", before: []legacy.Awaited{spawning}},
		{name: "seen being built, and in a server that is behind", before: []legacy.Awaited{spawning, {}}},
		{name: "seen elsewhere", before: []legacy.Awaited{on(1, "active", "")}, want: 4},
		{name: "seen shelved", before: []legacy.Awaited{{VMState: "shelved_offloaded"}}, want: 4},
		{name: "seen being built, of another gateway", before: []legacy.Awaited{spawning}, others: true},
		{name: "a move", before: []legacy.Awaited{{}, spawning}, moves: "claim-0", want: 4},
		{name: "a move of another gateway", before: []legacy.Awaited{{}, spawning}, moves: "claim-0", others: true, want: 4},
	} {
		w := newWorld(t, 2)
		w.update()
		claim := newClaim(3, 0)
		claim.MovesClaimId = c.moves
		listed := awaitedOf(claim)
		if listed.MovesClaimId = c.moves; !c.others {
			w.Chose(claim, w.at.Add(time.Hour))
		}
		for _, a := range append(c.before, active) {
			w.Update(w.shows(a), w.at, []*cellv1.AwaitedClaim{listed}, w.at)
		}
		if got := w.used(0, vcpu); got != c.want {
			t.Errorf("%s: %d in use, want %d", c.name, got, c.want)
		}
		if places := w.versions.Current().Places(instanceID(3)); len(places) != 1 || places[0].Host != hostID(0) || len(w.Counted()) != 1 {
			t.Errorf("%s: the instance is on %v, counted are %v", c.name, places, w.Counted())
		}
		if asked := w.Awaits([]*cellv1.AwaitedClaim{listed, awaitedOf(newClaim(2, 0))}); len(asked) != 2 && c.moves == "" || len(asked) != 1 && c.moves != "" {
			t.Errorf("%s: %v are asked for", c.name, asked)
		}
		swapped := newClaim(3, 1)
		w.Ended(claim.GetClaimId())
		w.Chose(swapped, w.at.Add(time.Hour))
		if got := w.used(1, vcpu); got != 4 {
			t.Errorf("%s: %d in use on the next host", c.name, got)
		}
		w.Update(w.shows(on(1, "active", "")), w.at, []*cellv1.AwaitedClaim{awaitedOf(swapped)}, w.at)
		if got := w.used(1, vcpu); got != 4 {
			t.Errorf("%s: %d in use on the next host, where nobody saw it being built", c.name, got)
		}
	}
}

// The newest are asked for, as many as a read bears.
func TestAwaitsIsBounded(t *testing.T) {
	w := newWorld(t, 1)
	w.update()
	for n := range mostAwaited + 100 {
		w.at = w.at.Add(time.Millisecond)
		w.Chose(newClaim(n, 0), w.at.Add(time.Hour))
	}
	all := w.Awaits([]*cellv1.AwaitedClaim{awaitedOf(newClaim(9000, 0))})
	if len(all) != mostAwaited || all[0] != instanceID(9000) || slices.Contains(all, instanceID(99)) || !slices.Contains(all, instanceID(200)) {
		t.Errorf("%d are asked for, %v first", len(all), all[0])
	}
}
