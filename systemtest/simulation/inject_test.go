package simulation

import (
	"context"
	"fmt"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// inject starts a fault, and ends it after its duration or when all faults end.
func (w *world) inject(f trouble) {
	if w.over() {
		return
	}
	w.count("fault: " + string(f.kind))
	w.trace("FAULT %v", f)
	w.disturb(1)
	end := w.effect(f)
	if end == nil {
		end = func() {}
	}
	for left := f.lasts; left > 0 && !w.over(); left -= time.Second {
		sleep(min(left, time.Second))
	}
	end()
	w.disturb(-1)
}

func (w *world) disturb(by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active += by
	w.disturbed = time.Now()
}

// effect starts a fault. It returns how to end it, or nil if the fault has no end.
func (w *world) effect(f trouble) (end func()) {
	switch f.kind {
	case cutLink, slowLink, holdLink, loseCall, strayClaim:
		return w.onLink(f)
	case killGateway, jumpGateway:
		return w.onGateway(f)
	case jumpStore, resyncCell:
		return w.onCell(f)
	case killAgent, jumpAgent, changeHost, disableHost, claimOnHost, startStranger, stopStranger, believeDelta, adminHost, ghostAgent:
		return w.onHost(f)
	default:
		return w.onReplica(f)
	}
}

func (w *world) onLink(f trouble) func() {
	switch f.kind {
	case slowLink:
		// Usually a delay of a busy network, rarely of seconds.
		late := time.Duration(f.size*f.size*f.size*float64(3*time.Second)) + time.Millisecond
		w.net.on(f.target, f.peer, func(l *link) { l.late = late })
		return func() { w.net.on(f.target, f.peer, func(l *link) { l.late = 0 }) }
	case holdLink:
		w.net.on(f.target, f.peer, (*link).hold)
		return func() { w.net.on(f.target, f.peer, (*link).release) }
	case loseCall:
		w.net.on(f.target, f.peer, func(l *link) { l.lose = 0.1 + f.size/2 })
		return func() { w.net.on(f.target, f.peer, func(l *link) { l.lose = 0 }) }
	case strayClaim:
		w.net.on(f.target, f.peer, func(l *link) { l.stray = 0.2 + f.size/2 })
		return func() { w.net.on(f.target, f.peer, func(l *link) { l.stray = 0 }) }
	default:
		w.net.cut(f.target, f.peer)
		return nil
	}
}

func (w *world) onGateway(f trouble) func() {
	for _, d := range w.gateways {
		if d.name != f.target {
			continue
		}
		if f.kind == jumpGateway {
			d.clock.jump(jump(f))
			return nil
		}
		d.kill()
		return d.start
	}
	panic("no gateway " + f.target)
}

// jump returns how far a clock jumps: seconds or minutes, forwards or backwards.
func jump(f trouble) time.Duration {
	d := time.Duration((f.size - 0.5) * float64(4*time.Minute))
	if f.seed%2 == 0 {
		d /= 10
	}
	return d
}

func (w *world) onCell(f trouble) func() {
	for _, c := range w.cells {
		if c.name != f.target {
			continue
		}
		if f.kind == jumpStore {
			d := jump(f)
			if f.seed%8 == 1 {
				d = 2 * time.Hour // journals are trimmed
			}
			c.clock.jump(d)
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := w.gateways[int(f.seed%uint64(len(w.gateways)))].hosts().ResyncHosts(ctx, &cellgatev1.ResyncHostsRequest{Cell: c.name, Reason: "a fault of the plan"})
		w.trace("resync of %s: %s", c.name, short(err))
		return nil
	}
	panic("no cell " + f.target)
}

func (w *world) onHost(f trouble) func() {
	for _, h := range w.hosts {
		if h.name != f.target {
			continue
		}
		switch f.kind {
		case killAgent:
			h.killAgent()
			return h.start
		case jumpAgent:
			h.clock.jump(jump(f))
		case changeHost:
			h.change(func() {
				h.vcpus = hostVCPUs - 3 + int32(f.seed%6)
				h.reserved, h.io = int32(f.seed>>8%2048), int32(f.seed>>20%4)
			})
		case disableHost:
			h.change(func() { h.disabled = true })
			return func() { h.change(func() { h.disabled = false }) }
		case believeDelta:
			h.believes(true)
			// The stranger is in a lost delta. The change of io afterwards does not repeat it.
			h.stranger(1)
			sleep(300 * time.Millisecond)
			h.believes(false)
			h.change(func() { h.io = (h.io + 1) % 4 })
		case adminHost:
			state := []cellgatev1.HostAdmin_State{cellgatev1.HostAdmin_DISABLED, cellgatev1.HostAdmin_MAINTENANCE, cellgatev1.HostAdmin_FORCED_DOWN}[f.seed%3]
			h.operate(state, f.seed)
			return func() { h.operate(cellgatev1.HostAdmin_ENABLED, f.seed) }
		case claimOnHost:
			// The claim may be refused, because the host is full.
			_ = h.claim(fmt.Sprintf("local-%d", f.seed), max(f.lasts, time.Second), usagesOf(h.uuid, int32(3+f.seed%5)))
		case ghostAgent:
			return h.haunt(f)
		case startStranger:
			h.stranger(int32(1 + f.seed%3))
		case stopStranger:
			h.stopStranger()
		}
		return nil
	}
	panic("no host " + f.target)
}

func (w *world) onReplica(f trouble) func() {
	for _, c := range w.cells {
		for _, r := range c.replicas {
			if r.name == f.target {
				return r.suffer(f)
			}
		}
	}
	panic("no replica " + f.target)
}

func (r *replica) suffer(f trouble) func() {
	run := r.alive()
	store := func(change func(*handle)) func() {
		if run == nil {
			return nil
		}
		run.handle.set(change)
		return func() { run.handle.set(func(h *handle) { h.late, h.fail, h.lose = 0, 0, 0 }) }
	}
	switch f.kind {
	case killReplica:
		r.stopIncarnation(false)
		return r.start
	case stopReplica:
		r.stopIncarnation(true)
		return r.start
	case pauseReplica:
		if run == nil {
			return nil
		}
		run.paused.close()
		r.world.net.each(r.name, (*link).hold)
		return func() {
			run.paused.open()
			r.world.net.each(r.name, (*link).release)
		}
	case usurpReplica:
		r.usurp(f.lasts + time.Second)
		return nil
	case slowStore:
		return store(func(h *handle) { h.late = time.Duration(f.size*f.size*float64(2*time.Second)) + time.Millisecond })
	case failStore:
		return store(func(h *handle) { h.fail = 0.2 + 0.8*f.size })
	case loseStore:
		return store(func(h *handle) { h.lose = 0.1 + f.size/2 })
	case jumpReplica:
		r.clock.jump(jump(f))
	}
	return nil
}
