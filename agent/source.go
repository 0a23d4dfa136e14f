package agent

import (
	"context"
	"fmt"
)

// Source provides the states of hosts: of the machine that it reads (hostprobe), or of a simulation.
type Source interface {
	// Hosts are the source's hosts, each with its first state. Every call returns the same ones. Uuids
	// in states are in lower case, as in cells.
	Hosts() []*Host
	// Run puts a new state into a host (Host.Put) whenever its state changed. It ends with ctx, and
	// then returns nil.
	Run(ctx context.Context) error
}

// Simulation is a Source of made-up hosts. Their states do not change, except for the instances of
// claims that their cell confirms.
type Simulation struct {
	hosts    []*Host
	computes *computes
}

// NewSimulation makes hosts of a cell, whose service hosts are named after it. The seed decides
// everything that samples/README.md leaves open: equal seeds give equal hosts, however many there are.
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

// Run runs the claims that the hosts' cell confirms (sim_run.go) until ctx ends; nothing else changes.
func (s *Simulation) Run(ctx context.Context) error { return s.computes.run(ctx) }
