package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Host is the configuration of the agent's machine that cannot be read from the machine itself.
// Settings that Nova also has keep the names, meanings and defaults of nova.conf ([DEFAULT], [compute]
// and [pci]); see docs/how-to/agent.md.
type Host struct {
	StateDir    string `yaml:"state_dir" reload:"restart" flag:"state-dir" help:"directory of the host's identity, made at the first start"`
	UUIDFile    string `yaml:"uuid_file" reload:"restart" flag:"uuid-file" help:"file with the host's uuid, such as Nova's compute_id, only read; empty means one in state_dir"`
	ServiceHost string `yaml:"service_host" reload:"restart" flag:"service-host" help:"name of the host's service; empty means the machine's name"`
	NodeName    string `yaml:"nodename" flag:"nodename" help:"name of the compute node; empty means service_host"`
	HostIP      string `yaml:"host_ip" flag:"host-ip" help:"address of the host; empty means the one that leads to its cell"`
	DiskPath    string `yaml:"disk_path" flag:"disk-path" help:"directory on the disk of the instances, Nova's instances_path; empty reports no DISK_GB"`
	// InstancesDir has a JSON file for each instance; "" means that the instances are unknown.
	InstancesDir      string          `yaml:"instances_dir" flag:"instances-dir" help:"directory with a file UUID.json for each instance on the host; empty: they are not known"`
	PollEvery         time.Duration   `yaml:"poll_every" range:"1s..1h" flag:"poll-every" help:"how often the machine is read"`
	ReservedCPUs      int             `yaml:"reserved_host_cpus" range:"0.." flag:"reserved-host-cpus" help:"VCPU kept from instances"`
	ReservedMemoryMB  int             `yaml:"reserved_host_memory_mb" unit:"MiB" range:"0.." flag:"reserved-host-memory-mb" help:"MiB of memory kept from instances"`
	ReservedDiskMB    int             `yaml:"reserved_host_disk_mb" unit:"MiB" range:"0.." flag:"reserved-host-disk-mb" help:"MiB of disk kept from instances"`
	ReserveUsedDisk   bool            `yaml:"reserve_used_disk" flag:"reserve-used-disk" help:"keep what the disk has in use besides the instances in disk_path from instances, as Nova's disk_available_least"`
	CPURatio          float64         `yaml:"cpu_allocation_ratio" range:">0..100000" flag:"cpu-allocation-ratio" help:"VCPU that one CPU counts as"`
	MemoryRatio       float64         `yaml:"ram_allocation_ratio" range:">0..100000" flag:"ram-allocation-ratio" help:"MiB that one of memory counts as"`
	DiskRatio         float64         `yaml:"disk_allocation_ratio" range:">0..100000" flag:"disk-allocation-ratio" help:"GiB that one of disk counts as"`
	SharedCPUs        string          `yaml:"cpu_shared_set" flag:"cpu-shared-set" help:"CPUs for VCPU, as 0-3,^2; empty means all, or none with cpu_dedicated_set"`
	DedicatedCPUs     string          `yaml:"cpu_dedicated_set" flag:"cpu-dedicated-set" help:"CPUs for PCPU; empty for none"`
	ReservedHugePages []ReservedPages `yaml:"reserved_huge_pages" flag:"reserved-huge-pages" help:"memory pages kept from instances, as node=0,size=2MB,count=64; again for each"`
	PCIDevices        []PCIDevice     `yaml:"pci_devices" flag:"pci-device" help:"devices for instances, as vendor_id=8086,product_id=154c,address=*:81:*.*,physical_network=net1; again for each"`
	Traits            []string        `yaml:"traits" flag:"trait" help:"traits besides those that are read, separated by commas"`
	Aggregates        []Aggregate     `yaml:"aggregates" flag:"aggregate" help:"an aggregate the host is in, as uuid=U,name=N,key=value; again for each"`
	Disabled          bool            `yaml:"disabled" flag:"disabled" help:"take the host out of service"`
	DisabledReason    string          `yaml:"disabled_reason" flag:"disabled-reason" help:"why it is"`
	VirtType          string          `yaml:"virt_type" must:",kvm,qemu" flag:"virt-type" help:"kvm or qemu; empty means kvm where the kernel has it"`
	HypervisorType    string          `yaml:"hypervisor_type" flag:"hypervisor-type" help:"name of the hypervisor"`
	HypervisorVersion string          `yaml:"hypervisor_version" flag:"hypervisor-version" help:"its version, as 8.2.2; empty when it is not known"`
	// SupportedInstances is JSON as in the column of compute_nodes.
	SupportedInstances string `yaml:"supported_instances" flag:"supported-instances" help:"what runs on the host as compute_nodes has it, [[\"x86_64\",\"kvm\",\"hvm\"]]; empty means by virt_type"`
}

