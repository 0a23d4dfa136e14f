package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// legacyPair is a cell under upgrade with its own database server and two gateways.
type legacyPair struct {
	*testing.T
	server legacytest.Server
	nova   *legacytest.Database
	conns  []*grpc.ClientConn
	asked  int
	mu     sync.Mutex
}

// startLegacyPair starts the processes, which read the rows once per refresh. The cell has one host
// of 8 VCPUs, and the instances that fill adds.
func startLegacyPair(t *testing.T, k legacytest.Kind, refresh time.Duration, fill func(*legacytest.Database)) *legacyPair {
	t.Helper()
	p := &legacyPair{T: t, server: k.New(t)}
	p.nova = legacytest.NewCell(t, p.server)
	d := p.nova
	novaRows(t, d, 1, 60)
	fill(d)
	dir, cellAddr := t.TempDir(), freePort(t)
	members := []*member{{t: t, name: "cell1", log: filepath.Join(dir, "cell1.log"), args: []string{
		"cell", "--name", "cell1", "--uuid", "c0000000-0000-4000-8000-000000000001", "--grpc", cellAddr, "--data", filepath.Join(dir, "cell1"),
	}}}
	for i := range 2 {
		addr, file := freePort(t), filepath.Join(dir, fmt.Sprintf("gateway%d.yaml", i+1))
		text := fmt.Sprintf(`gateway:
  grpc: %q
  http: 127.0.0.1:0
  propose_budget: 20s
  claim_budget: 20s
  cells: [{name: cell1, uuid: c0000000-0000-4000-8000-000000000001, replicas: [%q]}]
  legacy: [{cell: cell1, database: %q, required_version: 68, refresh: %s, service_down_time: 1h}]
`, addr, cellAddr, d.URL, refresh)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		conn, err := rpc.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		p.conns = append(p.conns, conn)
		members = append(members, &member{t: t, name: fmt.Sprintf("gateway%d", i+1), log: filepath.Join(dir, fmt.Sprintf("gateway%d.log", i+1)), args: []string{"gateway", "--config", file}})
	}
	t.Cleanup(func() {
		p.server.Thaw(t) // in case the test failed while frozen
		for _, conn := range p.conns {
			_ = conn.Close()
		}
		for _, m := range members {
			_ = m.signal(syscall.SIGKILL)
			if t.Failed() {
				t.Log(m.tail())
			}
		}
	})
	for _, m := range members {
		m.start()
	}
	return p
}

// moreThanItsRow fills the host with an instance of 6 VCPUs, though the host's row shows 4 in use.
// The shard has room for 2.
func moreThanItsRow(t *testing.T) func(*legacytest.Database) {
	return func(d *legacytest.Database) {
		d.Exec(t, "UPDATE compute_nodes SET vcpus_used = 4")
		now := d.Now(t).Add(-time.Hour)
		d.Insert(t, "instances", legacytest.Row{
			"id": 1, "uuid": "d0000000-0000-4000-8000-000000000001", "host": "host1", "node": "host1", "deleted": 0, "vcpus": 6, "memory_mb": 1024, "root_gb": 1,
			"ephemeral_gb": 0, "instance_type_id": 1, "project_id": "p", "user_id": "u", "vm_state": "active", "created_at": now, "updated_at": now,
		})
	}
}

// choose asks a gateway for a host for a new instance of 1 VCPU, within a bound.
func (p *legacyPair) choose(gateway int, dry bool) (*cellgatev1.SelectDestinationsResponse, error) {
	return p.chooseFor(gateway, dry, 1)
}

func (p *legacyPair) chooseFor(gateway int, dry bool, vcpus int32) (*cellgatev1.SelectDestinationsResponse, error) {
	p.mu.Lock()
	p.asked++
	n := p.asked
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(p.Context(), testwait.Limit)
	defer cancel()
	return cellgatev1.NewSchedulerClient(p.conns[gateway]).SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{fmt.Sprintf("10000000-0000-4000-8000-%012d", n)}, DryRun: dry,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Name: "f", Vcpus: vcpus, MemoryMb: 1024, RootGb: 1}, ProjectId: "p", UserId: "u",
		}},
	})
}

// decide calls choose until the answer comes from the rows. If the machine stalls for seconds, the
// cell is unavailable in between.
func (p *legacyPair) decide(gateway int) (*cellgatev1.SelectDestinationsResponse, error) {
	for until := time.Now().Add(testwait.Limit); ; hold(p.Context(), 50*time.Millisecond) {
		resp, err := p.choose(gateway, false)
		if fault.KindOf(err) != fault.CellUnavailable || time.Now().After(until) {
			return resp, err
		}
	}
}

