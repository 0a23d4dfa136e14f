package nova

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"cellgate/schedule"
)

// ComputeNode is a row of compute_nodes. NULL is nil.
type ComputeNode struct {
	UUID               string   `json:"uuid"`
	Host               string   `json:"host"`
	HypervisorHostname string   `json:"hypervisor_hostname"`
	CellUUID           string   `json:"cell_uuid"`
	VCPUs              int64    `json:"vcpus"`
	VCPUsUsed          int64    `json:"vcpus_used"`
	FreeRAMMB          int64    `json:"free_ram_mb"`
	FreeDiskGB         *int64   `json:"free_disk_gb"`
	DiskAvailableLeast *int64   `json:"disk_available_least"`
	CPUAllocationRatio *float64 `json:"cpu_allocation_ratio"`
	HypervisorVersion  int64    `json:"hypervisor_version"`
	// Stats and PCIStats are JSON text.
	Stats    *string `json:"stats"`
	PCIStats *string `json:"pci_stats"`
	Deleted  int64   `json:"deleted"`
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

// Up reports whether the service counts as up
// (nova/servicegroup/drivers/db.py, is_up): a heartbeat from the future counts by
// its distance, too.
func (s *Service) Up(now time.Time, downTime time.Duration) bool {
	seen := s.LastSeenUp
	if seen == nil {
		seen = s.CreatedAt
	}
	return !s.ForcedDown && seen != nil && now.Sub(*seen).Abs() <= downTime
}

// RowOptions are the Nova options that bear on what rows mean.
type RowOptions struct {
	// ServiceDownTime is [DEFAULT]service_down_time.
	ServiceDownTime time.Duration
	// CPUAllocationRatio is the ratio of a row without one: the option
	// cpu_allocation_ratio if set, else initial_cpu_allocation_ratio.
	CPUAllocationRatio float64
}

// HostFromRows makes a host of its rows as nova/scheduler/host_manager.py does
// (HostState.update). A row without free_disk_gb has not been filled by its
// compute yet and gives an empty view. Resources and traits are empty: the tables
// do not have Placement's.
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
	}
	if n.FreeDiskGB == nil {
		return h, nil
	}
	if h.View, err = n.view(o); err != nil {
		return schedule.Host{}, fmt.Errorf("compute_nodes of %s: %w", n.Host, err)
	}
	return h, nil
}

func (n *ComputeNode) view(o RowOptions) (schedule.View, error) {
	free := *n.FreeDiskGB
	if n.DiskAvailableLeast != nil {
		free = min(free, *n.DiskAvailableLeast)
	}
	v := schedule.View{
		VCPUsTotal:        n.VCPUs,
		VCPUsUsed:         n.VCPUsUsed,
		CPURatio:          o.CPUAllocationRatio,
		FreeRAMMB:         n.FreeRAMMB,
		FreeDiskMB:        free * 1024,
		HypervisorVersion: n.HypervisorVersion,
	}
	if r := n.CPUAllocationRatio; r != nil && *r != 0 {
		v.CPURatio = *r
	}
	if err := readStats(&v, n.Stats); err != nil {
		return v, fmt.Errorf("stats: %w", err)
	}
	var err error
	if v.PCIFree, err = pciFree(n.PCIStats); err != nil {
		return v, fmt.Errorf("pci_stats: %w", err)
	}
	return v, nil
}

// readStats reads the counters out of the stats column: a JSON object whose values
// are numbers or their text.
func readStats(v *schedule.View, text *string) error {
	if text == nil || *text == "" {
		return nil
	}
	var stats map[string]any
	if err := json.Unmarshal([]byte(*text), &stats); err != nil {
		return err
	}
	for key, to := range map[string]*int64{
		"num_instances": &v.NumInstances,
		"io_workload":   &v.NumIOOps,
		"failed_builds": &v.FailedBuilds,
	} {
		switch x := stats[key].(type) {
		case nil:
		case string:
			n, err := strconv.ParseInt(x, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: %q is no integer", key, x)
			}
			*to = n
		default:
			n, problem := integer(x)
			if problem != "" {
				return fmt.Errorf("%s: %s", key, problem)
			}
			*to = n
		}
	}
	return nil
}

// pciFree adds up the free devices of the pools: a PciDevicePoolList primitive,
// or the list of dictionaries from before it.
func pciFree(text *string) (int64, error) {
	if text == nil || *text == "" {
		return 0, nil
	}
	type pool struct {
		Count int64 `json:"count"`
		Data  *struct {
			Count int64 `json:"count"`
		} `json:"nova_object.data"`
	}
	var pools []pool
	if (*text)[0] == '{' {
		var list struct {
			Data struct {
				Objects []pool `json:"objects"`
			} `json:"nova_object.data"`
		}
		if err := json.Unmarshal([]byte(*text), &list); err != nil {
			return 0, err
		}
		pools = list.Data.Objects
	} else if err := json.Unmarshal([]byte(*text), &pools); err != nil {
		return 0, err
	}
	var free int64
	for _, p := range pools {
		free += p.Count
		if p.Data != nil {
			free += p.Data.Count
		}
	}
	return free, nil
}
