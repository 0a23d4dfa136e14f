package systemtest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/agent"
	"cellgate/gateway"
	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	"cellgate/internal/rpc"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/sqlshard"
)

// oneCell is a gateway over one cell of several replicas, which are processes with one
// PostgreSQL, and the simulated agents of its hosts, each with a stream to every replica.
type oneCell struct {
	t         *testing.T
	url       string
	replicas  []*replicaProcess
	scheduler cellgatev1.SchedulerClient
	next      atomic.Int64
	// placed counts the requests that were, failed the others.
	placed, failed atomic.Int64
}

func startOneCell(t *testing.T, replicas, hosts int, budget time.Duration) *oneCell {
	t.Helper()
	w := &oneCell{t: t, url: pgtest.Start(t).NewDatabase(t)}
	var addrs []string
	for n := range replicas {
		r := startReplica(t, fmt.Sprintf("r%d", n+1), w.url)
		w.replicas, addrs = append(w.replicas, r), append(addrs, r.addr)
	}
	log := slog.New(slog.DiscardHandler)
	dial := func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }
	source, err := agent.NewSimulation(1, "cell1", hosts)
	must(t, err)
	fleet, err := agent.NewFleet(agent.FleetConfig{Cell: "cell1", Replicas: addrs}, agent.FleetDeps{Source: source, Dial: dial, Log: log})
	must(t, err)
	g, err := gateway.New(gateway.Config{
		ProposeBudget: budget, ClaimBudget: budget, MaxDeadline: testwait.Limit,
		Cells: []gateway.CellConfig{{Name: "cell1", UUID: uuidOf(0xc, 1), Replicas: addrs}},
	}, gateway.Deps{Log: log, Dial: dial})
	must(t, err)
	for _, part := range []struct {
		run   func(context.Context) error
		ready <-chan struct{}
	}{{fleet.Run, fleet.Ready()}, {g.Run, g.Ready()}} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- part.run(ctx) }()
		t.Cleanup(func() { cancel(); must(t, <-done) })
		<-part.ready
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, served := rpc.NewServer(log), make(chan error, 1)
	g.Register(server)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); must(t, <-served) })
	conn, err := rpc.Dial(l.Addr().String())
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	w.scheduler = cellgatev1.NewSchedulerClient(conn)
	return w
}

// place asks for one instance of so many VCPUs. It returns the claim and how long the call took.
func (w *oneCell) place(vcpus int32) (claim string, took time.Duration, err error) {
	n := int(w.next.Add(1))
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	began := time.Now()
	resp, err := w.scheduler.SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("request-%d", n), InstanceUuids: []string{uuidOf(0x1, n)}, ClaimTtl: durationpb.New(time.Hour),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: vcpus, MemoryMb: 64}, ProjectId: "p",
		}},
	})
	if err != nil {
		w.failed.Add(1)
		return "", time.Since(began), err
	}
	w.placed.Add(1)
	return resp.GetDestinations()[0].GetSelected().GetClaimId(), time.Since(began), nil
}

// check reads the database. Every answered claim is live there, at most others further claims
// belong to requests, and no host is over capacity.
func (w *oneCell) check(answered map[string]bool, others int) {
	w.t.Helper()
	s, err := sqlshard.Open(context.Background(), sqlshard.Options{Cell: "cell1", CellUUID: uuidOf(0xc, 1), URL: w.url, Log: slog.New(slog.DiscardHandler)})
	must(w.t, err)
	defer func() { must(w.t, s.Close()) }()
	hosts, usages, live := map[string]*shard.Host{}, map[string]*shard.Usage{}, 0
	_, err = s.Load(context.Background(), func(c shard.Change) error {
		switch {
		case c.Host != nil:
			hosts[c.Host.UUID] = c.Host
		case c.Usage != nil:
			usages[c.Usage.HostUUID] = c.Usage
		case c.Claim != nil && c.Claim.State.Live() && c.Claim.RequestID != "": // a claim without a request was adopted
			if answered[c.Claim.ClaimID] {
				live++
			} else if others--; others < 0 {
				w.t.Errorf("claim %s was answered to nobody", c.Claim.ClaimID)
			}
		}
		return nil
	})
	must(w.t, err)
	if live != len(answered) {
		w.t.Errorf("%d claims are live, %d were answered", live, len(answered))
	}
	for uuid, h := range hosts {
		for _, p := range h.Providers {
			for _, inv := range p.Inventories {
				if used := usages[uuid].Of(p.UUID, inv.ResourceClass); used > inv.Capacity() {
					w.t.Errorf("host %s: %d of %d %s are in use", h.ServiceHost, used, inv.Capacity(), inv.ResourceClass)
				}
			}
		}
	}
}

