package hostprobe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// node is a NUMA node: its online CPUs, its memory, and its page pools, the smallest pages first.
type node struct {
	id       int
	cpus     cpuSet
	memoryKB int64
	pages    []pages
}

const (
	nodeFolder = "sys/devices/system/node"
	// maxNodes is how many nodes a cell accepts.
	maxNodes = 64
)

// readNodes reads the online NUMA nodes. If the kernel has no NUMA support, the machine is one node, as
// in libvirt.
func (r *Reader) readNodes(m *Machine) error {
	if !r.has(nodeFolder + "/online") {
		n := node{cpus: m.online, memoryKB: m.memoryKB}
		if err := r.readPages(&n, "sys/kernel/mm/hugepages"); err != nil {
			return err
		}
		m.nodes = []node{n}
		return nil
	}
	ids, err := r.cpuList(nodeFolder + "/online")
	if err != nil {
		return err
	}
	if len(ids) == 0 || len(ids) > maxNodes {
		return fmt.Errorf("/%s/online names %d NUMA nodes, not between 1 and %d", nodeFolder, len(ids), maxNodes)
	}
	for _, id := range ids {
		n := node{id: id}
		folder := nodeFolder + "/node" + strconv.Itoa(id)
		cpus, err := r.cpuList(folder + "/cpulist")
		if err != nil {
			return err
		}
		n.cpus = cpus.and(m.online)
		if err := r.into(&n.memoryKB, folder+"/meminfo", parseMemTotal); err != nil {
			return err
		}
		if err := r.readPages(&n, folder+"/hugepages"); err != nil {
			return err
		}
		m.nodes = append(m.nodes, n)
	}
	return nil
}

// readPages reads the pool of hugepages of each size. The rest of the memory is small pages.
func (r *Reader) readPages(n *node, folder string) error {
	names, err := r.list(folder)
	if err != nil {
		return err
	}
	small := n.memoryKB
	for _, name := range names {
		size, ok := parsePageSize(name)
		if !ok {
			continue
		}
		p := pages{sizeKB: size}
		if err := r.into(&p.total, folder+"/"+name+"/nr_hugepages", parseAmount); err != nil {
			return err
		}
		if p.total > maxAmount/size {
			return fmt.Errorf("/%s/%s: %d pages", folder, name, p.total)
		}
		small -= p.total * size
		n.pages = append(n.pages, p)
	}
	n.pages = append(n.pages, pages{sizeKB: r.PageKB, total: max(small, 0) / r.PageKB})
	slices.SortFunc(n.pages, func(a, b pages) int { return cmp.Compare(a.sizeKB, b.sizeKB) })
	return nil
}

// socketOf is the socket of all CPUs of a node; false if they are in several, or if the node has none.
func (m *Machine) socketOf(n *node) (socket int64, one bool) {
	for _, c := range m.cpus {
		switch {
		case !n.cpus.has(c.id):
		case !one:
			socket, one = c.socket, true
		case c.socket != socket:
			return 0, false
		}
	}
	return socket, one
}
