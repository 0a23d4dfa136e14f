package nova

import (
	"fmt"
	"time"

	"cellgate/schedule"
)

// ComputeNode is a row of compute_nodes. Nil is NULL.
type ComputeNode struct {
	UUID                string   `json:"uuid"`
	Host                string   `json:"host"`
	HypervisorHostname  string   `json:"hypervisor_hostname"`
	CellUUID            string   `json:"cell_uuid"`
	VCPUs               int64    `json:"vcpus"`
	VCPUsUsed           int64    `json:"vcpus_used"`
	MemoryMB            int64    `json:"memory_mb"`
	FreeRAMMB           int64    `json:"free_ram_mb"`
	LocalGB             int64    `json:"local_gb"`
	LocalGBUsed         int64    `json:"local_gb_used"`
	FreeDiskGB          *int64   `json:"free_disk_gb"`
	DiskAvailableLeast  *int64   `json:"disk_available_least"`
	CPUAllocationRatio  *float64 `json:"cpu_allocation_ratio"`
	RAMAllocationRatio  *float64 `json:"ram_allocation_ratio"`
	DiskAllocationRatio *float64 `json:"disk_allocation_ratio"`
	HypervisorType      string   `json:"hypervisor_type"`
	HypervisorVersion   int64    `json:"hypervisor_version"`
	HostIP              string   `json:"host_ip"`
	// The remaining columns are JSON texts, except Deleted.
	CPUInfo            string  `json:"cpu_info"`
	SupportedInstances string  `json:"supported_instances"`
	Metrics            string  `json:"metrics"`
	NUMATopology       string  `json:"numa_topology"`
	Stats              *string `json:"stats"`
	PCIStats           *string `json:"pci_stats"`
	Deleted            int64   `json:"deleted"`
	// Facts are those parsed before from a row with the same texts; nil to parse them now.
	Facts *schedule.Facts `json:"-"`
}

// Service is a row of services.
type Service struct {
	Host       string
	Binary     string
	Disabled   bool
	ForcedDown bool
	LastSeenUp *time.Time
	CreatedAt  *time.Time
	Deleted    int64
}

// Up reports whether the service counts as up (nova/servicegroup/drivers/db.py, is_up). Only the distance to the
// heartbeat counts, even if it is in the future.
func (s *Service) Up(now time.Time, downTime time.Duration) bool {
	seen := s.LastSeenUp
	if seen == nil {
		seen = s.CreatedAt
	}
	return !s.ForcedDown && seen != nil && now.Sub(*seen).Abs() <= downTime
}

// RowOptions are the Nova options that affect the meaning of rows.
type RowOptions struct {
	// ServiceDownTime is [DEFAULT]service_down_time.
	ServiceDownTime time.Duration
	// The ratios of rows without one: the option cpu_allocation_ratio if set, else initial_cpu_allocation_ratio, and
	// likewise for ram and disk.
	CPUAllocationRatio  float64
	RAMAllocationRatio  float64
	DiskAllocationRatio float64
}

// HostFromRows makes a host from its rows, as nova/scheduler/host_manager.py does (HostState.update). A row without
// free_disk_gb was not filled by its compute yet; its view is empty. If a row cannot be read, the host's Facts say
// so. Resources and traits are empty: only Placement has them.
func HostFromRows(n *ComputeNode, s *Service, in []schedule.Aggregate, now time.Time, o RowOptions) (schedule.Host, error) {
	id, err := schedule.ParseID(n.UUID)
	if err != nil {
		return schedule.Host{}, fmt.Errorf("compute_nodes of %s: uuid: %w", n.Host, err)
	}
	h := schedule.Host{
		UUID:        id,
		ServiceHost: n.Host,
		NodeName:    n.HypervisorHostname,
		Cell:        n.CellUUID,
		Disabled:    s.Disabled,
		Down:        !s.Up(now, o.ServiceDownTime),
		Aggregates:  in,
		Facts:       n.facts(),
	}
	if n.FreeDiskGB == nil {
		h.Facts.Unfilled = true
		delete(h.Facts.Failed, "metrics") // Nova does not read them.
		return h, nil
	}
	h.View = n.view(o, h.Facts)
	return h, nil
}

// facts parses what the row has beyond amounts.
func (n *ComputeNode) facts() *schedule.Facts {
	if n.Facts != nil {
		return n.Facts
	}
	f := schedule.ParseFacts(schedule.FactTexts{
		HypervisorType: n.HypervisorType, HypervisorHostname: n.HypervisorHostname, HostIP: n.HostIP,
		CPUInfo: n.CPUInfo, SupportedInstances: n.SupportedInstances, Stats: text(n.Stats), Metrics: n.Metrics,
		NUMATopology: n.NUMATopology, PCIPools: text(n.PCIStats),
	})
	// A NULL column leaves a field unset, which fails every host state (nova/objects/compute_node.py).
	if n.FreeDiskGB != nil && text(n.Stats) == "" {
		fail(f, "stats", "NotImplementedError: Cannot load 'stats' in the base class")
	}
	if n.FreeDiskGB != nil && n.SupportedInstances == "" {
		fail(f, "supported_instances", "NotImplementedError: Cannot load 'supported_hv_specs' in the base class")
	}
	if n.HostIP != "" && !f.HasAddress() {
		fail(f, "host_ip", "ValueError: Network \""+n.HostIP+"\" is not valid")
	}
	return f
}

func fail(f *schedule.Facts, field, exception string) {
	if f.Failed == nil {
		f.Failed = map[string]string{}
	}
	f.Failed[field] = exception
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (n *ComputeNode) view(o RowOptions, f *schedule.Facts) schedule.View {
	free := *n.FreeDiskGB
	if n.DiskAvailableLeast != nil {
		free = min(free, *n.DiskAvailableLeast)
	}
	v := schedule.View{
		VCPUsTotal:        n.VCPUs,
		VCPUsUsed:         n.VCPUsUsed,
		CPURatio:          ratio(n.CPUAllocationRatio, o.CPUAllocationRatio),
		TotalRAMMB:        n.MemoryMB,
		RAMRatio:          ratio(n.RAMAllocationRatio, o.RAMAllocationRatio),
		FreeRAMMB:         n.FreeRAMMB,
		TotalDiskGB:       n.LocalGB,
		DiskRatio:         ratio(n.DiskAllocationRatio, o.DiskAllocationRatio),
		DiskUsedMB:        n.LocalGBUsed * 1024,
		FreeDiskMB:        free * 1024,
		HypervisorVersion: n.HypervisorVersion,
		PCIFree:           f.FreeDevices(),
	}
	for _, c := range []struct {
		key string
		to  *int64
	}{{"num_instances", &v.NumInstances}, {"io_workload", &v.NumIOOps}, {"failed_builds", &v.FailedBuilds}} {
		var exception string
		if *c.to, exception = f.Counter(c.key); exception != "" && f.Failed["stats"] == "" {
			fail(f, "stats", exception)
		}
	}
	return v
}

// ratio is the row's ratio, or the option's if the row has none.
func ratio(own *float64, option float64) float64 {
	if own != nil && *own != 0 {
		return *own
	}
	return option
}
