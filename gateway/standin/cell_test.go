package standin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell"
	"cellgate/gateway/importer"
	"cellgate/gateway/legacy"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard/pebbleshard"
)

// realCell is a cell with its shard in memory, filled by the importer.
type realCell struct {
	testing.TB
	cellv1.CellSchedulerClient
	reports agentv1.HostReportsClient
}

func newCell(t testing.TB) *realCell {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: cellName, CellUUID: cellUUID, Log: log})
	check(err)
	c, err := cell.New(cell.Config{Name: cellName, UUID: cellUUID, Replica: "r1", ServiceDownTime: time.Hour}, cell.Deps{Store: store, Log: log})
	check(err)
	server, l := rpc.NewServer(log, cell.ServerOptions()...), bufconn.Listen(1<<20)
	c.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	go func() { served <- server.Serve(l) }()
	conn, err := rpc.Dial("passthrough:///cell", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	check(err)
	t.Cleanup(func() {
		err := conn.Close()
		server.Stop()
		cancel()
		if err := errors.Join(err, <-served, <-ran, store.Close()); err != nil {
			t.Error(err)
		}
	})
	<-c.Ready()
	return &realCell{TB: t, CellSchedulerClient: cellv1.NewCellSchedulerClient(conn), reports: agentv1.NewHostReportsClient(conn)}
}

// ImportHosts reports the hosts as their agents would.
func (c *realCell) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	out := &cellv1.ImportHostsResponse{}
	for _, h := range in.GetHosts() {
		h.GetState().AgentVersion, h.GetState().Cell = 1, cellName
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.reports.Report(ctx)
		if err == nil {
			err = stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: h.GetState()}})
		}
		if err != nil {
			return nil, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if answer.GetAccepted() == nil {
			return nil, fmt.Errorf("host %s: %v", h.GetState().GetServiceHost(), answer)
		}
		out.Outcomes = append(out.Outcomes, &cellv1.ImportOutcome{})
	}
	return out, nil
}

// fill imports the world's rows.
func (c *realCell) fill(w *world) {
	c.Helper()
	m, err := importer.New(importer.Config{Cell: cellName, Rows: &instances{rows: w.instances(), at: w.at}, Pause: -1})
	if err != nil {
		c.Fatal(err)
	}
	for waiting := true; waiting; {
		r, err := m.Step(c.Context(), w.snapshot(), c)
		if err != nil || len(r.LeftOut)+r.Refused > 0 {
			c.Fatalf("%+v, %v", r, err)
		}
		waiting = r.Waiting > 0
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

func (i *instances) InstancesOn(_ context.Context, host string) (out []legacy.Instance, err error) {
	for _, r := range i.rows {
		if r.Host == host {
			out = append(out, r)
		}
	}
	return out, nil
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
