package hostprobe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"cellgate/agent"
	"cellgate/internal/config"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Report is the state of a host at one time, and its description.
type Report struct {
	// State has no boot id and no version yet.
	State *agentv1.FullState
	// Notes are warnings of settings that the operator may not have intended.
	Notes []string
	// CPU, Nodes and Pools describe for operators what State has in Nova's forms.
	CPU   string
	Nodes []Node
	Pools []Pool
}

// Report builds the report of a machine and its instances; book has the claims on the host. Its error
// names every setting and every instance that does not fit the machine.
func (s *Settings) Report(m *Machine, hostUUID string, instances []Instance, book Book) (*Report, error) {
	with, problems := s.settle()
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("agent.host.%s: %s", p.Path, p.Problem))
	}
	bad := func(setting, format string, args ...any) {
		errs = append(errs, fmt.Errorf("agent.host.%s: %s", setting, fmt.Sprintf(format, args...)))
	}
	online := func(setting string, set cpuSet) {
		if off := set.without(m.online); len(off) > 0 {
			bad(setting, "CPUs %v are not online; those are %v", off, m.online)
		}
	}
	online("cpu_shared_set", with.shared)
	online("cpu_dedicated_set", with.dedicated)
	for i, p := range s.ReservedHugePages {
		if size, ok := parseSize(p.Size); ok && !m.hasPages(p.Node, size, int64(p.Count)) {
			bad(fmt.Sprintf("reserved_huge_pages[%d]", i), "node %d does not have %d pages of %d KiB", p.Node, p.Count, size)
		}
	}
	_, _, pinnable := with.cpusOf(m)
	u, err := usageOf(m, pinnable, instances)
	if err != nil {
		errs = append(errs, err)
	}
	left, nobodys := m.leftFor(instances, book)
	inventories, err := s.inventories(m, &with, left)
	if err != nil {
		errs = append(errs, err)
	}
	state := &agentv1.FullState{
		Cell: s.Cell, AgentVersion: agent.Version, HostUuid: hostUUID, ServiceHost: s.ServiceHost, Nodename: s.NodeName,
		Disabled: s.Disabled, DisabledReason: s.DisabledReason,
		HypervisorType: s.HypervisorType, HypervisorVersion: with.version, HostIp: s.HostIP,
		Providers: []*agentv1.Provider{{Uuid: hostUUID, Name: s.NodeName, Traits: s.traits(m), Inventories: inventories}},
	}
	for _, a := range s.Aggregates {
		metadata, _ := config.Pairs(a.Metadata) // the configuration's check reads it too
		state.Aggregates = append(state.Aggregates, &agentv1.Aggregate{Uuid: strings.ToLower(a.UUID), Name: a.Name, Metadata: metadata})
	}
	for i := range instances {
		instance, err := instances[i].message(hostUUID, inventories)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		state.Instances = append(state.Instances, instance)
	}
	pools, unmatched := m.pools(with.specs, u.devices)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	state.Facts = s.facts(m, &with, &u, pools)
	r := &Report{State: state}
	r.summarize(m, &with, &u, pools)
	for _, i := range unmatched {
		r.Notes = append(r.Notes, fmt.Sprintf("agent.host.pci_devices[%d] names no device of this machine", i))
	}
	for _, address := range m.missing(with.specs, u.devices) {
		r.Notes = append(r.Notes, fmt.Sprintf("an instance has the PCI device %s, which this machine lacks or agent.host.pci_devices does not name", address))
	}
	if m.diskUse != nil {
		r.Notes = append(r.Notes, diskNotes(s.DiskPath, book, nobodys)...)
	}
	if s.VirtType == "kvm" && !m.kvm {
		r.Notes = append(r.Notes, "agent.host.virt_type is kvm, which this machine's kernel does not have")
	}
	return r, nil
}

// inventories of the root provider (nova/virt/libvirt/driver.py, update_provider_tree). A class with a
// total of 0 has none. left is how much of the disk instances can have, in bytes, if its use was read.
func (s *Settings) inventories(m *Machine, with *settled, left int64) ([]*agentv1.Inventory, error) {
	shared, dedicated, _ := with.cpusOf(m)
	var all []*agentv1.Inventory
	var errs []error
	add := func(class string, total int64, reserved int, ratio float64, setting string) {
		switch {
		case total == 0:
			return
		case total > math.MaxInt32:
			errs = append(errs, fmt.Errorf("%d of %s is more than a cell can hold", total, class))
			return
		case int64(reserved) > total:
			errs = append(errs, fmt.Errorf("agent.host.%s: reserves %d of %s, and the machine has %d", setting, reserved, class, total))
			return
		}
		all = append(all, &agentv1.Inventory{
			ResourceClass: class, Total: int32(total), Reserved: int32(reserved),
			MinUnit: 1, MaxUnit: int32(total), StepSize: 1, AllocationRatio: ratio,
		})
	}
	add("VCPU", int64(len(shared)), s.ReservedCPUs, s.CPURatio, "reserved_host_cpus")
	add("PCPU", int64(len(dedicated)), 0, 1, "")
	add("MEMORY_MB", m.memoryKB>>10, s.ReservedMemoryMB, s.MemoryRatio, "reserved_host_memory_mb")
	// A fraction of a GiB is rounded up (nova/compute/utils.py, convert_mb_to_ceil_gb).
	disk := m.diskBytes >> 30
	reservedDisk := (s.ReservedDiskMB + 1023) / 1024
	if m.diskUse != nil {
		// In compute_nodes free_disk_gb is the configured value and disk_available_least the measured
		// one. The lower counts (nova/scheduler/host_manager.py).
		reservedDisk = max(reservedDisk, int(reserveMeasured(disk, disk-min(left>>30, disk), s.DiskRatio)))
	}
	add("DISK_GB", disk, reservedDisk, s.DiskRatio, "reserved_host_disk_mb")
	return all, errors.Join(errs...)
}

func (m *Machine) hasPages(id int, size, count int64) bool {
	for _, n := range m.nodes {
		for _, p := range n.pages {
			if n.id == id && p.sizeKB == size && p.total >= count {
				return true
			}
		}
	}
	return false
}

// missing lists the devices of instances that are no configured devices of the machine: they were unplugged, or made
// anew. As in Nova (nova/pci/manager.py, _set_hvdevs), the host goes on.
func (m *Machine) missing(specs []spec, taken map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(taken)), func(address string) bool {
		return slices.ContainsFunc(m.devices, func(d device) bool {
			return d.address == address && slices.ContainsFunc(specs, func(s spec) bool { return s.matches(m, &d) })
		})
	})
}
