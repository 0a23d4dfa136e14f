// Package hostprobe is the agent.Source of one real host. It combines what Linux reports of the machine
// in /proc and /sys with the operator's Settings.
//
// Reading and judging are separate. A Reader turns files below a root into a Machine (cpulist.go,
// cpuinfo.go, cpus.go, memory.go, numa.go, pci.go). Settings.Report turns a Machine and the instances
// into the state to report (state.go, traits.go, facts.go, usage.go). Neither depends on time. A Probe
// does both periodically, and puts a new state into its host if something differs.
//
// The values are those that Nova's libvirt driver reports for the same machine and options, as far as
// they can be known without libvirt. docs/how-to/agent.md has the table of differences.
package hostprobe
