package importer

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/legacy/novadb"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// work is a host to send.
type work struct {
	host   *host
	state  *agentv1.FullState
	inputs inputs
	sum    digest
}

// plan gives the hosts that a step sends. First come at most Config.StepHosts whose rows are not those that the cell
// took; it starts after the host where the last step ran out of room. Then come at most againHosts others, so that
// the repetition after a full pass delays no change. An agent's host is among the first only if its aggregates or
// ratios changed.
func (m *Importer) plan(x *novadb.Snapshot, r *Report) []work {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps++
	p := m.newPlanning(x, r)
	p.version = m.nextVersion(x)
	rows := make(map[schedule.ID]struct{}, len(x.Hosts))
	for i := range x.Hosts {
		rows[x.Hosts[i].UUID] = struct{}{}
	}
	p.former = m.formerOf(rows)
	first, _ := slices.BinarySearchFunc(x.Hosts, m.cursor+1, func(h novadb.Host, id int64) int { return int(h.NodeID - id) })
	for i := range x.Hosts {
		p.host(&x.Hosts[(first+i)%len(x.Hosts)])
	}
	if m.cursor = 0; r.Waiting > r.Held {
		m.cursor = p.last
	}
	for _, id := range slices.SortedFunc(maps.Keys(m.hosts), func(a, b schedule.ID) int { return slices.Compare(a[:], b[:]) }) {
		if h := m.hosts[id]; h.seen != m.steps {
			p.gone(h)
		}
	}
	p.leftOut()
	r.Hosts, r.Instances = len(x.Hosts), len(m.known.by)
	return append(p.all, p.again...)
}

// planning is the state of one plan; mu is held.
type planning struct {
	*Importer
	x        *novadb.Snapshot
	r        *Report
	services map[int64]*novadb.Service
	// nodes counts the hosts with a service host's name; used are the places of their
	// instances.
	nodes map[string]int
	used  map[place]bool
	// former is formerOf.
	former map[place]bool
	// all are hosts with other inputs than the cell took last, again those with the same.
	all, again []work
	last       int64
	version    uint64
}

// formerOf gives the places of hosts that are not among rows, and whose instances the cell
// may not have released. If a compute node with another uuid takes such a place, the
// instances are its own only after the release. Until then all that its row has in use is
// unaccounted for, whoever holds it.
func (m *Importer) formerOf(rows map[schedule.ID]struct{}) map[place]bool {
	at := map[place]bool{}
	for id, h := range m.hosts {
		if _, ok := rows[id]; !ok && h.shape != nil && !h.released {
			at[h.at] = true
		}
	}
	return at
}

func (m *Importer) newPlanning(x *novadb.Snapshot, r *Report) planning {
	p := planning{Importer: m, x: x, r: r, services: x.ServicesByID(), nodes: map[string]int{}, used: map[place]bool{}}
	for i := range x.Hosts {
		p.nodes[x.Hosts[i].ServiceHost]++
	}
	return p
}

func (p *planning) host(row *novadb.Host) {
	h := p.hosts[row.UUID]
	if h == nil {
		h = &host{}
		p.hosts[row.UUID] = h
	}
	h.seen, h.missing, h.at = p.steps, 0, place{row.ServiceHost, row.NodeName}
	service := p.services[row.ServiceID]
	for _, q := range p.placesOf(h.at) {
		p.used[q] = true
	}
	nova := hashOf(row)
	if h.agents && h.settled && !h.taken && h.inputs.nova == nova {
		return
	}
	on, in, held := p.instancesOf(h.at)
	if held {
		p.r.Held++
		p.r.Waiting++
		if !h.settled {
			p.r.Missing++
		}
		return
	}
	h.released, in.former = false, p.former[h.at]
	in.revision, in.at, in.disabled, in.nova = row.Revision, h.at, row.Disabled, nova
	if service != nil {
		in.reason = service.DisabledReason
	}
	if !p.due(h, in) {
		if h.refused != "" {
			p.r.leave(p.conf.MaxLeftOut, LeftOut{UUID: row.UUID.String(), Host: row.ServiceHost, Reason: RefusedByCell, Detail: h.refused})
		}
		return
	}
	if !p.room(h, in) {
		return
	}
	state, why := p.stateOf(row, service, on, in.former)
	if why != nil {
		p.r.leave(p.conf.MaxLeftOut, *why)
		return
	}
	h.shape = shapeOf(state)
	if p.add(h, state, in) && p.others(h, in) {
		p.last = row.NodeID
	}
}

// others reports whether a host has other rows than the cell took, so that it does not wait
// behind hosts that are only sent again. For an agent's host only aggregates and ratios
// count.
func (p *planning) others(h *host, in inputs) bool {
	if h.agents {
		return h.inputs.nova != in.nova
	}
	return h.inputs != in
}

// room reports whether the step has room for a host; otherwise the host waits.
func (p *planning) room(h *host, in inputs) bool {
	repeated := !p.others(h, in)
	n, most := len(p.all), p.conf.StepHosts
	if repeated {
		n, most = len(p.again), min(againHosts, p.conf.StepHosts)
	}
	if n < most {
		return true
	}
	if p.r.Waiting++; repeated {
		p.r.Repeated++
	}
	return false
}

