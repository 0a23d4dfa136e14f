// Package hostprobe is the agent.Source of one real host: what Linux says of the
// machine in /proc and /sys, and what the operator says of it in Settings.
//
// Reading is split from judging. A Reader turns files below a root into a Machine
// (cpulist.go, cpuinfo.go, cpus.go, memory.go, numa.go, pci.go); Settings.State turns
// a Machine, an Identity and the instances there are into the state that is reported
// (state.go, traits.go, facts.go, usage.go). Neither knows of time. A Probe does both
// again and again and puts a new state into its host when something differs.
//
// The values are those that Nova's libvirt driver reports for the same machine and
// options, as far as they can be known without libvirt; docs/how-to/agent.md has the table,
// with what differs.
package hostprobe
