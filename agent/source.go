package agent

import (
	"context"
	"fmt"
)

// Source is where the states of hosts come from: a machine that is read
// (hostprobe), or a simulation.
type Source interface {
	// Hosts are the source's hosts, each with its first state; the same ones at
	// every call. Uuids in states are in lower case, as cells have them.
	Hosts() []*Host
	// Run puts a new state into a host (Host.Put) whenever what there is to say of
	// it changed. It ends with ctx, and then returns nil.
	Run(ctx context.Context) error
}

// Simulation is a Source of made-up hosts. Their states stay as they are, apart from the
// instances that they run of what their cell confirms.
type Simulation struct {
	hosts    []*Host
	computes *computes
}

// NewSimulation makes hosts of a cell; service hosts are named after it. The seed
// decides everything about them that samples/README.md leaves open: equal seeds
// give equal hosts, however many there are.
func NewSimulation(seed uint64, cell string, hosts int) (*Simulation, error) {
	if hosts < 1 {
		return nil, fmt.Errorf("a simulation needs at least 1 host, not %d", hosts)
	}
	s := &Simulation{hosts: make([]*Host, hosts)}
	for i := range s.hosts {
		s.hosts[i] = NewHost(Simulate(seed, cell, i))
	}
	s.computes = newComputes(s.hosts)
	return s, nil
}

// Hosts are the made-up hosts.
func (s *Simulation) Hosts() []*Host { return s.hosts }

// Run runs what the hosts' cell confirms on them (sim_run.go) until ctx ends; nothing else
// changes.
func (s *Simulation) Run(ctx context.Context) error { return s.computes.run(ctx) }
