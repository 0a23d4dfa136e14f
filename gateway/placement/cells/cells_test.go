package cells

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cellgate/cell"
	"cellgate/gateway"
	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
)

// realCell is a cell on Pebble whose replica can be stopped and started again.
type realCell struct {
	t          *testing.T
	name, uuid string
	dir, addr  string
	store      *pebbleshard.Store
	stop       func()
	// hung makes every call hang until its context ends.
	hung atomic.Bool
	// sick, unless nil, holds the answers of the Placement API until the channel is closed. The
	// breaker stays closed meanwhile.
	sick atomic.Pointer[chan struct{}]
}

// dial connects to a cell that may hang.
func (c *realCell) dial(target string) (*grpc.ClientConn, error) {
	return rpc.Dial(target, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if well := c.sick.Load(); well != nil && strings.Contains(method, "CellPlacement") {
			select {
			case <-ctx.Done():
			case <-*well:
			}
		}
		if c.hung.Load() {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	}))
}

func startCell(t *testing.T, name string, n int) *realCell {
	t.Helper()
	c := &realCell{t: t, name: name, uuid: fmt.Sprintf("cccccccc-0000-4000-8000-%012d", n), dir: t.TempDir(), addr: "127.0.0.1:0"}
	c.start()
	t.Cleanup(func() { c.stop() })
	return c
}

func (c *realCell) start() {
	c.t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := pebbleshard.Open(c.dir, pebbleshard.Options{Cell: c.name, CellUUID: c.uuid, Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	replica, err := cell.New(cell.Config{Name: c.name, UUID: c.uuid, Replica: "r1", ServiceDownTime: time.Hour, TailEvery: 10 * time.Millisecond}, cell.Deps{Store: store, Log: log})
	if err != nil {
		c.t.Fatal(err)
	}
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.addr, c.store = l.Addr().String(), store
	server := rpc.NewServer(log, cell.ServerOptions()...)
	replica.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- replica.Run(ctx) }()
	go func() { served <- server.Serve(l) }()
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		server.Stop()
		cancel()
		if err := errors.Join(<-served, <-ran, store.Close()); err != nil {
			c.t.Error(err)
		}
	}
	<-replica.Ready()
}

// imports writes operations of an importer in a lane of its own, like another replica.
func (c *realCell) imports(ops ...shard.Op) {
	c.t.Helper()
	lane, err := c.store.OpenLane(c.t.Context(), "importer")
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := lane.Apply(c.t.Context(), ops)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range a.Outcomes {
		if o.Refusal != nil {
			c.t.Fatalf("refused: %+v", o.Refusal)
		}
	}
}

// startGateway gives a gateway's API, its backend, and the Placement API over both. Their budgets hold on a slow
// machine: a test of a cell that does not answer sets its own.
func startGateway(t *testing.T, def string, list ...*realCell) (cellgatev1.SchedulerClient, *Backend, string) {
	t.Helper()
	return startGatewayWith(t, def, func(*gateway.Config) {}, list...)
}

