package importer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// The resource classes in the rows.
const (
	vcpu     = "VCPU"
	memoryMB = "MEMORY_MB"
	diskGB   = "DISK_GB"
)

// bootID gives the boot_id of all imports of a cell.
func bootID(cell string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("cellgate:import:"+cell)).String()
}

// stateOf makes the report of a host, without a version, or gives the reason why it cannot.
// former: another host may hold its instances, so everything in use is unaccounted for.
func (m *Importer) stateOf(h *novadb.Host, service *novadb.Service, on []*instance, former bool) (*agentv1.FullState, *LeftOut) {
	s, bad := stateOf(m.conf.Cell, m.boot, h, service, on, former)
	if bad != nil {
		return nil, &LeftOut{UUID: h.UUID.String(), Host: h.ServiceHost, Reason: BadHost, Detail: strings.TrimSpace(bad.column + " " + bad.problem)}
	}
	return s, nil
}

// unfit is why a host cannot be one of a cell's.
type unfit struct{ column, problem string }

// mostRatio is the greatest allocation ratio that a cell accepts. A greater one counts as
// mostRatio: neither limits anything.
const mostRatio = 100_000

func stateOf(cell, boot string, h *novadb.Host, service *novadb.Service, on []*instance, former bool) (*agentv1.FullState, *unfit) {
	id, v := h.UUID.String(), &h.View
	diskUsed := v.DiskUsedMB / 1024
	disks := fitting(on, diskUsed)
	var cpu, memory, disk int64
	for k, i := range on {
		cpu, memory, disk = cpu+int64(i.vcpus), memory+int64(i.memoryMB), disk+int64(disks[k])
	}
	if former {
		cpu, memory, disk = 0, 0, 0
	}
	root := &agentv1.Provider{Uuid: id, Name: h.NodeName}
	for _, c := range []struct {
		class             string
		total, used, held int64
		of                string
		ratio             float64
		ratioOf           string
	}{
		{vcpu, v.VCPUsTotal, v.VCPUsUsed, cpu, "vcpus", v.CPURatio, "cpu_allocation_ratio"},
		{memoryMB, v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB, memory, "memory_mb", v.RAMRatio, "ram_allocation_ratio"},
		{diskGB, v.TotalDiskGB, diskUsed, disk, "local_gb", v.DiskRatio, "disk_allocation_ratio"},
	} {
		if c.total > math.MaxInt32 {
			return nil, &unfit{c.of, fmt.Sprintf("is %d", c.total)}
		}
		if c.ratio = min(c.ratio, mostRatio); !(c.ratio > 0) {
			return nil, &unfit{c.ratioOf, fmt.Sprintf("is %v", c.ratio)}
		}
		if float64(c.total)*c.ratio > math.MaxInt32 {
			c.ratio = math.MaxInt32 / float64(c.total+1) // a cell refuses a greater capacity, which limits nothing either
		}
		root.Inventories = append(root.Inventories, &agentv1.Inventory{
			ResourceClass: c.class, Total: int32(c.total), AllocationRatio: c.ratio, Unaccounted: int32(max(0, min(c.used-c.held, math.MaxInt32))),
		})
	}
	// Filled only affects weighing: Placement does not know measured use.
	filled := v.TotalDiskGB - floorGB(v.FreeDiskMB) - max(diskUsed, disk)
	root.Inventories[2].Filled = int32(max(0, min(filled, math.MaxInt32)))
	s := &agentv1.FullState{
		Cell: cell, BootId: boot, HostUuid: id, ServiceHost: h.ServiceHost, Nodename: h.NodeName,
		Disabled: h.Disabled, Providers: []*agentv1.Provider{root}, Aggregates: aggregates(h.Aggregates),
		IoWorkload: within(v.NumIOOps), FailedBuilds: within(v.FailedBuilds), HypervisorVersion: within(v.HypervisorVersion),
	}
	if h.Disabled && service != nil {
		s.DisabledReason = cut(service.DisabledReason, 255)
	}
	if f := h.Facts; f != nil {
		s.HypervisorType, s.HostIp = f.HypervisorType, f.HostIP
		s.Facts = &agentv1.Facts{
			CpuInfo: f.CPUInfo, SupportedInstances: f.SupportedInstances, Stats: f.Stats, Metrics: f.Metrics,
			NumaTopology: f.NUMATopology, PciStats: f.PCIPools,
		}
	}
	s.Instances = instances(id, on, disks)
	if err := valid(s); err != nil {
		return nil, unfitField(err)
	}
	return s, nil
}

