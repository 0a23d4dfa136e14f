package hostprobe

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// nodeUsage is the instances' part of a NUMA node (nova/virt/hardware.py,
// numa_usage_from_instance_numa).
type nodeUsage struct {
	cpus     int
	memoryMB int64
	pinned   cpuSet
	pages    map[int64]int64
}

// usage is the instances' part of a host, apart from amounts of classes.
type usage struct {
	nodes   map[int]*nodeUsage
	devices map[string]bool
}

// usageOf sums the usage of instances and checks it against the host: nodes, pages and devices must
// exist, and no exclusive resource may be used twice.
func usageOf(m *Machine, dedicated cpuSet, instances []Instance) (usage, error) {
	u := usage{nodes: map[int]*nodeUsage{}, devices: map[string]bool{}}
	for _, n := range m.nodes {
		u.nodes[n.id] = &nodeUsage{pages: map[int64]int64{}}
	}
	var errs []error
	for k := range instances {
		i := &instances[k]
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("instance %s: %s", i.UUID, fmt.Sprintf(format, args...)))
		}
		for _, c := range i.NUMA {
			at := slices.IndexFunc(m.nodes, func(n node) bool { return n.id == c.Node })
			if at < 0 {
				bad("numa: the host has no NUMA node %d", c.Node)
				continue
			}
			n, used := &m.nodes[at], u.nodes[c.Node]
			used.cpus += c.CPUs
			used.memoryMB += c.MemoryMB
			for _, cpu := range c.PinnedCPUs {
				switch {
				case !n.cpus.and(dedicated).has(cpu):
					bad("numa: CPU %d is no dedicated one of node %d", cpu, c.Node)
				case used.pinned.has(cpu):
					bad("numa: CPU %d is pinned twice", cpu)
				default:
					used.pinned = append(used.pinned, cpu).sorted()
				}
			}
			if c.PageSizeKB > 0 {
				if !slices.ContainsFunc(n.pages, func(p pages) bool { return p.sizeKB == c.PageSizeKB }) {
					bad("numa: node %d has no pages of %d KiB", c.Node, c.PageSizeKB)
				}
				used.pages[c.PageSizeKB] += c.MemoryMB << 10 / c.PageSizeKB
			}
		}
		for _, address := range i.PCIDevices {
			if u.devices[address] {
				bad("pci_devices: another instance has %s too", address)
			}
			u.devices[address] = true
		}
	}
	return u, errors.Join(errs...)
}

// message converts an instance to the form that the host reports to its cell.
func (i *Instance) message(root string, inventories []*agentv1.Inventory) (*agentv1.Instance, error) {
	out := &agentv1.Instance{InstanceUuid: i.UUID, ProjectId: i.ProjectID, UserId: i.UserID}
	for _, class := range slices.Sorted(maps.Keys(i.Resources)) {
		if !slices.ContainsFunc(inventories, func(v *agentv1.Inventory) bool { return v.GetResourceClass() == class }) {
			return nil, fmt.Errorf("instance %s: resources: the host has no %s", i.UUID, class)
		}
		out.Usages = append(out.Usages, &agentv1.Usage{ProviderUuid: root, ResourceClass: class, Amount: i.Resources[class]})
	}
	return out, nil
}