// ReservedPages are memory pages of a NUMA node that are kept from instances.
type ReservedPages struct {
	Node  int    `yaml:"node" range:"0.." help:"NUMA node"`
	Size  string `yaml:"size" help:"size of a page, as 2MB or 1GB"`
	Count int    `yaml:"count" range:"0.." help:"pages kept from instances"`
}

// PCIDevice matches devices that instances may have; Tags are name=value.
type PCIDevice struct {
	VendorID        string   `yaml:"vendor_id" help:"vendor of the devices, four hexadecimal digits; empty for any"`
	ProductID       string   `yaml:"product_id" help:"product of the devices, four hexadecimal digits; empty for any"`
	Address         string   `yaml:"address" help:"PCI address, with * for any part; not with devname"`
	DevName         string   `yaml:"devname" help:"name of the network interface of the device; not with address"`
	PhysicalNetwork string   `yaml:"physical_network" help:"network that the device is on"`
	Trusted         string   `yaml:"trusted" help:"true or false: the virtual function may be trusted"`
	Tags            []string `yaml:"tags" help:"further tags, as name=value"`
}

// Aggregate is an aggregate that the host is in; Metadata are key=value.
type Aggregate struct {
	UUID     string   `yaml:"uuid" must:"uuid" help:"the aggregate's uuid"`
	Name     string   `yaml:"name" must:"set" help:"the aggregate's name"`
	Metadata []string `yaml:"metadata" help:"its metadata, as key=value"`
}

// checkHost makes the checks that do not need the machine.
func (l *loader) checkHost(h Host, printOnly bool) {
	if !printOnly {
		l.needed("agent.host.state_dir", h.StateDir)
	}
	for i, a := range h.Aggregates {
		l.pairs(fmt.Sprintf("agent.host.aggregates[%d].metadata", i), a.Metadata)
	}
	for i, d := range h.PCIDevices {
		l.pairs(fmt.Sprintf("agent.host.pci_devices[%d].tags", i), d.Tags)
	}
	if h.DisabledReason != "" && !h.Disabled {
		l.bad("agent.host.disabled_reason", "is of use with disabled only")
	}
}

// pairs checks that each item is name=value and that no name occurs twice.
func (l *loader) pairs(path string, list []string) {
	if _, err := Pairs(list); err != nil {
		l.bad(path, "%v", err)
	}
}

// Pairs parses a list of name=value.
func Pairs(list []string) (map[string]string, error) {
	all := make(map[string]string, len(list))
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if _, twice := all[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("%q is not name=value, or its name stands twice", text)
		}
		all[name] = strings.TrimSpace(value)
	}
	return all, nil
}

// UnmarshalText parses node=0,size=2MB,count=64; Nova's colons are accepted, too.
func (r *ReservedPages) UnmarshalText(text []byte) error {
	fields, err := Pairs(split(strings.ReplaceAll(string(text), ":", "="), ","))
	node, errNode := strconv.Atoi(fields["node"])
	count, errCount := strconv.Atoi(fields["count"])
	if err != nil || errNode != nil || errCount != nil || fields["size"] == "" || len(fields) != 3 {
		return fmt.Errorf("%q is not node=0,size=2MB,count=64", text)
	}
	*r = ReservedPages{Node: node, Size: fields["size"], Count: count}
	return nil
}