// Importable gives the problem because of which a cell would not take a host, and the column
// of compute_nodes that causes it; column may be empty. The problem is empty if a cell would
// take the host. It is for novadb.Config: the host's service and aggregates need not be set
// yet.
func Importable(h *schedule.Host) (column, problem string) {
	row := novadb.Host{Host: *h}
	if row.ServiceHost == "" {
		row.ServiceHost = row.NodeName // a row from before Kilo has its service's
	}
	s, bad := stateOf("cell", bootID("cell"), &row, nil, nil, false)
	if bad != nil {
		return bad.column, bad.problem
	}
	f := s.GetFacts()
	for _, c := range [...]struct{ column, text string }{
		{"host", s.GetServiceHost()},
		{"hypervisor_hostname", s.GetNodename()},
		{"hypervisor_type", s.GetHypervisorType()},
		{"cpu_info", f.GetCpuInfo()},
		{"supported_instances", f.GetSupportedInstances()},
		{"stats", f.GetStats()},
		{"metrics", f.GetMetrics()},
		{"numa_topology", f.GetNumaTopology()},
		{"pci_stats", f.GetPciStats()},
	} {
		if strings.IndexByte(c.text, 0) >= 0 || !utf8.ValidString(c.text) {
			return c.column, "has a NUL, or is not UTF-8"
		}
	}
	return "", ""
}

// unfitField gives the column of compute_nodes for the first wrong field of a state; it is
// empty if the field has none.
func unfitField(err error) *unfit {
	var f *fault.Error
	if errors.As(err, &f) && len(f.Fields) > 0 {
		first := f.Fields[0]
		column, isFact := strings.CutPrefix(first.Path, "facts.")
		switch first.Path {
		case "service_host":
			return &unfit{"host", first.Problem}
		case "nodename":
			return &unfit{"hypervisor_hostname", first.Problem}
		}
		if isFact || column == "hypervisor_type" || column == "host_ip" {
			return &unfit{column, first.Problem}
		}
	}
	return &unfit{"", problems(err)}
}

// floorGB rounds down, also for negative numbers.
func floorGB(mb int64) int64 { return int64(math.Floor(float64(mb) / 1024)) }

func within(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) }

// cut bounds a text to most characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most])
}

func aggregates(in []schedule.Aggregate) []*agentv1.Aggregate {
	out := make([]*agentv1.Aggregate, 0, len(in))
	for _, a := range in {
		out = append(out, &agentv1.Aggregate{Uuid: a.UUID, Name: a.Name, Metadata: a.Metadata})
	}
	return out
}

// fitting sorts instances by uuid, and gives the disk that each holds, where the host's row
// has used GB of disk in use. Each holds what its own row has, but together they hold at most
// used. The excess consists of root disks of instances that boot from a volume. No row tells
// which instances these are, so fitting reduces the root disks of the first ones, and
// ephemeral disks if that is not enough.
func fitting(on []*instance, used int64) []int32 {
	slices.SortFunc(on, func(a, b *instance) int { return slices.Compare(a.uuid[:], b.uuid[:]) })
	out, beyond := make([]int32, len(on)), -max(used, 0)
	for k, i := range on {
		out[k] = i.gb
		beyond += int64(i.gb)
	}
	for _, part := range []func(*instance) int32{
		func(i *instance) int32 { return i.rootGB },
		func(i *instance) int32 { return i.gb - i.rootGB },
	} {
		for k := 0; k < len(on) && beyond > 0; k++ {
			less := min(beyond, int64(part(on[k])))
			out[k], beyond = out[k]-int32(less), beyond-less
		}
	}
	return out
}

// instances gives a host's instances in the form of a report, each with the disk that it holds.
func instances(provider string, on []*instance, disks []int32) []*agentv1.Instance {
	out := make([]*agentv1.Instance, len(on))
	for k, i := range on {
		in := &agentv1.Instance{InstanceUuid: i.uuid.String(), ProjectId: i.project, UserId: i.user}
		for _, u := range []struct {
			class string
			n     int32
		}{{vcpu, i.vcpus}, {memoryMB, i.memoryMB}, {diskGB, disks[k]}} {
			if u.n > 0 {
				in.Usages = append(in.Usages, &agentv1.Usage{ProviderUuid: provider, ResourceClass: u.class, Amount: u.n})
			}
		}
		out[k] = in
	}
	return out
}

// valid checks a state as the cell will: the cell would refuse the whole batch of a wrong
// one.
func valid(s *agentv1.FullState) error {
	s.Version = 1
	err := rpc.Validate(s)
	s.Version = 0
	return err
}

// problems gives the wrong fields in one line.
func problems(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) == 0 {
		return cut(err.Error(), 200)
	}
	var all []string
	for _, p := range f.Fields {
		all = append(all, p.Path+": "+p.Problem)
	}
	return cut(strings.Join(all, "; "), 200)
}

// digest is the hash of a state without its version.
type digest [16]byte

func digestOf(s *agentv1.FullState) (digest, error) {
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return digest{}, err
	}
	sum := sha256.Sum256(raw)
	return digest(sum[:16]), nil
}