func startGatewayWith(t *testing.T, def string, change func(*gateway.Config), list ...*realCell) (cellgatev1.SchedulerClient, *Backend, string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	cfg := gateway.Config{Name: "g", ProposeBudget: testwait.Limit, ClaimBudget: testwait.Limit}
	at := map[string]*realCell{}
	for _, c := range list {
		at[c.addr] = c
		cfg.Cells = append(cfg.Cells, cellclient.CellConfig{Name: c.name, UUID: c.uuid, Replicas: []string{c.addr}})
	}
	change(&cfg)
	g, err := gateway.New(cfg, gateway.Deps{Dial: func(target string) (*grpc.ClientConn, error) { return at[target].dial(target) }, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	server, l := rpc.NewServer(log, g.ServerOptions()...), bufconn.Listen(1<<16)
	g.Register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	conn, err := rpc.Dial("passthrough:///gateway", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	b := New(Config{DefaultCell: def, Budget: testwait.Limit}, Deps{Cells: g.Cells(), Log: log})
	api := placement.New(placement.Config{TrustLoopback: true, Timeout: testwait.Limit}, placement.Deps{Backend: b, HasCell: b.HasCell, Log: log})
	web := httptest.NewServer(api)
	t.Cleanup(func() {
		web.Close()
		err := conn.Close()
		server.Stop()
		cancel()
		if err := errors.Join(err, <-served, <-ran); err != nil {
			t.Error(err)
		}
	})
	<-g.Ready()
	return cellgatev1.NewSchedulerClient(conn), b, web.URL
}

// call sends a request of the newest microversion and demands a status.
func call(t *testing.T, method, url, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := send(t, req, want)
	return text
}

func send(t *testing.T, req *http.Request, want int) (string, http.Header) {
	t.Helper()
	req.Header.Set("X-Auth-Token", "admin")
	req.Header.Set("OpenStack-API-Version", "placement 1.39")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != want {
		t.Fatalf("%s %s: %d, want %d: %s", req.Method, req.URL, resp.StatusCode, want, text)
	}
	return string(text), resp.Header
}

const (
	compute  = "aaaaaaaa-0000-4000-8000-000000000001"
	storage  = "aaaaaaaa-0000-4000-8000-000000000002"
	other    = "aaaaaaaa-0000-4000-8000-000000000003"
	instance = "bbbbbbbb-0000-4000-8000-000000000001"
	moving   = "bbbbbbbb-0000-4000-8000-000000000002"
)

func importedCompute(rows time.Time) []shard.Op {
	return []shard.Op{
		{MoveGate: &shard.MoveGate{State: shard.GateLegacy, Reason: "a test", RowsAt: rows}},
		{PutHost: &shard.PutHost{Host: shard.Host{
			UUID: compute, ServiceHost: "compute-1", NodeName: "compute-1", Imported: true, BootID: "import", StateVersion: 1, HypervisorType: "QEMU",
			Facts:     &shard.Facts{SupportedInstances: `[["x86_64", "kvm", "hvm"]]`},
			Providers: []shard.Provider{{UUID: compute, Name: "compute-1"}},
		}}},
	}
}

const threeClasses = `{"VCPU": {"total": 8, "allocation_ratio": 4.0}, "MEMORY_MB": {"total": 16384}, "DISK_GB": {"total": 100}}`

func TestPlacementAPI_OverRealCells_SelectionsPlaceOnItsTrees(t *testing.T) {
	one, two := startCell(t, "one", 1), startCell(t, "two", 2)
	scheduler, b, url := startGateway(t, "two", one, two)

	// nova-compute of cell one reports its provider, a storage comes to the default cell.
	call(t, "POST", url+"/cells/one/resource_providers", fmt.Sprintf(`{"name": "compute-1", "uuid": %q}`, compute), 200)
	call(t, "PUT", url+"/resource_providers/"+compute+"/inventories", `{"resource_provider_generation": 0, "inventories": `+threeClasses+`}`, 200)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "storage", "uuid": %q}`, storage), 200)
	call(t, "PUT", url+"/resource_providers/"+storage+"/inventories", `{"resource_provider_generation": 0, "inventories": {"DISK_GB": {"total": 50}}}`, 200)
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "storage", "uuid": %q}`, other), 409)
	call(t, "PUT", url+"/resource_providers/"+compute+"/inventories", `{"resource_provider_generation": 0, "inventories": {}}`, 409)
	if got := call(t, "GET", url+"/resource_providers?name=storage", "", 200); !strings.Contains(got, storage) {
		t.Errorf("the storage is not listed: %s", got)
	}
	now, err := one.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one.imports(importedCompute(now)...)

	// An instance is placed on the host, and its allocation is Placement's.
	req := &cellgatev1.SelectDestinationsRequest{
		RequestId: "req-1", InstanceUuids: []string{instance},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{Flavor: &cellgatev1.Flavor{Vcpus: 2, MemoryMb: 1024, RootGb: 10}}},
	}
	var resp *cellgatev1.SelectDestinationsResponse
	for limit := time.Now().Add(testwait.Limit); ; {
		if resp, err = scheduler.SelectDestinations(t.Context(), req); err == nil || time.Now().After(limit) {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if err != nil || resp.GetDestinations()[0].GetSelected().GetServiceHost() != "compute-1" {
		t.Fatalf("selected %v, %v", resp, err)
	}
	if got := call(t, "GET", url+"/allocations/"+instance, "", 200); !strings.Contains(got, compute) || !strings.Contains(got, `"consumer_generation": 1`) && !strings.Contains(got, `"consumer_generation":1`) {
		t.Errorf("the instance has %s", got)
	}

	// A consumer may hold something in both cells; its generation is one.
	write := func(generation, allocations string, want int) {
		t.Helper()
		call(t, "PUT", url+"/allocations/"+moving, fmt.Sprintf(`{"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": %s, "allocations": {%s}}`, generation, allocations), want)
	}
	inOne := fmt.Sprintf(`%q: {"resources": {"VCPU": 1}}`, compute)
	inTwo := fmt.Sprintf(`%q: {"resources": {"DISK_GB": 5}}`, storage)
	write("null", inOne, 204)
	write("null", inOne, 409)
	write("1", inOne+", "+inTwo, 204)
	write("1", inOne, 409)
	held, err := b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: []string{moving}})
	if err != nil || len(held) != 1 || held[0].Generation != 2 || len(held[0].Allocations) != 2 || held[0].Type != "INSTANCE" {
		t.Errorf("held %+v, %v", held, err)
	}
	// If one cell refuses its part of a write, the other cell stays as it was.
	write("2", fmt.Sprintf(`%q: {"resources": {"VCPU": 2}}, %q: {"resources": {"DISK_GB": 51}}`, compute, storage), 409)
	if held, err = b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: []string{moving}}); err != nil || held[0].Allocations[compute]["VCPU"] != 1 {
		t.Errorf("after a refused write: %+v, %v", held, err)
	}

	// Every acknowledged write is there after a restart. A cell that was away gets the names that it missed.
	two.stop()
	if created, err := b.PutName(t.Context(), placement.TraitName, "CUSTOM_FAST"); err != nil || !created {
		t.Errorf("PutName: %v, %v", created, err)
	}
	if _, err := b.Consumers(t.Context(), placement.ConsumerQuery{UUIDs: []string{moving}}); fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("half of a consumer: %v", err)
	}
	call(t, "GET", url+"/resource_providers/"+compute, "", 200)
	two.start()
	for limit := time.Now().Add(testwait.Limit); time.Now().Before(limit); {
		if _, err := b.Names(t.Context(), placement.TraitName); err == nil && slices.Contains(namesOf(t, two), "CUSTOM_FAST") {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if !slices.Contains(namesOf(t, two), "CUSTOM_FAST") {
		t.Error("the cell that was away has not got the name")
	}
	if got := call(t, "GET", url+"/allocations/"+moving, "", 200); !strings.Contains(got, storage) {
		t.Errorf("after a restart the consumer has %s", got)
	}
	if err := b.DeleteName(t.Context(), placement.TraitName, "CUSTOM_FAST"); err != nil {
		t.Errorf("DeleteName: %v", err)
	}
	call(t, "DELETE", url+"/allocations/"+moving, "", 204)
	if got := call(t, "GET", url+"/allocation_candidates?resources=VCPU:1,DISK_GB:1", "", 200); !strings.Contains(got, compute) {
		t.Errorf("candidates are %s", got)
	}
	call(t, "DELETE", url+"/resource_providers/"+compute, "", 409)
	call(t, "DELETE", url+"/resource_providers/"+storage, "", 204)
}

// nova-compute asks for a name, registers it and uses it. A load balancer sends these requests to different gateways.
func TestNames_RegisteredThroughAnotherGateway_AreKnownAtOnce(t *testing.T) {
	one := startCell(t, "one", 1)
	_, b, url := startGateway(t, "one", one)
	_, _, second := startGateway(t, "one", one)
	b.now = func() time.Time { return time.Unix(0, 0) } // its cache does not age
	call(t, "POST", url+"/resource_providers", fmt.Sprintf(`{"name": "compute-1", "uuid": %q}`, compute), 200)
	call(t, "GET", url+"/traits?name=in:CUSTOM_FAST", "", 200)
	call(t, "PUT", second+"/traits/CUSTOM_FAST", "", 201)
	call(t, "PUT", second+"/resource_classes/CUSTOM_CARD", "", 201)
	call(t, "PUT", url+"/resource_providers/"+compute+"/traits", `{"resource_provider_generation": 0, "traits": ["CUSTOM_FAST"]}`, 200)
	call(t, "PUT", url+"/resource_providers/"+compute+"/inventories", `{"resource_provider_generation": 1, "inventories": {"CUSTOM_CARD": {"total": 1}}}`, 200)
}

func namesOf(t *testing.T, c *realCell) (names []string) {
	t.Helper()
	if _, err := c.store.Load(t.Context(), func(ch shard.Change) error {
		if ch.Name != nil {
			names = append(names, ch.Name.Name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// TestConsumers_OfAProviderWithMoreThanARequestTakes: a storage that ten thousand servers share.
func TestConsumers_OfAProviderWithMoreThanARequestTakes(t *testing.T) {
	one := startCell(t, "one", 1)
	_, b, _ := startGateway(t, "", one)
	const each, batches = 1020, 10
	inventory := map[string]placement.Inventory{"DISK_GB": {Total: 1 << 20, MinUnit: 1, MaxUnit: 1 << 20, StepSize: 1, AllocationRatio: 1}}
	w := placement.Write{Providers: []placement.ProviderWrite{{UUID: storage, Create: true, Name: new("storage"), Inventories: &inventory}}}
	for n := range batches * each {
		w.Consumers = append(w.Consumers, placement.ConsumerWrite{
			UUID: fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012d", n), ProjectID: "p", UserID: "u", Allocations: placement.Allocations{storage: {"DISK_GB": 1}},
		})
		if len(w.Consumers) == each {
			if err := b.Write(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			w = placement.Write{}
		}
	}
	got, err := b.Consumers(t.Context(), placement.ConsumerQuery{Provider: storage})
	if err != nil || len(got) != batches*each {
		t.Errorf("%d consumers, %v; want %d", len(got), err, batches*each)
	}
}