// pace is the least time between two requests of a caller.
func pace() time.Duration {
	if os.Getenv("CELLGATE_LONG") != "" {
		return 20 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// load makes callers place instances, each at most one per pace, until stop is closed.
func (w *oneCell) load(callers int, stop <-chan struct{}) (answered map[string]bool, longest time.Duration, failed []error) {
	answered = map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			tick := time.NewTicker(pace())
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				claim, took, err := w.place(1)
				mu.Lock()
				longest = max(longest, took)
				if err == nil {
					answered[claim] = true
				} else {
					failed = append(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return answered, longest, failed
}

// One replica is frozen for longer than its hosts may be silent, another is killed. Both cost
// callers time, but no call fails, and the frozen one does no harm when it resumes. There are
// enough callers that several wait for a replica when its breaker opens.
func TestReplicasFrozenAndKilled(t *testing.T) {
	testlong.Only(t, "TestReplicasFillTheirCell, and the tests of replicas of gateway")
	const freeze = time.Minute                   // longer than downAfter
	w := startOneCell(t, 3, 200, 20*time.Second) // a frozen replica costs half of the budget
	stop := make(chan struct{})
	type result struct {
		answered map[string]bool
		longest  time.Duration
		failed   []error
	}
	done := make(chan result, 1)
	go func() {
		a, l, f := w.load(16, stop)
		done <- result{a, l, f}
	}()
	wait := func(d time.Duration) { <-time.After(d) }
	wait(2 * time.Second)
	w.replicas[0].signal(t, syscall.SIGSTOP)
	wait(freeze)
	w.replicas[0].signal(t, syscall.SIGCONT)
	// After it resumes, the replica answers from current data, or not at all.
	w.asksReplica(w.replicas[0].addr)
	wait(2 * time.Second)
	w.replicas[1].signal(t, syscall.SIGKILL)
	wait(3 * time.Second)
	close(stop)
	r := <-done
	for _, err := range r.failed {
		t.Errorf("a request was not placed: %v", err)
	}
	if len(r.answered) < 10 {
		t.Errorf("only %d requests were placed", len(r.answered))
	}
	t.Logf("%d placed, the longest took %v", len(r.answered), r.longest)
	w.check(r.answered, 0)
}

// The only replica of a cell is restarted under load. While it loads its table, it answers from the
// database. Callers do not notice when the load ends.
func TestTheOnlyReplicaAnswersWhileItLoads(t *testing.T) {
	testlong.Only(t, "TestI6_AColdReplicaAnswersAsAWarmOne of cell")
	w := startOneCell(t, 1, 100, time.Minute)
	stop, ended := make(chan struct{}), make(chan struct{})
	var answered map[string]bool
	var failed []error
	go func() {
		defer close(ended)
		answered, _, failed = w.load(4, stop)
	}()
	end := sync.OnceFunc(func() { close(stop); <-ended })
	defer end()
	const some = 30
	grows := func(when string) {
		t.Helper()
		from, over := w.placed.Load(), time.After(testwait.Limit)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for w.placed.Load() < from+some {
			select {
			case <-tick.C:
			case <-over:
				t.Fatalf("%s: %d requests were placed", when, w.placed.Load()-from)
			}
		}
	}
	grows("at first")
	first := w.replicas[0]
	first.signal(t, syscall.SIGKILL)
	if _, err := first.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	again := startReplicaAt(t, "r1", w.url, first.addr, true)
	grows("while it loads")
	lost := w.failed.Load()
	began := time.Now()
	grows("while it still loads")
	t.Logf("%d were placed within %v of a load that had not begun", some, time.Since(began))
	if _, err := again.in.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	grows("after it loaded, or while it did")
	grows("after it loaded")
	if n := w.failed.Load() - lost; n > 0 {
		t.Errorf("%d requests failed once the replica answered", n)
	}
	w.asksReplica(again.addr)
	end()
	for _, err := range failed {
		if k := fault.KindOf(err); k != fault.CellUnavailable && k != fault.OutcomeUnknown {
			t.Errorf("a request failed otherwise than by a replica that is gone: %v", err)
		}
	}
	t.Logf("%d placed, %d failed while there was no replica", len(answered), len(failed))
	w.check(answered, len(failed))
}

// asksReplica asks a replica directly for one VCPU, which hosts have plenty of.
func (w *oneCell) asksReplica(addr string) {
	w.t.Helper()
	conn, err := rpc.Dial(addr)
	must(w.t, err)
	defer func() { must(w.t, conn.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), testwait.Limit)
	defer cancel()
	placement, err := proto.Marshal(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Consume: &cellv1.Consumption{Vcpus: 1},
	})
	must(w.t, err)
	out, err := cellv1.NewCellSchedulerClient(conn).ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{{Limit: 1, Placement: placement}}})
	switch {
	case fault.KindOf(err) == fault.CellUnavailable:
	case err != nil:
		w.t.Error(err)
	case out.GetProposals()[0].GetPassed() == 0:
		w.t.Errorf("woken, it finds no host: %v", out)
	}
}

// Callers ask for more than the cell has, through a gateway over three replicas. Exactly the
// instances that fit are placed, and every other call fails because the cell is full.
func TestReplicasFillTheirCell(t *testing.T) {
	w := startOneCell(t, 3, 4, time.Minute)
	var mu sync.Mutex
	answered := map[string]bool{}
	var full atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for full.Load() < 16 {
				claim, _, err := w.place(32)
				switch {
				case err == nil:
					mu.Lock()
					answered[claim] = true
					mu.Unlock()
				case fault.KindOf(err) == fault.NoValidHost:
					full.Add(1)
				default:
					full.Add(1)
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(answered) == 0 {
		t.Error("nothing was placed")
	}
	t.Logf("%d instances of 32 VCPU placed", len(answered))
	w.check(answered, 0)
}
