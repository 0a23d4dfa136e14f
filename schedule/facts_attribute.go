package schedule

// attribute gives an attribute of Nova's HostState, by its name there and not in compute_nodes
// (nova/scheduler/host_manager.py). False: there is no such attribute.
func (r *row) attribute(name string) (value, bool) {
	v, f := &r.view, r.host.Facts
	filled := f == nil || !f.Unfilled
	switch name {
	case "host":
		return textValue(r.host.ServiceHost), true
	case "nodename":
		return textValue(r.host.NodeName), true
	case "uuid":
		return when(filled, textValue(r.host.UUID.String())), true
	case "cell_uuid":
		return textValue(r.host.Cell), true
	case "total_usable_ram_mb":
		return intValue(v.TotalRAMMB), true
	case "total_usable_disk_gb":
		return intValue(v.TotalDiskGB), true
	case "disk_mb_used":
		return intValue(v.DiskUsedMB), true
	case "free_ram_mb":
		return intValue(v.FreeRAMMB), true
	case "free_disk_mb":
		return intValue(v.FreeDiskMB), true
	case "vcpus_total":
		return intValue(v.VCPUsTotal), true
	case "vcpus_used":
		return intValue(v.VCPUsUsed), true
	case "num_instances":
		return intValue(v.NumInstances), true
	case "num_io_ops":
		return intValue(v.NumIOOps), true
	case "failed_builds":
		return intValue(v.FailedBuilds), true
	case "cpu_allocation_ratio":
		return when(filled, floatValue(v.CPURatio)), true
	case "ram_allocation_ratio":
		return when(filled, floatValue(v.RAMRatio)), true
	case "disk_allocation_ratio":
		return when(filled, floatValue(v.DiskRatio)), true
	case "hypervisor_version":
		return when(filled, intValue(v.HypervisorVersion)), true
	case "service":
		return r.service(), true
	case "limits":
		return value{kind: object, dict: &dict{}}, true
	case "aggregates":
		return opaques(len(r.host.Aggregates)), true
	case "instances":
		return r.instances(), true
	case "metrics":
		return when(filled, opaques(f.metricsThere())), true
	case "_lock_name", "update", "consume_from_request":
		return value{kind: opaque}, true
	case "pci_stats":
		return when(filled, value{kind: opaque, s: "PciDeviceStats"}), true
	case "updated":
		return when(filled, value{kind: opaque, s: "datetime.datetime"}), true
	case "numa_topology":
		return when(f != nil && f.NUMATopology != "", value{kind: opaque}), true
	}
	return f.attribute(name)
}

func (f *Facts) attribute(name string) (value, bool) {
	var texts FactTexts
	filled := f == nil || !f.Unfilled
	if f != nil && filled {
		texts = f.FactTexts
	}
	switch name {
	case "host_ip":
		if texts.HostIP != "" && f.ip.IsValid() {
			return value{kind: address, s: f.ip.String()}, true
		}
		return when(texts.HostIP != "", textValue(texts.HostIP)), true
	case "hypervisor_type":
		return when(filled, textValue(texts.HypervisorType)), true
	case "hypervisor_hostname":
		return when(texts.HypervisorHostname != "", textValue(texts.HypervisorHostname)), true
	case "cpu_info":
		return when(filled, textValue(texts.CPUInfo)), true
	case "supported_instances":
		if f == nil || f.Unfilled {
			return value{}, true
		}
		return f.instances, true
	case "stats":
		if f == nil {
			return value{kind: object, dict: &dict{}}, true
		}
		return when(filled, value{kind: object, dict: f.stats}), filled
	}
	return value{}, false
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
func (r *row) service() value {
	d := &dict{v: map[string]value{}}
	d.set("host", textValue(r.host.ServiceHost))
	d.set("binary", textValue("nova-compute"))
	d.set("topic", textValue("compute"))
	d.set("disabled", boolValue(r.host.Disabled))
	return value{kind: object, dict: d}
}

// opaques is a list of n objects without content: only whether it is empty matters.
func opaques(n int) value {
	v := value{kind: list, list: make([]value, n)}
	for i := range v.list {
		v.list[i].kind = opaque
	}
	return v
}

// instances are the instances on the host, by uuid.
func (r *row) instances() value {
	d := &dict{v: map[string]value{}}
	for _, id := range r.consumers {
		d.set(id.String(), value{kind: opaque})
	}
	return value{kind: object, dict: d}
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

func when(ok bool, v value) value {
	if ok {
		return v
	}
	return value{}
}

// stat gives a value of the host's stats; false if there is none.
func (r *row) stat(key string) (value, bool) {
	if r.host.Facts == nil || r.host.Facts.Unfilled {
		return value{}, false
	}
	v, ok := r.host.Facts.stats.v[key]
	return v, ok
}

// HostAttribute reports whether Nova's HostState has an attribute of the name.
func HostAttribute(name string) bool {
	_, ok := (&row{host: &Host{}}).attribute(name)
	return ok
}
