package schedule

import "cellgate/internal/python"

// attribute gives an attribute of Nova's HostState, by its name there and not in compute_nodes
// (nova/scheduler/host_manager.py). False: there is no such attribute.
func (r *row) attribute(name string) (python.Value, bool) {
	v, f := &r.view, r.host.Facts
	filled := f == nil || !f.Unfilled
	switch name {
	case "host":
		return python.TextValue(r.host.ServiceHost), true
	case "nodename":
		return python.TextValue(r.host.NodeName), true
	case "uuid":
		return when(filled, python.TextValue(r.host.UUID.String())), true
	case "cell_uuid":
		return python.TextValue(r.host.Cell), true
	case "total_usable_ram_mb":
		return python.IntValue(v.TotalRAMMB), true
	case "total_usable_disk_gb":
		return python.IntValue(v.TotalDiskGB), true
	case "disk_mb_used":
		return python.IntValue(v.DiskUsedMB), true
	case "free_ram_mb":
		return python.IntValue(v.FreeRAMMB), true
	case "free_disk_mb":
		return python.IntValue(v.FreeDiskMB), true
	case "vcpus_total":
		return python.IntValue(v.VCPUsTotal), true
	case "vcpus_used":
		return python.IntValue(v.VCPUsUsed), true
	case "num_instances":
		return python.IntValue(v.NumInstances), true
	case "num_io_ops":
		return python.IntValue(v.NumIOOps), true
	case "failed_builds":
		return python.IntValue(v.FailedBuilds), true
	case "cpu_allocation_ratio":
		return when(filled, python.FloatValue(v.CPURatio)), true
	case "ram_allocation_ratio":
		return when(filled, python.FloatValue(v.RAMRatio)), true
	case "disk_allocation_ratio":
		return when(filled, python.FloatValue(v.DiskRatio)), true
	case "hypervisor_version":
		return when(filled, python.IntValue(v.HypervisorVersion)), true
	case "service":
		return r.service(), true
	case "limits":
		return python.Value{Kind: python.KindDict, Dict: &python.Dict{}}, true
	case "aggregates":
		return opaques(len(r.host.Aggregates)), true
	case "instances":
		return r.instances(), true
	case "metrics":
		return when(filled, opaques(f.metricsThere())), true
	case "_lock_name", "update", "consume_from_request":
		return python.Value{Kind: python.KindOpaque}, true
	case "pci_stats":
		return when(filled, python.Value{Kind: python.KindOpaque, Text: "PciDeviceStats"}), true
	case "updated":
		return when(filled, python.Value{Kind: python.KindOpaque, Text: "datetime.datetime"}), true
	case "numa_topology":
		return when(f != nil && f.NUMATopology != "", python.Value{Kind: python.KindOpaque}), true
	}
	return f.attribute(name)
}

func (f *Facts) attribute(name string) (python.Value, bool) {
	var texts FactTexts
	filled := f == nil || !f.Unfilled
	if f != nil && filled {
		texts = f.FactTexts
	}
	switch name {
	case "host_ip":
		if texts.HostIP != "" && f.ip.IsValid() {
			return python.Value{Kind: python.KindAddress, Text: f.ip.String()}, true
		}
		return when(texts.HostIP != "", python.TextValue(texts.HostIP)), true
	case "hypervisor_type":
		return when(filled, python.TextValue(texts.HypervisorType)), true
	case "hypervisor_hostname":
		return when(texts.HypervisorHostname != "", python.TextValue(texts.HypervisorHostname)), true
	case "cpu_info":
		return when(filled, python.TextValue(texts.CPUInfo)), true
	case "supported_instances":
		if f == nil || f.Unfilled {
			return python.Value{}, true
		}
		return f.instances, true
	case "stats":
		if f == nil {
			return python.Value{Kind: python.KindDict, Dict: &python.Dict{}}, true
		}
		return when(filled, python.Value{Kind: python.KindDict, Dict: f.stats}), filled
	}
	return python.Value{}, false
}

// ofPlatform reports whether an attribute is the same on all hosts of a platform.
func ofPlatform(attribute string) bool {
	switch attribute {
	case "hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances":
		return true
	}
	return false
}

// service is the row of the host's nova-compute service, with the fields that are known.
func (r *row) service() python.Value {
	d := &python.Dict{}
	d.Set("host", python.TextValue(r.host.ServiceHost))
	d.Set("binary", python.TextValue("nova-compute"))
	d.Set("topic", python.TextValue("compute"))
	d.Set("disabled", python.BoolValue(r.host.Disabled))
	return python.Value{Kind: python.KindDict, Dict: d}
}

// opaques is a list of n objects without content: only whether it is empty matters.
func opaques(n int) python.Value {
	v := python.Value{Kind: python.KindList, List: make([]python.Value, n)}
	for i := range v.List {
		v.List[i].Kind = python.KindOpaque
	}
	return v
}

// instances are the instances on the host, by uuid.
func (r *row) instances() python.Value {
	d := &python.Dict{}
	for _, id := range r.consumers {
		d.Set(id.String(), python.Value{Kind: python.KindOpaque})
	}
	return python.Value{Kind: python.KindDict, Dict: d}
}

func (f *Facts) metricsThere() (n int) {
	if f == nil {
		return 0
	}
	for i := range f.metrics {
		if f.metrics[i].there {
			n++
		}
	}
	return n
}

func when(ok bool, v python.Value) python.Value {
	if ok {
		return v
	}
	return python.Value{}
}

// stat gives a value of the host's stats; false if there is none.
func (r *row) stat(key string) (python.Value, bool) {
	if r.host.Facts == nil || r.host.Facts.Unfilled {
		return python.Value{}, false
	}
	return r.host.Facts.stats.Lookup(key)
}

// HostAttribute reports whether Nova's HostState has an attribute of the name.
func HostAttribute(name string) bool {
	_, ok := (&row{host: &Host{}}).attribute(name)
	return ok
}
