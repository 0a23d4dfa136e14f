package comparison

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/proposals"
	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

func hostUUID(i int) string { return legacytest.FleetUUID(legacytest.FleetFirst + i) }
func hostName(i int) string { return legacytest.FleetHost(legacytest.FleetFirst + i) }

// tables are Nova's tables of a cloud. The computes write them.
type tables struct {
	cell   *legacytest.Database
	reader *novadb.Reader
}

// newTables creates the tables. Each compute writes its changes to them, as Nova's resource tracker
// does.
func newTables(t *testing.T, w *cloud, server legacytest.Server) *tables {
	t.Helper()
	cell, api, _ := legacytest.Fleet(t, server, len(w.computes))
	cell.Exec(t, fmt.Sprintf(`UPDATE compute_nodes SET vcpus = %d, memory_mb = %d, local_gb = %d, disk_available_least = NULL,
		cpu_allocation_ratio = 1, ram_allocation_ratio = 1, disk_allocation_ratio = 1`, size.vcpus, size.memoryMB, size.diskGB))
	var set []string
	for i, column := range []string{"vcpus_used", "memory_mb_used", "local_gb_used", "free_ram_mb", "free_disk_gb", "updated_at"} {
		set = append(set, column+" = "+cell.Mark(i+1))
	}
	update := "UPDATE compute_nodes SET " + strings.Join(set, ", ") + " WHERE id = " + cell.Mark(7)
	for _, c := range w.computes {
		c.onChange = func(c *compute) {
			free := size.minus(c.used)
			if _, err := cell.DB.Exec(update, c.used.vcpus, c.used.memoryMB, c.used.diskGB, free.memoryMB, free.diskGB,
				time.Now().UTC(), legacytest.FleetFirst+c.n); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		c.onChange(c)
	}
	r, err := novadb.Open(t.Context(), novadb.Config{
		Cell: "cell1", Database: novadb.Database{URL: cell.URL}, API: novadb.Database{URL: api.URL},
		QueryTimeout: time.Minute, LoadTimeout: 5 * time.Minute, Connections: 16, PageSize: 200_000, ServiceDownTime: 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return &tables{cell: cell, reader: r}
}

// load reads all rows into a new table of hosts.
func (x *tables) load(ctx context.Context) (*schedule.Table, error) {
	rows, err := x.reader.Load(ctx)
	if err != nil {
		return nil, err
	}
	e := schedule.NewTable().Edit()
	for i := range rows.Hosts {
		e.PutHost(withResources(rows.Hosts[i].Host))
	}
	return e.Table(), nil
}

// withResources returns a host of the tables with its inventories. Their allocation ratios are 1
// here.
func withResources(h schedule.Host) schedule.Host {
	v := &h.View
	h.Resources = nil
	for _, r := range []struct {
		class       string
		total, used int64
	}{
		{"VCPU", v.VCPUsTotal, v.VCPUsUsed}, {"MEMORY_MB", v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB}, {"DISK_GB", v.TotalDiskGB, v.TotalDiskGB - v.FreeDiskMB/1024},
	} {
		h.Resources = append(h.Resources, schedule.Resource{Class: r.class, Capacity: r.total, Used: r.used, MinUnit: 1, MaxUnit: max(r.total, 1), StepSize: 1})
	}
	return h
}

// proposeFrom answers a batch from a table.
func proposeFrom(ctx context.Context, t *schedule.Table, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	out := &cellv1.ProposeBatchResponse{}
	for _, q := range req.GetQueries() {
		p, _, err := proposals.NewShapes().Propose(ctx, nil, proposals.Version{Table: t}, "", q)
		if err != nil {
			return nil, err
		}
		out.Proposals = append(out.Proposals, p)
	}
	return out, nil
}

// best returns the best host, except those that refused the instance.
func best(ctx context.Context, s cellv1.CellSchedulerClient, instance string, f flavor, tried []string) (string, error) {
	q := wiretest.Query(&schedule.Query{
		Seed: seedOf(instance), Limit: 1, Rules: &schedule.Rules{DefaultAvailabilityZone: "nova"},
		Request: &schedule.Request{
			Resources:   []schedule.Amount{{Class: "VCPU", N: f.vcpus}, {Class: "MEMORY_MB", N: f.memoryMB}, {Class: "DISK_GB", N: f.diskGB}},
			IgnoreHosts: tried, Consume: schedule.Consumption{VCPUs: f.vcpus, RAMMB: f.memoryMB, DiskMB: f.diskGB * 1024},
		},
	}, "", nil)
	out, err := s.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
	if err != nil {
		return "", err
	}
	p := out.GetProposals()[0]
	if failed := p.GetFailure(); failed != nil {
		return "", errors.New(failed.GetMessage())
	}
	got, err := wiretest.Proposal(p)
	if err != nil {
		return "", err
	}
	if len(got.Candidates) == 0 {
		return "", errNoHost
	}
	return got.Candidates[0].Host.String(), nil
}

// seedOf returns an instance's seed, which is the same for all three schedulers.
func seedOf(instance string) uint64 {
	var n uint64
	for _, b := range []byte(instance) {
		n = n*31 + uint64(b)
	}
	return n
}

// readsAll reads all rows for each request.
type readsAll struct{ client cellv1.CellSchedulerClient }

func newReadsAll(t *testing.T, x *tables) model {
	t.Helper()
	return readsAll{dialScheduler(t, &scheduler{propose: func(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
		t, err := x.load(ctx)
		if err != nil {
			return nil, err
		}
		return proposeFrom(ctx, t, req)
	}})}
}

func (m readsAll) choose(ctx context.Context, instance string, f flavor, tried []string) (string, error) {
	return best(ctx, m.client, instance, f, tried)
}

func (readsAll) gone(context.Context, string) error { return nil }

// readsRarely is a model that reads all rows at intervals, and deducts its choices from its own
// copy in between. Like Nova's caching scheduler, it does not learn of refusals or ended instances.
type readsRarely struct {
	*tables
	client cellv1.CellSchedulerClient
	// mu allows one choice at a time: Nova's scheduler has one thread, and each choice affects the
	// next.
	mu sync.Mutex
	// table is the copy from which choices are deducted.
	table *schedule.Table
}

func newReadsRarely(t *testing.T, x *tables, every time.Duration) model {
	t.Helper()
	m := &readsRarely{tables: x}
	must(t, m.refresh(t.Context()))
	m.client = dialScheduler(t, &scheduler{propose: m.propose})
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := m.refresh(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("refresh: %v", err)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return m
}

// refresh reads all rows. They contain the earlier choices that were built; the others never took
// effect.
func (m *readsRarely) refresh(ctx context.Context) error {
	table, err := m.load(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table = table
	return nil
}

func (m *readsRarely) propose(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out, err := proposeFrom(ctx, m.table, req)
	if err != nil || len(wiretest.Hosts(out.GetProposals()[0])) == 0 {
		return out, err
	}
	var asked cellv1.Placement
	if err := proto.Unmarshal(req.GetQueries()[0].GetPlacement(), &asked); err != nil {
		return nil, err
	}
	id, err := schedule.ParseID(wiretest.Hosts(out.GetProposals()[0])[0])
	if err != nil {
		return nil, err
	}
	h, _ := m.table.Host(id)
	for _, a := range asked.GetResources() {
		switch a.GetResourceClass() {
		case "VCPU":
			h.View.VCPUsUsed += int64(a.GetAmount())
		case "MEMORY_MB":
			h.View.FreeRAMMB -= int64(a.GetAmount())
		case "DISK_GB":
			h.View.FreeDiskMB -= 1024 * int64(a.GetAmount())
			h.View.DiskUsedMB += 1024 * int64(a.GetAmount())
		}
	}
	h.View.NumInstances++
	h.View.NumIOOps++
	e := m.table.Edit()
	e.PutHost(withResources(h))
	m.table = e.Table()
	return out, nil
}

func (m *readsRarely) choose(ctx context.Context, instance string, f flavor, tried []string) (string, error) {
	return best(ctx, m.client, instance, f, tried)
}

func (*readsRarely) gone(context.Context, string) error { return nil }