// add plans to send a state, unless the cell already has it.
func (p *planning) add(h *host, state *agentv1.FullState, in inputs) bool {
	sum, err := digestOf(state)
	if err != nil {
		p.r.leave(p.conf.MaxLeftOut, LeftOut{UUID: state.GetHostUuid(), Host: state.GetServiceHost(), Reason: BadHost, Detail: err.Error()})
		return false
	}
	if h.settled && h.sum == sum && h.conflicts == 0 {
		h.inputs = in
		return false
	}
	state.Version = p.version
	w := work{h, state, in, sum}
	if p.others(h, in) {
		p.all = append(p.all, w)
	} else {
		p.again = append(p.again, w)
	}
	return true
}

func (p *planning) due(h *host, in inputs) bool {
	return !h.settled || h.inputs != in || h.conflicts > 0 && p.steps >= h.again
}

// instancesOf gives the instances that count at a place. held reports that the place has
// others, which came with the pass m.first and may have been sent by an earlier import. An
// instance without a node is on its host's only node.
func (p *planning) instancesOf(at place) (on []*instance, in inputs, held bool) {
	for _, q := range p.placesOf(at) {
		o := p.known.on[q]
		if o == nil {
			continue
		}
		in.changes += o.changes
		for _, i := range o.all {
			if i.counts(p.passes, p.x.At) {
				on = append(on, i)
			} else if i.first == p.first && !i.again {
				held = true
			}
		}
	}
	in.counted = len(on)
	return on, in, held
}

// placesOf gives the places whose instances are on the host at a place.
func (p *planning) placesOf(at place) []place {
	if p.nodes[at.host] == 1 && at.node != "" {
		return []place{at, {host: at.host}}
	}
	return []place{at}
}

// missingSteps is the number of steps in a row without a row after which a host is gone.
const missingSteps = 2

// gone plans to remove a host that has no row any more. The host is disabled and has no room.
// While its rows still have instances on it, the host's claims stay, with inventories of
// total 0. If another compute node now has its host and node, the instances belong to that
// one. Without instances the host has no inventories, and without claims it is deleted
// (shard.Host.Gone). An agent's host is left to the agent.
func (p *planning) gone(h *host) {
	if h.missing++; h.missing < missingSteps || h.shape == nil {
		return
	}
	if h.agents && h.settled && !h.taken {
		return
	}
	p.r.Gone++
	var on []*instance
	var in inputs
	if in.moved = p.used[h.at]; !in.moved {
		on, in, _ = p.instancesOf(h.at)
	}
	in.gone, in.at = true, h.at
	if !p.due(h, in) {
		return
	}
	if !p.room(h, in) {
		return
	}
	state := proto.CloneOf(h.shape)
	state.BootId, state.Disabled, state.Providers = p.boot, true, state.GetProviders()[:1]
	root := state.GetProviders()[0]
	if root.Traits, root.Inventories = nil, nil; len(on) > 0 {
		for _, class := range []string{vcpu, memoryMB, diskGB} {
			root.Inventories = append(root.Inventories, &agentv1.Inventory{ResourceClass: class, AllocationRatio: 1})
		}
	}
	state.DisabledReason = "cellgate import: " + p.whyGone(h)
	state.Instances = instances(state.GetHostUuid(), on, fitting(on, math.MaxInt64))
	p.add(h, state, in)
}

func (p *planning) whyGone(h *host) string {
	for i := range p.x.LeftOut {
		if l := &p.x.LeftOut[i]; l.UUID == h.shape.GetHostUuid() {
			return cut(fmt.Sprintf("its row is no host any more: %s %s %s", l.Reason, l.Column, l.Detail), 200)
		}
	}
	return "it has no row in compute_nodes any more"
}

// leftOut reports instances that cannot be imported.
func (p *planning) leftOut() {
	for _, b := range p.known.bad {
		p.r.leave(p.conf.MaxLeftOut, b.LeftOut)
	}
	for at, o := range p.known.on {
		if p.used[at] {
			continue
		}
		for id := range o.all {
			p.r.leave(p.conf.MaxLeftOut, LeftOut{
				Instance: true, UUID: id.String(), Host: at.host, Reason: NoRow, Detail: fmt.Sprintf("no row of compute_nodes that is a host has its host, and its node %q", at.node),
			})
		}
	}
}

// shapeOf gives the part of a state that is sent for a host without a row.
func shapeOf(s *agentv1.FullState) *agentv1.FullState {
	return &agentv1.FullState{Cell: s.GetCell(), HostUuid: s.GetHostUuid(), ServiceHost: s.GetServiceHost(), Nodename: s.GetNodename(), Providers: s.GetProviders()}
}

// hashOf gives a hash of a row's aggregates and allocation ratios.
func hashOf(row *novadb.Host) uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprintln(sum, row.View.CPURatio, row.View.RAMRatio, row.View.DiskRatio)
	for _, a := range row.Aggregates {
		_, _ = fmt.Fprintf(sum, "%q %q\n", a.UUID, a.Name) // a hash takes everything
		for _, k := range slices.Sorted(maps.Keys(a.Metadata)) {
			_, _ = fmt.Fprintf(sum, "%q=%q\n", k, a.Metadata[k])
		}
	}
	return sum.Sum64()
}
