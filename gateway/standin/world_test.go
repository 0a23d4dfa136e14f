package standin

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

const (
	cellName = "cell1"
	cellUUID = "c0000000-0000-4000-8000-000000000001"
	downTime = time.Minute
)

func hostID(n int) schedule.ID     { return schedule.ID{0xaa, 14: byte(n >> 8), 15: byte(n)} }
func instanceID(n int) schedule.ID { return schedule.ID{0xcc, 14: byte(n >> 8), 15: byte(n)} }
func service(n int) string         { return fmt.Sprintf("host%d", n) }

// world is a cell's rows, and a stand-in that is told of them.
type world struct {
	testing.TB
	*Standin
	rng *rand.Rand
	// at is the time, of the server and of everybody.
	at   time.Time
	rows map[int]*row
	// aggregates by service host.
	aggregates map[string][]schedule.Aggregate
	zone       string
	revision   uint64
	// placed are the instances that were ever placed.
	placed int
}

// row is a compute_nodes row and its service.
type row struct {
	nova.ComputeNode
	service legacy.Service
	// on are the rows of its instances.
	on []legacy.Instance
	// gone: the row is deleted.
	gone     bool
	revision uint64
}

func newWorld(t testing.TB, hosts int, change ...func(*Config)) *world {
	t.Helper()
	w := &world{
		TB: t, rng: rand.New(rand.NewPCG(1, 2)), at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		rows: map[int]*row{}, aggregates: map[string][]schedule.Aggregate{},
	}
	cfg := Config{Cell: cellName, CellUUID: cellUUID, Now: func() time.Time { return w.at }}
	for _, f := range change {
		f(&cfg)
	}
	w.Standin = New(cfg)
	for n := range hosts {
		w.add(n)
	}
	return w
}

// add makes host n anew, empty.
func (w *world) add(n int) *row {
	stats, pci, free := `{"num_instances": "0", "io_workload": "0", "failed_builds": "0"}`, "[]", int64(1000)
	w.revision++
	r := &row{
		ComputeNode: nova.ComputeNode{
			UUID: hostID(n).String(), Host: service(n), HypervisorHostname: service(n) + ".example", CellUUID: cellUUID,
			VCPUs: 16, MemoryMB: 65536, FreeRAMMB: 65536, LocalGB: free, FreeDiskGB: &free,
			HypervisorType: "QEMU", HypervisorVersion: 6002000, HostIP: fmt.Sprintf("10.0.%d.%d", n/250, n%250+1),
			CPUInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["x86_64", "kvm", "hvm"]]`, Metrics: "[]", Stats: &stats, PCIStats: &pci,
		},
		service:  legacy.Service{ID: int64(n + 1), Host: service(n), Version: 40, LastSeenUp: w.at, CreatedAt: w.at},
		revision: w.revision,
	}
	w.rows[n] = r
	return r
}

// change notes that a row is another.
func (w *world) change(n int) *row {
	w.revision++
	r := w.rows[n]
	r.revision = w.revision
	return r
}

// snapshot reads the rows.
func (w *world) snapshot() *legacy.Snapshot {
	w.Helper()
	var hosts []legacy.Host
	var services []legacy.Service
	for n := range 2000 {
		r := w.rows[n]
		if r == nil || r.gone {
			continue
		}
		s := nova.Service{Disabled: r.service.Disabled, ForcedDown: r.service.ForcedDown, LastSeenUp: &r.service.LastSeenUp}
		h, err := nova.HostFromRows(&r.ComputeNode, &s, w.aggregates[r.Host], w.at, nova.RowOptions{
			ServiceDownTime: downTime, CPUAllocationRatio: 4, RAMAllocationRatio: 1, DiskAllocationRatio: 1,
		})
		if err != nil {
			w.Fatal(err)
		}
		hosts = append(hosts, legacy.Host{Host: h, NodeID: int64(n + 1), ServiceID: r.service.ID, Revision: r.revision})
		services = append(services, r.service)
	}
	return legacy.Compose(cellName, cellUUID, w.at, downTime, hosts, services)
}

// update reads the rows and tells the stand-in, with claims that are awaited now.
func (w *world) update(awaited ...*cellv1.AwaitedClaim) {
	w.Helper()
	w.Update(w.snapshot(), w.at, awaited, w.at)
}

// ask asks one query.
func (w *world) ask(q *schedule.Query) *schedule.Proposal {
	w.Helper()
	return w.askAt(q, "")
}

func (w *world) askAt(q *schedule.Query, version string) *schedule.Proposal {
	w.Helper()
	p, err := wiretest.Proposal(w.raw(wiretest.Query(q, version, nil)))
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) raw(q *cellv1.Query) *cellv1.Proposal {
	w.Helper()
	out, err := w.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
	if err != nil {
		w.Fatal(err)
	}
	return out.GetProposals()[0]
}

// used is what the newest table has in use of a host.
func (w *world) used(n int, class string) int64 {
	w.Helper()
	h, ok := w.versions.Current().Host(hostID(n))
	if !ok {
		w.Fatalf("there is no host %d", n)
	}
	for _, r := range h.Resources {
		if r.Class == class {
			return r.Used
		}
	}
	w.Fatalf("host %d has no %s", n, class)
	return 0
}

func allocations(host int, vcpus, memory, disk int32) (out []*cellgatev1.Allocation) {
	for _, a := range []*cellgatev1.Allocation{
		{ResourceClass: vcpu, Amount: vcpus},
		{ResourceClass: memoryMB, Amount: memory},
		{ResourceClass: diskGB, Amount: disk},
	} {
		if a.GetAmount() > 0 {
			a.ProviderUuid = hostID(host).String()
			out = append(out, a)
		}
	}
	return out
}

func allocation(host string, a schedule.Amount) *cellgatev1.Allocation {
	return &cellgatev1.Allocation{ProviderUuid: host, ResourceClass: a.Class, Amount: int32(a.N)}
}

// newClaim is one of instance n, of n%4+1 CPUs and as many GiB.
func newClaim(n, host int) *cellv1.NewClaim {
	size := int32(n%4 + 1)
	return &cellv1.NewClaim{
		ClaimId: fmt.Sprint("claim-", n), ConsumerUuid: instanceID(n).String(), HostUuid: hostID(host).String(),
		Allocations: allocations(host, size, 1024*size, 10*size),
	}
}

// awaitedOf is how a cell lists a claim.
func awaitedOf(c *cellv1.NewClaim) *cellv1.AwaitedClaim {
	return &cellv1.AwaitedClaim{ClaimId: c.GetClaimId(), ConsumerUuid: c.GetConsumerUuid(), HostUuid: c.GetHostUuid(), Allocations: c.GetAllocations()}
}

// plain asks for room.
func plain(vcpus int64) *schedule.Query {
	return &schedule.Query{
		Limit: 100, Rules: &schedule.Rules{Weighers: schedule.PackWeighers()},
		Request: &schedule.Request{Resources: []schedule.Amount{{Class: vcpu, N: vcpus}}, Consume: schedule.Consumption{VCPUs: vcpus}},
	}
}
