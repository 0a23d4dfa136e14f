package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// ghostAgent: an agent dies, but its streams stay open. Replicas read its last messages after the
// host's next agent has reported.
const ghostAgent kind = "agent outlived by its streams"

// ownKinds are faults that are drawn from sources of their own, so that they move nothing
// else of the plan.
var ownKinds = []kind{ghostAgent}

// drawGhosts draws the ghostAgent faults.
func (p *plan) drawGhosts(length int) {
	draw := rand.New(rand.NewPCG(p.seed, 0x54))
	for range length * (1 + draw.IntN(2)) {
		p.faults = append(p.faults, trouble{
			at: p.moment(draw), kind: ghostAgent, target: p.hostName(draw.IntN(p.cells), draw.IntN(p.hostsEach)), seed: draw.Uint64(),
			lasts: (10*time.Second + time.Duration(draw.Int64N(int64(40*time.Second)))).Round(time.Millisecond), size: draw.Float64(),
		})
	}
}

// wiresOf returns the wires of one run of a part.
func (n *network) wiresOf(incarnation *incarnation) (list []*wire) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		for w := range l.wires {
			if w.incarnation == incarnation {
				list = append(list, w)
			}
		}
	}
	return list
}

// haunt makes the host's agent die while its last messages are in flight, and starts another agent.
// The messages arrive later. It returns a function that ends the streams of the dead agent.
func (h *host) haunt(f trouble) func() {
	wires, _ := h.diesSpeaking(int32(1 + f.seed%3))
	if f.seed%4 != 0 {
		h.stopStranger()
	}
	sleep(time.Duration(f.seed>>8%1000) * time.Millisecond)
	h.start()
	sleep(time.Second + time.Duration(f.size*float64(6*time.Second)))
	h.world.speak(wires)
	h.world.trace("what the agent of %s said before it died has come", h.name)
	return func() {
		for _, w := range wires {
			w.kill()
		}
	}
}

// diesSpeaking makes the agent, if any, die just after it has reported a stranger. It returns the
// agent's wires, which hold its last messages, and its boot id.
func (h *host) diesSpeaking(vcpus int32) (wires []*wire, boot string) {
	h.mu.Lock()
	t := h.agent
	h.mu.Unlock()
	if t == nil {
		return nil, ""
	}
	wires = h.world.net.wiresOf(t.incarnation)
	for _, w := range wires {
		w.last.begin()
	}
	state, _ := t.host.State()
	h.stranger(vcpus)
	sleep(100 * time.Millisecond)
	h.mu.Lock()
	first := h.agent == t // false if another fault has ended it
	if first {
		h.agent = nil
	}
	h.mu.Unlock()
	if first {
		t.ends(h)
	}
	return wires, state.GetBootId()
}

// speak delivers the last messages of dead agents to their replicas.
func (w *world) speak(wires []*wire) {
	for _, to := range wires {
		if words := to.last.letGo(); len(words) > 0 {
			w.count("a dead agent's state arrived")
			_, _ = to.Conn.Write(words) // the replica may be gone
		}
	}
}

// ends ends an incarnation of an agent.
func (t *agentRun) ends(h *host) {
	t.incarnation.die()
	for _, w := range h.world.net.wiresOf(t.incarnation) {
		if !w.leave() {
			w.kill()
		}
	}
	t.cancel()
	if err := <-t.ended; err != nil {
		h.world.wrong("the agent of %s ended with %v", h.name, err)
	}
}

// incarnation checks that a host's row never returns to an incarnation that another one replaced, nor to
// an older version: late messages replace nothing. The caller holds mu.
func (k *checks) incarnation(c *checkedCell, is *shard.Host) {
	k.count++
	was := c.hosts[is.UUID]
	switch {
	case was == nil:
	case was.BootID == is.BootID:
		if is.StateVersion < was.StateVersion {
			k.world.wrong("%s: version %d of an incarnation follows %d", is.ServiceHost, is.StateVersion, was.StateVersion)
		}
	default:
		c.followed[was.BootID] = true
		if c.followed[is.BootID] {
			k.world.wrong("%s: an incarnation that another has followed is the host's row again, at version %d", is.ServiceHost, is.StateVersion)
		}
	}
}

// statesOf counts the states of an incarnation that have been written.
func (k *checks) statesOf(boot string) (n int) {
	k.poll()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.cells {
		n += c.states[boot]
	}
	return n
}

// probeGhost delivers last messages of a dead agent late: first to replicas that the next agent
// reports to, then to a replica that it does not reach. No replica writes them.
func (w *world) probeGhost() {
	h := w.hosts[int(w.plan.seed)%len(w.hosts)]
	at := h.cell.replicas[int(w.plan.seed>>4)%len(h.cell.replicas)]
	wires, dead := h.diesSpeaking(1)
	w.net.on(h.name, at.name, (*link).hold)
	h.start()
	sleep(2 * time.Second)
	rows, _, err := shardtest.LoadRows(context.Background(), h.cell.store)
	w.must(err)
	if rows.Hosts[h.uuid].BootID == dead {
		w.wrong("%s: the agent that follows is not in the shard", h.name)
	}
	before := w.checks.statesOf(dead)
	there := func(to *wire) bool { return to.to == at.name }
	w.speak(slices.DeleteFunc(slices.Clone(wires), there))
	sleep(2 * time.Second) // a follower waits for the replica that writes
	if w.checks.statesOf(dead) != before {
		w.wrong("%s: what a dead agent said is in the shard, and who wrote it hears the next one", h.name)
	}
	w.speak(slices.DeleteFunc(slices.Clone(wires), func(to *wire) bool { return !there(to) }))
	sleep(2 * time.Second)
	if w.checks.statesOf(dead) != before {
		w.wrong("%s: what a dead agent said is in the shard, and %s, which wrote it, was to ask it first", h.name, at.name)
	}
	for _, to := range wires {
		to.kill()
	}
	w.net.heal()
	w.count("probed: a dead agent's state arrived")
}
