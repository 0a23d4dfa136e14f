package systemtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/agent"
	"cellgate/cell"
	"cellgate/cell/agents"
	"cellgate/gateway"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

const (
	cellCount = 2
	hostsEach = 2
	hostVCPUs = 8
)

// world is a gateway over real cells, in a bubble.
type world struct {
	t         *testing.T
	net       *network
	stores    []shard.Store
	agents    []*grpc.ClientConn // by cell
	scheduler cellgatev1.SchedulerClient
	claims    cellgatev1.ClaimsClient
	// hosts are the simulated hosts of agents. Empty if the world has no agents.
	hosts []*agent.Host
}

// verifying configures how the cells of a world verify claims. With the zero value, hosts have no
// agents and nothing is verified.
type verifying struct {
	mode agents.VerifyMode
	log  *slog.Logger
	// streams are dial options of the agents' streams.
	streams []grpc.DialOption
}

func uuidOf(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

// start builds a world with its hosts registered. It ends with the test.
func start(t *testing.T, n *network) *world {
	t.Helper()
	return startWith(t, n, verifying{})
}

// startWith starts a world whose hosts have agents if verify sets a mode. configure changes the
// gateway's configuration.
func startWith(t *testing.T, n *network, verify verifying, configure ...func(*gateway.Config)) *world {
	t.Helper()
	w := &world{t: t, net: n}
	listeners := map[string]*bufconn.Listener{}
	dial := func(target string, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///"+target, append(extra, grpc.WithContextDialer(func(ctx context.Context, name string) (net.Conn, error) {
			if listeners[name] == nil {
				return nil, errors.New("nobody listens at " + name)
			}
			return listeners[name].DialContext(ctx)
		}))...)
	}
	log := slog.New(slog.DiscardHandler)
	if verify.log != nil {
		log = verify.log
	}
	serve := func(name string, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) {
		server, l, done := rpc.NewServer(log, options...), bufconn.Listen(1<<16), make(chan error, 1)
		register(server)
		listeners[name] = l
		go func() { done <- server.Serve(l) }()
		t.Cleanup(func() {
			server.Stop()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	run := func(name string, f func(context.Context) error, ready <-chan struct{}) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s ended: %v", name, err)
			}
		})
		<-ready
	}
	cfg := gateway.Config{}
	for i := range cellCount {
		name, uuid := fmt.Sprintf("cell%d", i+1), uuidOf(0xc, i+1)
		store, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: name, CellUUID: uuid, Log: log})
		must(t, err)
		t.Cleanup(func() { must(t, store.Close()) })
		w.stores = append(w.stores, store)
		c, err := cell.New(cell.Config{Name: name, UUID: uuid, Replica: name, ServiceDownTime: time.Hour, VerifyMode: verify.mode}, cell.Deps{Store: n.store(store), Log: log})
		must(t, err)
		run(name, c.Run, c.Ready())
		serve(name, c.Register)
		conn, err := dial(name)
		must(t, err)
		t.Cleanup(func() { must(t, conn.Close()) })
		w.agents = append(w.agents, conn)
		var source hostList
		for h := range hostsEach {
			if verify.mode == "" {
				report(t, conn, hostState(i*100+h, 1), false)
			} else {
				source = append(source, agent.NewHost(hostState(i*100+h, 1)))
			}
		}
		if len(source) > 0 {
			w.hosts = append(w.hosts, source...)
			f, err := agent.NewFleet(agent.FleetConfig{Cell: name, Replicas: []string{name}}, agent.FleetDeps{
				Source: source, Dial: func(target string) (*grpc.ClientConn, error) { return dial(target, verify.streams...) }, Log: log,
			})
			must(t, err)
			run("agents of "+name, f.Run, f.Ready())
		}
		cfg.Cells = append(cfg.Cells, gateway.CellConfig{Name: name, UUID: uuid, Replicas: []string{name}})
	}
	for _, change := range configure {
		change(&cfg)
	}
	g, err := gateway.New(cfg, gateway.Deps{Log: log, Dial: func(target string) (*grpc.ClientConn, error) {
		return dial(target, n.between("gateway-cell"))
	}})
	must(t, err)
	run("gateway", g.Run, g.Ready())
	serve("gateway", g.Register, g.ServerOptions()...)
	conn, err := dial("gateway", n.between("conductor-gateway"))
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	w.scheduler, w.claims = cellgatev1.NewSchedulerClient(conn), cellgatev1.NewClaimsClient(conn)
	return w
}

