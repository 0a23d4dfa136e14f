package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

const cellUUID = "f0f0f0f0-0000-4000-8000-000000000001"

// testCell is a running cell behind a real gRPC server.
type testCell struct {
	t         testing.TB
	ran       chan error
	cell      *Cell
	telemetry *telemetry.Process
	cells     cellv1.CellSchedulerClient
	hosts     agentv1.HostReportsClient
	dial      func() (*grpc.ClientConn, error)
	// stop ends the cell and waits. It runs at the end of the test at the latest.
	stop func()
}

// start runs a cell over a store and waits until it is ready.
func start(t testing.TB, store shard.Store, change ...func(*Config)) *testCell {
	t.Helper()
	r := launch(t, store, change...)
	r.await(r.cell.Ready())
	return r
}

// launch is start without the wait.
func launch(t testing.TB, store shard.Store, change ...func(*Config)) *testCell {
	t.Helper()
	return launchLogged(t, store, slog.New(slog.DiscardHandler), change...)
}

func launchLogged(t testing.TB, store shard.Store, log *slog.Logger, change ...func(*Config)) *testCell {
	t.Helper()
	cfg := Config{Name: "cell1", UUID: cellUUID, Replica: "r1"}
	for _, f := range change {
		f(&cfg)
	}
	process, err := telemetry.New(telemetry.Traces{}, telemetry.Build{}, log)
	if err != nil {
		t.Fatal(err)
	}
	tel := process.Cell(cfg.Name, cfg.Replica)
	deps := Deps{Store: store, Log: log, Telemetry: tel}
	if s, ok := store.(interface{ synchronizer() shard.Synchronizer }); ok {
		deps.Synchronizer = s.synchronizer()
	}
	c, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(log, append(ServerOptions(), tel.ServerOptions()...)...)
	c.Register(server)
	listener := bufconn.Listen(1 << 16)
	dial := func() (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///cell", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	}
	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()
	go func() { served <- server.Serve(listener) }()
	stopped := false
	r := &testCell{t: t, dial: dial, ran: ran, cell: c, telemetry: process, cells: cellv1.NewCellSchedulerClient(conn), hosts: agentv1.NewHostReportsClient(conn)}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		// Streams end by themselves; this waits for them.
		server.GracefulStop()
		conn.Close()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // stopped before it served
			t.Errorf("Serve: %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// await waits for a state of the replica, and fails if the replica ends first.
func (r *testCell) await(state <-chan struct{}) {
	r.t.Helper()
	select {
	case <-state:
	case err := <-r.ran:
		r.ran <- err
		r.t.Fatalf("Run ended at the start: %v", err)
	}
}

// testAgent is one host's stream.
type testAgent struct {
	t      testing.TB
	stream agentv1.HostReports_ReportClient
	cancel context.CancelFunc
	last   *agentv1.FullState
}

func (r *testCell) agent() *testAgent {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.t.Cleanup(cancel)
	s, err := r.hosts.Report(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return &testAgent{t: r.t, stream: s, cancel: cancel}
}

// report sends a state and gives the answer.
func (a *testAgent) report(s *agentv1.FullState) *agentv1.ReportResponse {
	a.t.Helper()
	a.last = s
	if err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: s}}); err != nil {
		a.t.Fatal(err)
	}
	m, err := a.stream.Recv()
	if err != nil {
		a.t.Fatal(err)
	}
	return m
}

func (a *testAgent) heartbeat() {
	a.t.Helper()
	err := a.stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Heartbeat{
		Heartbeat: &agentv1.Heartbeat{BootId: a.last.GetBootId(), Version: a.last.GetVersion()},
	}})
	if err != nil {
		a.t.Fatal(err)
	}
}

// register opens a host's stream and gets its state accepted. If the row is of another incarnation,
// it answers the Resync first.
func (r *testCell) register(s *agentv1.FullState) *testAgent {
	r.t.Helper()
	a := r.agent()
	m := a.report(s)
	if q := m.GetResync(); q != nil {
		m = a.report(resaid(s, q))
	}
	if m.GetAccepted() == nil {
		r.t.Fatalf("the state was not accepted: %v", m)
	}
	return a
}

// resaid returns a state as the answer to a Resync.
func resaid(s *agentv1.FullState, q *agentv1.Resync) *agentv1.FullState {
	s = proto.CloneOf(s)
	s.Epoch = q.GetEpoch()
	return s
}

