package cell

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cellgate/cell/replica"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// showHardware adds the NUMA cells and devices that a host reports to its message, and what claims take
// of them that no report includes yet.
func (c *Cell) showHardware(m *cellgatev1.Host, row *replica.HostRow) {
	numa, pci := row.Host.HardwareTexts()
	var taken schedule.Assignment
	for _, claim := range c.rows.HardwareClaims(row.Host.UUID) {
		m.HardwareClaims = append(m.HardwareClaims, hardwareClaim(claim))
		taken.Cells = append(taken.Cells, claim.Guest.Assigned.Cells...)
		taken.Devices = append(taken.Devices, claim.Guest.Assigned.Devices...)
	}
	var err error
	if m.NumaCells, err = numaCellsOf(numa, taken.Cells); err == nil {
		m.DevicePools, err = devicePoolsOf(pci, taken.Devices)
	}
	if err != nil {
		m.HardwareProblem = err.Error()
	}
}

// hardwareClaim converts the hardware that a claim takes.
func hardwareClaim(claim *shard.Claim) *cellgatev1.HardwareClaim {
	out := &cellgatev1.HardwareClaim{ClaimId: claim.ClaimID, InstanceUuid: claim.Instance(), Devices: map[string]int32{}}
	for _, a := range claim.Guest.Assigned.Cells {
		out.NumaCells = append(out.NumaCells, &cellgatev1.NumaCellClaim{
			Id: int32(a.ID), PinnedCpus: cpuRanges(a.Pinned), SharedCpus: int32(a.CPUs), MemoryMb: a.MemoryMB, PageSizeKb: a.PageSize,
		})
	}
	for _, d := range claim.Guest.Assigned.Devices {
		out.Devices[d.Pool] += int32(d.Count)
	}
	return out
}

// novaObject is one of Nova's versioned objects.
type novaObject[T any] struct {
	Data T `json:"nova_object.data"`
}

// numaCellsOf reads the column numa_topology of a compute node, and adds what was taken since.
func numaCellsOf(text string, taken []schedule.AssignedCell) ([]*cellgatev1.HostNumaCell, error) {
	if text == "" {
		return nil, nil
	}
	var topology novaObject[struct {
		Cells []novaObject[struct {
			ID          int32
			CPUs        []int `json:"cpuset"`
			Dedicated   []int `json:"pcpuset"`
			Pinned      []int `json:"pinned_cpus"`
			Socket      int32
			Memory      int64
			CPUUsage    int32 `json:"cpu_usage"`
			MemoryUsage int64 `json:"memory_usage"`
			MemPages    []novaObject[struct {
				Size                  int64 `json:"size_kb"`
				Total, Used, Reserved int64
			}]
		}]
	}]
	if err := json.Unmarshal([]byte(text), &topology); err != nil {
		return nil, fmt.Errorf("numa_topology: %w", err)
	}
	var out []*cellgatev1.HostNumaCell
	for i := range topology.Data.Cells {
		c := &topology.Data.Cells[i].Data
		m := &cellgatev1.HostNumaCell{
			Id: c.ID, Socket: c.Socket, SharedCpus: cpuRanges(c.CPUs), DedicatedCpus: cpuRanges(c.Dedicated), CpusUsed: c.CPUUsage,
			MemoryMb: c.Memory, MemoryUsedMb: c.MemoryUsage,
		}
		for _, p := range c.MemPages {
			if p.Data.Size > 0 {
				m.Pages = append(m.Pages, &cellgatev1.HostPages{SizeKb: p.Data.Size, Total: p.Data.Total, Used: p.Data.Used, Reserved: p.Data.Reserved})
			}
		}
		slices.SortFunc(m.Pages, func(a, b *cellgatev1.HostPages) int { return cmp.Compare(a.GetSizeKb(), b.GetSizeKb()) })
		for _, t := range taken {
			if t.ID != int64(c.ID) {
				continue
			}
			c.Pinned = append(c.Pinned, t.Pinned...)
			m.CpusUsed += int32(t.CPUs)
			m.MemoryUsedMb += t.MemoryMB
			for k, p := range m.GetPages() {
				if p.GetSizeKb() == t.PageSize || t.PageSize == 0 && k == 0 {
					p.Used += t.MemoryMB << 10 / p.GetSizeKb()
				}
			}
		}
		m.PinnedCpus = cpuRanges(c.Pinned)
		out = append(out, m)
	}
	return out, nil
}

// devicePoolsOf reads the column pci_stats of a compute node, and subtracts what was taken since.
// Devices are named as in assignments (schedule.AssignedDevices).
func devicePoolsOf(text string, taken []schedule.AssignedDevices) ([]*cellgatev1.HostDevicePool, error) {
	if text == "" {
		return nil, nil
	}
	var top any
	if err := json.Unmarshal([]byte(text), &top); err != nil {
		return nil, fmt.Errorf("pci_stats: %w", err)
	}
	if whole, ok := dataOf(top); ok {
		top = whole["objects"]
	}
	list, _ := top.([]any) // without objects the list is empty
	var out []*cellgatev1.HostDevicePool
	for _, object := range list {
		data, ok := dataOf(object)
		if !ok {
			data, _ = object.(map[string]any) // as Nova wrote before versioned objects
		}
		pool := &cellgatev1.HostDevicePool{NumaCell: -1}
		var fields []string
		add := func(key string, value any) {
			if value == nil {
				fields = append(fields, key)
				return
			}
			fields = append(fields, key+"="+strings.ToLower(fmt.Sprint(value)))
		}
		for key, value := range data {
			number, isNumber := value.(float64)
			tags, isTags := value.(map[string]any)
			switch {
			case key == "count" && isNumber:
				pool.ReportedFree, pool.Free = int32(number), int32(number)
			case key == "numa_node":
				if isNumber {
					pool.NumaCell = int32(number)
					add(key, strconv.Itoa(int(number)))
				}
			case key == "tags" && isTags:
				for tag, x := range tags {
					add(tag, x)
				}
			default:
				add(key, value)
			}
		}
		slices.Sort(fields)
		pool.Devices = strings.Join(fields, ",")
		out = append(out, pool)
	}
	for _, t := range taken {
		left := int32(t.Count)
		for _, pool := range out { // several pools may have the same name
			if pool.GetDevices() == t.Pool {
				took := max(0, min(left, pool.GetFree()))
				pool.Free -= took
				left -= took
			}
		}
	}
	return out, nil
}

// dataOf gives the fields of a versioned object.
func dataOf(v any) (map[string]any, bool) {
	object, _ := v.(map[string]any)
	data, ok := object["nova_object.data"].(map[string]any)
	return data, ok
}

// cpuRanges writes CPUs as 0-3,8.
func cpuRanges(cpus []int) string {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	cpus = slices.Compact(cpus)
	var parts []string
	for i := 0; i < len(cpus); {
		end := i
		for end+1 < len(cpus) && cpus[end+1] == cpus[end]+1 {
			end++
		}
		part := strconv.Itoa(cpus[i])
		if end > i {
			part += "-" + strconv.Itoa(cpus[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ",")
}