// hostList is a source of hosts that change only when a test changes them.
type hostList []*agent.Host

func (l hostList) Hosts() []*agent.Host { return l }

func (l hostList) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hostState is what a host reports in its version-th state.
func hostState(n int, version uint64, instances ...*agentv1.Instance) *agentv1.FullState {
	uuid, service := uuidOf(0xa, n), fmt.Sprintf("host%03d", n)
	return &agentv1.FullState{
		Cell:   fmt.Sprintf("cell%d", n/100+1),
		BootId: uuidOf(0xb, n), Version: version, AgentVersion: 1, HostUuid: uuid, ServiceHost: service, Nodename: service,
		Providers: []*agentv1.Provider{{Uuid: uuid, Inventories: []*agentv1.Inventory{
			{ResourceClass: "VCPU", Total: hostVCPUs, AllocationRatio: 1},
			{ResourceClass: "MEMORY_MB", Total: 1 << 16, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Total: 1 << 10, AllocationRatio: 1},
		}}},
		Instances: instances,
	}
}

// report sends a host's state on a new stream. With lose, the stream ends after the cell has
// answered but before the answer is read.
func report(t *testing.T, conn *grpc.ClientConn, state *agentv1.FullState, lose bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := agentv1.NewHostReportsClient(conn).Report(ctx)
	must(t, err)
	must(t, stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_FullState{FullState: state}}))
	if lose {
		synctest.Wait() // the cell finishes its work
		cancel()
		return
	}
	answer, err := stream.Recv()
	must(t, err)
	if answer.GetAccepted() == nil {
		t.Fatalf("host %s: %v", state.GetServiceHost(), answer)
	}
}

// held is the live claims of all stores.
type held struct {
	claims map[string]*shard.Claim
}

// settle waits until every lease has expired and then reads all stores. It checks that every usage
// of a host belongs to a live claim, and that no host is over capacity.
func (w *world) settle() held {
	w.t.Helper()
	rest := 2 * lease
	if len(w.hosts) > 0 {
		rest = 10 * time.Minute // the longest time that a local claim of an agent lasts
	}
	time.Sleep(rest)
	synctest.Wait()
	out := held{claims: map[string]*shard.Claim{}}
	for i, s := range w.stores {
		hosts, usages := map[string]*shard.Host{}, map[string]*shard.Usage{}
		_, err := s.Load(context.Background(), func(c shard.Change) error {
			switch {
			case c.Host != nil:
				hosts[c.Host.UUID] = c.Host
			case c.Usage != nil:
				usages[c.Usage.HostUUID] = c.Usage
			case c.Claim != nil && c.Claim.State.Live():
				out.claims[c.Claim.ClaimID] = c.Claim
			}
			return nil
		})
		must(w.t, err)
		booked := map[shard.Used]int64{}
		for _, c := range out.claims {
			for _, a := range c.Allocations {
				booked[shard.Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}] += a.Amount
			}
		}
		for uuid, h := range hosts {
			for _, p := range h.Providers {
				for _, inv := range p.Inventories {
					used, claimed := usages[uuid].Of(p.UUID, inv.ResourceClass), booked[shard.Used{ProviderUUID: p.UUID, ResourceClass: inv.ResourceClass}]
					if used > inv.Capacity() {
						w.t.Errorf("host %s: %d of %d %s are in use", h.ServiceHost, used, inv.Capacity(), inv.ResourceClass)
					}
					if used != claimed {
						w.t.Errorf("cell %d, host %s: %d %s are in use, its claims have %d", i+1, h.ServiceHost, used, inv.ResourceClass, claimed)
					}
				}
			}
		}
	}
	return out
}
