package standin

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/importer"
	"cellgate/gateway/legacy"
	"cellgate/internal/celltest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// realCell is a cell with its shard in memory, filled by the importer.
type realCell struct {
	testing.TB
	cellv1.CellSchedulerClient
	reports agentv1.HostReportsClient
}

func newCell(t testing.TB) *realCell {
	t.Helper()
	c := celltest.Start(t, cellName, cellUUID)
	return &realCell{TB: t, CellSchedulerClient: c.Scheduler, reports: c.Reports}
}

// agents has the agents of imported hosts say what was imported, since an imported host
// is down.
func (c *realCell) agents(states []*agentv1.FullState) {
	c.Helper()
	for _, s := range states {
		s = proto.CloneOf(s)
		s.AgentVersion = 1
		ctx, cancel := context.WithCancel(c.Context())
		defer cancel()
		stream, err := c.reports.Report(ctx)
		if err == nil {
			err = stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}})
		}
		if err != nil {
			c.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || answer.GetAccepted() == nil {
			c.Fatalf("host %s: %v, %v", s.GetServiceHost(), answer, err)
		}
	}
}

// recorder is the cell; it keeps the newest state that was imported of each host.
type recorder struct {
	*realCell
	states map[string]*agentv1.FullState
}

func (r *recorder) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, opts ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	for _, h := range in.GetHosts() {
		r.states[h.GetState().GetHostUuid()] = h.GetState()
	}
	return r.CellSchedulerClient.ImportHosts(ctx, in, opts...)
}

// listed is what the shard has of hosts and claims, but for who says it and when.
func (c *realCell) listed() (all []proto.Message) {
	c.Helper()
	hosts, err := c.ListHosts(c.Context(), &cellv1.ListHostsRequest{PageSize: 1000})
	if err != nil {
		c.Fatal(err)
	}
	claims, err := c.ListClaims(c.Context(), &cellv1.ListClaimsRequest{PageSize: 1000})
	if err != nil || hosts.GetMore() || claims.GetMore() {
		c.Fatal(err, "or not all are listed")
	}
	for _, h := range hosts.GetHosts() {
		h.Imported, h.AgentVersion, h.Up, h.LastSeenAt, h.Generation = false, 0, false, nil, 0
		all = append(all, h)
	}
	for _, k := range claims.GetClaims() {
		all = append(all, k)
	}
	return all
}

// fill imports the world's rows. Its agents say the same then: nothing of what was
// imported is another for that.
func (c *realCell) fill(w *world) {
	c.Helper()
	m, err := importer.New(importer.Config{Cell: cellName, Rows: &instances{rows: w.instances(), at: w.at}})
	if err != nil {
		c.Fatal(err)
	}
	to := &recorder{c, map[string]*agentv1.FullState{}}
	adopted := 0
	for waiting := true; waiting; {
		r, err := m.Step(c.Context(), w.snapshot(), to)
		if err != nil || len(r.LeftOut)+r.Refused+r.LeftToAgents+r.Conflicts > 0 {
			c.Fatalf("%+v, %v", r, err)
		}
		adopted += r.Adopted
		waiting = r.Waiting > 0
	}
	if want := len(w.instances()); adopted != want {
		c.Fatalf("%d of %d instances were adopted", adopted, want)
	}
	before := c.listed()
	c.agents(slices.Collect(maps.Values(to.states)))
	after := c.listed()
	if len(before) != len(after) {
		c.Fatalf("%d hosts and claims were imported, %d are there when agents say the same", len(before), len(after))
	}
	for n := range before {
		if !proto.Equal(before[n], after[n]) {
			c.Fatalf("imported: %v\nby its agent: %v", before[n], after[n])
		}
	}
}

// claim claims for an hour, and reports whether the shard took it.
func (c *realCell) claim(in *cellv1.NewClaim) bool {
	c.Helper()
	in.Ttl = durationpb.New(time.Hour)
	out, err := c.ClaimBatch(c.Context(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{{Op: &cellv1.ClaimOp_Claim{Claim: in}}}})
	if err != nil {
		c.Fatal(err)
	}
	return out.GetOutcomes()[0].GetRefusal() == nil
}

// instances are the rows of a table.
type instances struct {
	rows []legacy.Instance
	at   time.Time
}

func (i *instances) Instances(context.Context, legacy.InstancePoint) iter.Seq2[*legacy.InstancePage, error] {
	return func(yield func(*legacy.InstancePage, error) bool) {
		yield(&legacy.InstancePage{Instances: i.rows, At: i.at, Last: int64(len(i.rows))}, nil)
	}
}

func (i *instances) InstancesOn(_ context.Context, host string, _ int64) (*legacy.InstancePage, error) {
	p := &legacy.InstancePage{At: i.at}
	for _, r := range i.rows {
		if r.Host == host {
			p.Instances = append(p.Instances, r)
		}
	}
	return p, nil
}

// instances gives the rows of the world's.
func (w *world) instances() (out []legacy.Instance) {
	for n := range len(w.rows) {
		for _, i := range w.rows[n].on {
			i.ID = int64(len(out) + 1)
			out = append(out, i)
		}
	}
	return out
}

// place puts a new instance on host n, and into its row.
func (w *world) place(n int, vcpus, memory, disk int64) {
	w.placed++
	r := w.change(n)
	r.on = append(r.on, legacy.Instance{
		UUID: schedule.ID{0xcd, 14: byte(w.placed >> 8), 15: byte(w.placed)}.String(), Host: r.Host, Node: r.HypervisorHostname,
		VCPUs: vcpus, MemoryMB: memory, RootGB: disk, Project: "p", User: "u", VMState: "active",
		CreatedAt: w.at.Add(-time.Hour), UpdatedAt: w.at.Add(-time.Hour),
	})
	w.use(n, vcpus, memory, disk)
	stats := fmt.Sprintf(`{"num_instances": "%d", "io_workload": "%d", "failed_builds": "%d"}`, len(r.on), n%3, n%2)
	r.Stats = &stats
}

// use adds to what the row has in use.
func (w *world) use(n int, vcpus, memory, disk int64) {
	r := w.change(n)
	r.VCPUsUsed += vcpus
	r.FreeRAMMB -= memory
	r.LocalGBUsed += disk
	free := *r.FreeDiskGB - disk
	r.FreeDiskGB = &free
}

// find looks the world's instances up.
func (w *world) find(_ context.Context, ids []schedule.ID) (out []legacy.Instance, err error) {
	for _, i := range w.instances() {
		if id, err := schedule.ParseID(i.UUID); err == nil && slices.Contains(ids, id) {
			out = append(out, i)
		}
	}
	return out, nil
}
