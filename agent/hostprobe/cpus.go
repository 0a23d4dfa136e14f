package hostprobe

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// cpu is one online CPU. Topology numbers that the kernel does not report are 0.
type cpu struct {
	id     int
	socket int64
	// siblings are the online threads of the CPU's core, including itself.
	siblings cpuSet
}

const cpuFolder = "sys/devices/system/cpu"

// readCPUs reads which CPUs are online, and their topology.
func (r *Reader) readCPUs(m *Machine) error {
	online, err := r.cpuList(cpuFolder + "/online")
	if err != nil {
		return err
	}
	if len(online) == 0 {
		return fmt.Errorf("/%s/online names no CPU", cpuFolder)
	}
	m.online = online
	for _, id := range online {
		c := cpu{id: id}
		folder := cpuFolder + "/cpu" + strconv.Itoa(id) + "/topology/"
		if err := r.optional(&c.socket, folder+"physical_package_id", parseSocket); err != nil {
			return err
		}
		siblings, err := r.cpuList(folder + "thread_siblings_list")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.siblings = siblings.and(online)
		if !c.siblings.has(id) {
			c.siblings = cpuSet{id}
		}
		m.cpus = append(m.cpus, c)
	}
	return nil
}

// parseSocket parses a socket's number; -1 means that the kernel does not know it.
func parseSocket(text string) (int64, error) {
	if text == "-1" {
		return 0, nil
	}
	return parseAmount(text)
}

func (r *Reader) cpuList(name string) (cpuSet, error) {
	text, err := r.text(name)
	if err != nil {
		return nil, err
	}
	set, err := parseCPUList(text)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", name, err)
	}
	return set, nil
}

// threads reports whether some core has more than one online thread.
func (m *Machine) threads() bool {
	return slices.ContainsFunc(m.cpus, func(c cpu) bool { return len(c.siblings) > 1 })
}

// topology counts, as libvirt does, the sockets of a NUMA node, the cores of a socket and the threads
// of a core. An irregular machine counts as one socket with as many cores as it has CPUs.
func (m *Machine) topology() (sockets, cores, threads int) {
	type place struct{ node, socket int64 }
	perSocket := map[place]int{}
	for _, n := range m.nodes {
		for _, c := range m.cpus {
			if !n.cpus.has(c.id) {
				continue
			}
			perSocket[place{int64(n.id), c.socket}]++
			threads = max(threads, len(c.siblings))
		}
	}
	withCPUs := 0
	for _, n := range m.nodes {
		if len(n.cpus) > 0 {
			withCPUs++
		}
	}
	if withCPUs == 0 || threads == 0 {
		return 1, len(m.cpus), 1
	}
	sockets = len(perSocket) / withCPUs
	most := 0
	for _, n := range perSocket {
		most = max(most, n)
	}
	cores = most / threads
	if withCPUs*sockets*cores*threads != len(m.cpus) {
		return 1, len(m.cpus), 1
	}
	return sockets, cores, threads
}