// plainState is a host with VCPU, MEMORY_MB and DISK_GB and nothing else.
func plainState(n int, vcpus int32) *agentv1.FullState {
	uuid := hostUUID(n)
	service := fmt.Sprintf("host-%05d", n)
	return &agentv1.FullState{
		Cell:   "cell1",
		BootId: bootA, Version: 1, AgentVersion: 1, HostUuid: uuid, ServiceHost: service, Nodename: service,
		Providers: []*agentv1.Provider{{Uuid: uuid, Inventories: []*agentv1.Inventory{
			{ResourceClass: "VCPU", Total: vcpus, AllocationRatio: 1},
			{ResourceClass: "MEMORY_MB", Total: 1 << 20, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Total: 1 << 20, AllocationRatio: 1},
		}}},
	}
}

func hostUUID(n int) string     { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n) }
func consumerUUID(n int) string { return fmt.Sprintf("cccccccc-0000-4000-8000-%012d", n) }

// query asks for hosts with a VCPU count.
func query(vcpus int32) *cellv1.Query {
	return &cellv1.Query{Limit: 10, Seed: 1, Placement: serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: vcpus}},
		Consume:   &cellv1.Consumption{Vcpus: vcpus},
	})}
}

func serialized(p *cellv1.Placement) []byte {
	text, err := proto.Marshal(p)
	if err != nil {
		panic(err)
	}
	return text
}

func (r *testCell) propose(q *cellv1.Query) *cellv1.Proposal {
	r.t.Helper()
	out, err := r.cells.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.GetProposals()[0]
}

// newClaim claims VCPUs of a host for a consumer.
func newClaim(id string, consumer, host int, vcpus int32) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
		ClaimId: id, ConsumerUuid: consumerUUID(consumer), HostUuid: hostUUID(host), Ttl: durationpb.New(5 * time.Minute),
		Allocations: []*cellgatev1.Allocation{{ProviderUuid: hostUUID(host), ResourceClass: "VCPU", Amount: vcpus}},
	}}}
}

func confirm(id string, consumer int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: consumerUUID(consumer)}}}
}

func release(id string, consumer int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: id, ConsumerUuid: consumerUUID(consumer)}}}
}

// swap puts a claim of VCPUs on another host.
func swap(id string, consumer, host int, vcpus int32) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Swap{Swap: &cellv1.SwapClaim{
		ClaimId: id, ConsumerUuid: consumerUUID(consumer), HostUuid: hostUUID(host), Ttl: durationpb.New(5 * time.Minute),
		Allocations: []*cellgatev1.Allocation{{ProviderUuid: hostUUID(host), ResourceClass: "VCPU", Amount: vcpus}},
		Answer:      []byte("the new answer"),
	}}}
}

func transfer(id string, consumer, to int) *cellv1.ClaimOp {
	return &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Transfer{Transfer: &cellv1.TransferClaim{
		ClaimId: id, ConsumerUuid: consumerUUID(consumer), ToConsumer: consumerUUID(to),
	}}}
}

// do runs operations and gives their outcomes.
func (r *testCell) do(ops ...*cellv1.ClaimOp) []*cellv1.ClaimOutcome {
	r.t.Helper()
	out, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: ops})
	if err != nil {
		r.t.Fatal(err)
	}
	return out.GetOutcomes()
}

// must runs operations and fails if one is refused.
func (r *testCell) must(ops ...*cellv1.ClaimOp) []*cellv1.ClaimOutcome {
	r.t.Helper()
	out := r.do(ops...)
	for i, o := range out {
		if o.GetRefusal() != nil {
			r.t.Fatalf("operation %d was refused: %v", i, o.GetRefusal())
		}
	}
	return out
}

const (
	hostA = "aaaaaaaa-0000-4000-8000-000000000001"
	hostB = "aaaaaaaa-0000-4000-8000-000000000002"
)

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func mustParse(t *testing.T, uuid string) schedule.ID {
	t.Helper()
	id, err := schedule.ParseID(uuid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const (
	bootA = "bbbbbbbb-0000-4000-8000-000000000001"
	numaA = "aaaaaaaa-0000-4000-8000-00000000aa01"
	aggA  = "eeeeeeee-0000-4000-8000-000000000001"
)

func usage(provider, class string, amount int32) *agentv1.Usage {
	return &agentv1.Usage{ProviderUuid: provider, ResourceClass: class, Amount: amount}
}

// readHost reads a host's state.
func readHost(s *agentv1.FullState) (*shard.PutHost, error) {
	put, _, err := agents.ReadHost(s, replica.NewFacts)
	return put, err
}
