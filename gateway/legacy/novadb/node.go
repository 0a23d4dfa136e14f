package novadb

import (
	"cmp"
	"database/sql"
	"fmt"
	"math"
	"time"

	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// nodeRow is a live row of compute_nodes. Rows with equal data are ==.
type nodeRow struct {
	id                 int64
	uuid               sql.NullString
	serviceID          sql.NullInt64
	host, node         sql.NullString
	vcpus, vcpusUsed   int64
	memoryMB           int64
	freeRAMMB          sql.NullInt64
	localGB            int64
	localGBUsed        int64
	freeDiskGB         sql.NullInt64
	diskAvailableLeast sql.NullInt64
	cpuRatio           sql.NullFloat64
	ramRatio           sql.NullFloat64
	diskRatio          sql.NullFloat64
	hypervisorType     string
	hypervisorVersion  int64
	hostIP             sql.NullString
	cpuInfo            string
	supportedInstances sql.NullString
	metrics            sql.NullString
	numaTopology       sql.NullString
	stats              sql.NullString
	pciStats           sql.NullString
	stamp              stamp
}

// nodeColumns are the columns that scan reads, in its order.
const nodeColumns = `id, uuid, service_id, host, hypervisor_hostname, vcpus, vcpus_used, memory_mb, free_ram_mb,
	local_gb, local_gb_used, free_disk_gb, disk_available_least, cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio,
	hypervisor_type, hypervisor_version, HOST(host_ip), cpu_info, supported_instances, metrics, numa_topology, stats, pci_stats,
	created_at, updated_at`

func (n *nodeRow) scan(r *sql.Rows) error {
	return r.Scan(&n.id, &n.uuid, &n.serviceID, &n.host, &n.node, &n.vcpus, &n.vcpusUsed, &n.memoryMB, &n.freeRAMMB,
		&n.localGB, &n.localGBUsed, &n.freeDiskGB, &n.diskAvailableLeast, &n.cpuRatio, &n.ramRatio, &n.diskRatio,
		&n.hypervisorType, &n.hypervisorVersion, &n.hostIP, &n.cpuInfo, &n.supportedInstances, &n.metrics, &n.numaTopology, &n.stats, &n.pciStats,
		&n.stamp.created, &n.stamp.updated)
}

// stamp has the times that most writes of a row change.
type stamp struct{ created, updated nullTime }

// changed gives the time of the last write that set one.
func (s stamp) changed() time.Time {
	if s.updated.Valid {
		return s.updated.Time.UTC()
	}
	return s.created.Time.UTC()
}

func (s stamp) equal(o stamp) bool {
	return s.created.Valid == o.created.Valid && s.updated.Valid == o.updated.Valid &&
		s.created.Time.Equal(o.created.Time) && s.updated.Time.Equal(o.updated.Time)
}

// node is a row and the host made from it. It never changes; snapshots share it.
type node struct {
	row nodeRow
	// host lacks the parts from other rows: its cell, the service's state, aggregates.
	host schedule.Host
	// why is the reason why the row is no host; nil if it is one.
	why *LeftOut
	// revision is that of the snapshot in which the row was last found to have changed.
	revision uint64
}

// options gives the options with which rows become hosts.
func (c *Config) options() nova.RowOptions {
	return nova.RowOptions{
		ServiceDownTime:     c.ServiceDownTime,
		CPUAllocationRatio:  cmp.Or(c.Ratios.CPU, c.Ratios.InitialCPU, 4),
		RAMAllocationRatio:  cmp.Or(c.Ratios.RAM, c.Ratios.InitialRAM, 1),
		DiskAllocationRatio: cmp.Or(c.Ratios.Disk, c.Ratios.InitialDisk, 1),
	}
}

// factsOf gives the facts of the row's earlier state if its texts are unchanged and were
// readable; nil otherwise. Most writes only change numbers.
func (n *nodeRow) factsOf(old *tracked) *schedule.Facts {
	if old == nil || old.why != nil {
		return nil
	}
	o := &old.row
	if n.freeDiskGB.Valid != o.freeDiskGB.Valid || n.hypervisorType != o.hypervisorType || n.node != o.node || n.hostIP != o.hostIP || n.cpuInfo != o.cpuInfo ||
		n.supportedInstances != o.supportedInstances || n.metrics != o.metrics || n.numaTopology != o.numaTopology || n.stats != o.stats || n.pciStats != o.pciStats {
		return nil
	}
	return old.host.Facts
}

// convert makes a node from a changed row. Its host only has the row's own data: see join.
func (r *Reader) convert(row nodeRow, revision uint64, old *tracked) *node {
	n := &node{row: row, revision: revision}
	if n.why = r.unusable(&n.row); n.why != nil {
		n.row.dropTexts()
		return n
	}
	host, err := nova.HostFromRows(&nova.ComputeNode{
		UUID: row.uuid.String, Host: row.host.String, HypervisorHostname: row.node.String,
		VCPUs: row.vcpus, VCPUsUsed: row.vcpusUsed, MemoryMB: row.memoryMB, FreeRAMMB: row.freeRAMMB.Int64,
		LocalGB: row.localGB, LocalGBUsed: row.localGBUsed,
		FreeDiskGB: integer(row.freeDiskGB), DiskAvailableLeast: integer(row.diskAvailableLeast),
		CPUAllocationRatio: number(row.cpuRatio), RAMAllocationRatio: number(row.ramRatio), DiskAllocationRatio: number(row.diskRatio),
		HypervisorType: row.hypervisorType, HypervisorVersion: row.hypervisorVersion, HostIP: row.hostIP.String,
		CPUInfo: row.cpuInfo, SupportedInstances: row.supportedInstances.String, Metrics: row.metrics.String,
		NUMATopology: row.numaTopology.String, Stats: optionalText(row.stats), PCIStats: optionalText(row.pciStats), Facts: row.factsOf(old),
	}, &nova.Service{}, nil, time.Time{}, r.options)
	if err != nil {
		n.why = row.leave(BadUUID, "uuid", "%v", err)
		return n
	}
	n.host = host
	if !r.conf.KeepUnreadable {
		n.why = row.unreadable(host.Facts)
	}
	if n.why == nil && r.conf.Importable != nil {
		if column, problem := r.conf.Importable(&n.host); problem != "" {
			n.why = row.leave(NotImportable, column, "%s", problem)
		}
	}
	return n
}

// unusable gives the reason why a row cannot be a host in any mode.
func (r *Reader) unusable(n *nodeRow) *LeftOut {
	_, err := schedule.ParseID(n.uuid.String)
	switch {
	case err != nil:
		return n.leave(BadUUID, "uuid", "%q is no uuid", n.uuid.String)
	case n.node.String == "":
		return n.leave(NoNode, "hypervisor_hostname", "is NULL or empty")
	case n.freeDiskGB.Valid && !n.freeRAMMB.Valid:
		return n.leave(NullColumn, "free_ram_mb", "is NULL")
	case !finite(n.cpuRatio) || !finite(n.ramRatio) || !finite(n.diskRatio):
		return n.leave(Unreadable, "cpu_allocation_ratio, ram_allocation_ratio, disk_allocation_ratio", "one is not finite")
	case r.conf.KeepUnreadable:
		return nil
	case n.vcpus < 0:
		return n.leave(NegativeTotal, "vcpus", "is %d", n.vcpus)
	case n.memoryMB < 0:
		return n.leave(NegativeTotal, "memory_mb", "is %d", n.memoryMB)
	case n.localGB < 0:
		return n.leave(NegativeTotal, "local_gb", "is %d", n.localGB)
	case !n.freeDiskGB.Valid:
		return n.leave(NotReported, "free_disk_gb", "is NULL: the compute has not reported yet")
	}
	return nil
}

// unreadable gives the reason why Nova would fail on the row.
func (n *nodeRow) unreadable(f *schedule.Facts) *LeftOut {
	for _, c := range []struct {
		column string
		null   bool
	}{
		{"stats", n.stats.String == ""},
		{"supported_instances", n.supportedInstances.String == ""},
		{"metrics", false},
		{"numa_topology", false},
		{"pci_stats", false},
		{"host_ip", false},
	} {
		exception, failed := f.Failed[c.column]
		switch {
		case failed && c.null:
			return n.leave(NullColumn, c.column, "is NULL or empty")
		case failed:
			return n.leave(Unreadable, c.column, "%s", exception)
		}
	}
	return nil
}

func (n *nodeRow) leave(why Reason, column, format string, args ...any) *LeftOut {
	return &LeftOut{
		NodeID: n.id, UUID: n.uuid.String, Host: n.host.String, Node: n.node.String,
		Reason: why, Column: column, Detail: cut(fmt.Sprintf(format, args...)),
	}
}

// cut shortens details, which may quote a row.
func cut(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + " …"
}

// dropTexts frees texts that are not read any more.
func (n *nodeRow) dropTexts() {
	n.hypervisorType, n.cpuInfo = "", ""
	n.supportedInstances, n.metrics, n.numaTopology = sql.NullString{}, sql.NullString{}, sql.NullString{}
	n.stats, n.pciStats = sql.NullString{}, sql.NullString{}
}

func finite(f sql.NullFloat64) bool { return !math.IsNaN(f.Float64) && !math.IsInf(f.Float64, 0) }

func integer(n sql.NullInt64) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

func optionalText(s sql.NullString) *string {
	if !s.Valid {
		return nil
	}
	return &s.String
}

func number(f sql.NullFloat64) *float64 {
	if !f.Valid {
		return nil
	}
	return &f.Float64
}