// await asks a gateway repeatedly, without claims, until the cell answers from Nova's rows, or
// cannot. No other answer may occur.
func (p *legacyPair) await(gateway int, answers bool, when string) {
	p.Helper()
	for until := time.Now().Add(testwait.Limit); ; hold(p.Context(), 50*time.Millisecond) {
		resp, err := p.choose(gateway, true)
		switch kind := fault.KindOf(err); {
		case err == nil && resp.GetCells()[0].GetSource() != cellgatev1.CellSource_LEGACY:
			p.Fatalf("%s: gateway %d answers from %v", when, gateway+1, resp.GetCells())
		case err != nil && kind != fault.CellUnavailable:
			p.Fatalf("%s: gateway %d says %v", when, gateway+1, err)
		case answers && err == nil:
			return
		case !answers && err != nil && strings.Contains(err.Error(), "were last imported "):
			return
		case time.Now().After(until):
			p.Fatalf("%s: gateway %d says %v", when, gateway+1, err)
		}
	}
}

// Two gateways fill the one host of a LEGACY cell concurrently. The host's row shows less in use
// than its instance uses. Each place is given once. A caller without a place gets NO_VALID_HOST at
// once, not CONTENDED. Both gateways can give a released place again.
func TestTwoGatewaysFillOneLegacyHost(t *testing.T) {
	t.Parallel() // each has a server of its own
	legacytest.OneServer(t, twoGatewaysFillOneLegacyHost)
}

func twoGatewaysFillOneLegacyHost(t *testing.T, k legacytest.Kind) {
	t.Parallel()
	p := startLegacyPair(t, k, 200*time.Millisecond, moreThanItsRow(t))
	for i := range p.conns {
		p.await(i, true, "at the start")
	}
	const n, room = 12, 2
	placed, errs := make([]*cellgatev1.Selection, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			resp, err := p.decide(i % 2)
			if errs[i] = err; err == nil {
				placed[i] = resp.GetDestinations()[0].GetSelected()
			}
		})
	}
	all.Wait()
	var last *cellgatev1.Selection
	count := 0
	for i, err := range errs {
		switch {
		case err == nil:
			count, last = count+1, placed[i]
		case fault.KindOf(err) != fault.NoValidHost:
			t.Errorf("request %d: %v", i, err)
		}
	}
	if count != room {
		t.Fatalf("%d were placed, there was room for %d", count, room)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	claims := cellgatev1.NewClaimsClient(p.conns[0])
	list, err := claims.ListClaims(ctx, &cellgatev1.ListClaimsRequest{})
	if err != nil || len(list.GetClaims()) != room+1 { // plus the claim of the instance
		t.Fatalf("the cell has %v, %v", list, err)
	}
	consumer := ""
	for _, c := range list.GetClaims() {
		if c.GetClaimId() == last.GetClaimId() {
			consumer = c.GetConsumerUuid()
		}
	}
	if _, err := claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: last.GetClaimId()}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(testwait.Limit); ; hold(ctx, 50*time.Millisecond) {
		_, err := p.decide(1)
		if err == nil {
			break
		}
		if kind := fault.KindOf(err); kind != fault.NoValidHost || time.Now().After(until) {
			t.Fatalf("after a release: %v", err)
		}
	}
	if _, err := p.decide(0); fault.KindOf(err) != fault.NoValidHost || !strings.Contains(err.Error(), "too little VCPU") {
		t.Errorf("one more: %v", err)
	}
}

// The legacy database of a cell with room freezes. The cell answers from the imported rows until
// they are too old. It is then unavailable, never full, and answers again when the database does.
func TestLegacyDatabaseThatFreezes(t *testing.T) {
	t.Parallel() // most of it waits; each has its own server
	legacytest.OneServer(t, legacyDatabaseThatFreezes)
}

func legacyDatabaseThatFreezes(t *testing.T, k legacytest.Kind) {
	t.Parallel()
	p := startLegacyPair(t, k, 200*time.Millisecond, moreThanItsRow(t))
	for i := range p.conns {
		p.await(i, true, "at the start")
	}
	p.server.Freeze(t)
	for i := range p.conns {
		p.await(i, false, "while the database is frozen")
	}
	p.server.Thaw(t)
	for i := range p.conns {
		p.await(i, true, "when the database is back")
	}
	if _, err := p.decide(0); err != nil {
		t.Error(err)
	}
}
