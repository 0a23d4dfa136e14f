package agent

import "context"

// Source provides the states of hosts: of the machine that it reads (hostprobe), or of a simulation.
type Source interface {
	// Hosts are the source's hosts, each with its first state. Every call returns the same ones. Uuids
	// in states are in lower case, as in cells.
	Hosts() []*Host
	// Run puts a new state into a host (Host.Put) whenever its state changed. It ends with ctx, and
	// then returns nil.
	Run(ctx context.Context) error
}
