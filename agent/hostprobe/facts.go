package hostprobe

import (
	"slices"

	"cellgate/agent"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// cpuInfoText is the column cpu_info (nova/virt/libvirt/driver.py, _get_cpu_info). The
// model is the kernel's, not libvirt's.
func (m *Machine) cpuInfoText() string {
	sockets, cores, threads := m.topology()
	names := make([]string, len(m.info.flags))
	for i, flag := range m.info.flags {
		names[i] = featureName(flag)
	}
	slices.Sort(names)
	info := map[string]any{
		"arch": m.arch, "vendor": m.info.vendorName(), "model": m.info.model, "features": slices.Compact(names),
		"topology": map[string]any{"cells": len(m.nodes), "sockets": sockets, "cores": cores, "threads": threads},
	}
	if m.info.physBits > 0 {
		info["maxphysaddr"] = map[string]any{"mode": "emulate", "bits": m.info.physBits}
	}
	return agent.JSONText(info)
}

// supportedText is the column supported_instances as libvirt reports it on most machines: the machine's
// own architecture and the 32-bit one that it includes, each with KVM and emulated. So images that ask
// for hypervisor_type=qemu are placed on KVM, too.
func (s *Settings) supportedText(m *Machine) string {
	if s.SupportedInstances != "" {
		return s.SupportedInstances
	}
	kinds := []string{"qemu"}
	if s.VirtType == "kvm" || s.VirtType == "" && m.kvm {
		kinds = []string{"kvm", "qemu"}
	}
	archs := []string{m.arch}
	if m.arch == "x86_64" {
		archs = append(archs, "i686")
	}
	var all [][3]string
	for _, arch := range archs {
		for _, kind := range kinds {
			all = append(all, [3]string{arch, kind, "hvm"})
		}
	}
	return agent.JSONText(all)
}

// cpusOf returns the CPUs for VCPU, those for PCPU, and the CPUs that the NUMA topology offers for
// pinning. If neither set is configured, instances may be pinned to all CPUs
// (nova/virt/libvirt/driver.py, _get_host_numa_topology).
func (s *settled) cpusOf(m *Machine) (shared, dedicated, pinnable cpuSet) {
	shared, dedicated = s.shared, s.dedicated
	if shared == nil && dedicated == nil {
		return m.online, nil, m.online
	}
	return shared, dedicated, dedicated
}

// numaText is the column numa_topology.
func (s *settled) numaText(m *Machine, u *usage) string {
	shared, _, pinnable := s.cpusOf(m)
	cells := make([]any, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		used := u.nodes[n.id]
		own := n.cpus.and(shared.or(pinnable))
		siblings := [][]int{}
		for _, c := range m.cpus {
			// Lists each core once, at the first of its CPUs on this node that are for instances.
			if core := c.siblings.and(own); len(core) > 0 && core[0] == c.id {
				siblings = append(siblings, core.list())
			}
		}
		mempages := make([]any, len(n.pages))
		for k, p := range n.pages {
			mempages[k] = agent.NovaObject("NUMAPagesTopology", "1.1", map[string]any{
				"size_kb": p.sizeKB, "total": p.total, "used": used.pages[p.sizeKB], "reserved": s.pages[pageKey{n.id, p.sizeKB}],
			})
		}
		var socket any // null if the node's CPUs are in several sockets
		if id, one := m.socketOf(n); one {
			socket = id
		}
		cells[i] = agent.NovaObject("NUMACell", "1.5", map[string]any{
			"id": n.id, "cpuset": n.cpus.and(shared).list(), "pcpuset": n.cpus.and(pinnable).list(),
			"memory": n.memoryKB >> 10, "cpu_usage": used.cpus, "memory_usage": used.memoryMB,
			"pinned_cpus": used.pinned.list(), "siblings": siblings, "mempages": mempages, "socket": socket,
			"network_metadata": agent.NovaObject("NetworkMetadata", "1.0", map[string]any{"physnets": []string{}, "tunneled": false}),
		})
	}
	return agent.JSONText(agent.NovaObject("NUMATopology", "1.2", map[string]any{"cells": cells}))
}

// facts of the machine, including what instances take.
func (s *Settings) facts(m *Machine, with *settled, u *usage, pools []pool) *agentv1.Facts {
	f := &agentv1.Facts{
		CpuInfo: m.cpuInfoText(), SupportedInstances: s.supportedText(m), NumaTopology: with.numaText(m, u),
	}
	if len(with.specs) > 0 {
		f.PciStats = poolText(pools)
	}
	return f
}
