package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/agent"
	"cellgate/internal/bench"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// TestBenchStalls measures selections through REST while the cell has other work: leases that end
// together, claims that are released together, bursts of reports, a new registration of all hosts.
// The cell, the gateway and the callers are processes, and the agents run in this one. "make
// bench-stalls" runs it.
func TestBenchStalls(t *testing.T) {
	if at := os.Getenv("CELLGATE_STALLS_WEB"); at != "" {
		callForStalls(t, at)
		return
	}
	if os.Getenv("CELLGATE_BENCH_STALLS") == "" {
		t.Skip("a measurement: make bench-stalls")
	}
	b := &stallsBench{
		t: t, hosts: envNumber(t, "STALLS_HOSTS", 10_000), leases: envNumber(t, "STALLS_LEASES", 20_000),
		callers: envNumber(t, "STALLS_CALLERS", 8), phase: time.Duration(envNumber(t, "STALLS_SECONDS", 15)) * time.Second,
	}
	y, err := bench.MeasureYardstick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("%d CPUs, %s, load average %syardstick: %v", runtime.NumCPU(), runtime.Version(), load, y)
	b.run()
}

type stallsBench struct {
	t                      *testing.T
	hosts, leases, callers int
	phase                  time.Duration
	system                 *realSystem
	cell                   cellv1.CellSchedulerClient
	agents                 *agentsBench
	source                 *stoppable
	uuids                  []string
}

// stallsRequest is each caller's request: one instance with alternates, and a lease longer than the
// measurement.
const stallsRequest = `{"instance_uuids": [%q], "request_spec": {"project_id": "bench", "flavor": {"vcpus": 2, "memory_mb": 4096, "root_gb": 40}},
	"return_alternates": true, "claim_ttl": "3600s"}`

func (b *stallsBench) run() {
	t := b.t
	b.startSystem()
	nothing := func(context.Context) {}
	b.measure("", nothing) // warm-up
	t.Log("| beside | selections/s | p50 ms | p99 ms | max ms | failed | what was beside took |")
	t.Log("|---|---|---|---|---|---|---|")
	b.measure("quiet", nothing)

	ends := time.Now().Add(30 * time.Second)
	b.claim(ends)
	pauseUntil(ends.Add(-time.Second))
	b.measure(fmt.Sprintf("%d leases end within a second", b.leases), func(ctx context.Context) {
		pauseUntil(ends)
		for b.pending(ctx) > b.callers {
			hold(ctx, 500*time.Millisecond)
		}
	})

	refs := b.claim(time.Now().Add(time.Hour))
	b.measure(fmt.Sprintf("%d claims are released by batches of 256", b.leases), func(ctx context.Context) { b.release(ctx, refs) })

	b.measure(fmt.Sprintf("bursts of %d reports", b.source.Burst), func(ctx context.Context) {
		b.source.pace <- bursts
		hold(ctx, b.phase)
		b.source.pace <- still
	})
	b.measure("all hosts are registered anew", func(ctx context.Context) {
		all := b.agents.awaitAll()
		if _, err := cellgatev1.NewHostsClient(b.system.conn).ResyncHosts(ctx, &cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "measurement"}); err != nil {
			t.Error(err)
			return
		}
		b.agents.await(all)
	})
	b.measure("quiet again", nothing)
}

func (b *stallsBench) startSystem() {
	t := b.t
	dir := t.TempDir()
	s := &realSystem{t: t, hosts: b.hosts, api: freePort(t), web: freePort(t)}
	b.system = s
	cellAddr := freePort(t)
	const cellID = "c0000000-0000-4000-8000-000000000001"
	s.cells = []*member{{t: t, name: "cell1", log: filepath.Join(dir, "cell1.log"), args: []string{
		"cell", "--name", "cell1", "--uuid", cellID, "--data", filepath.Join(dir, "shard"), "--grpc", cellAddr,
	}}}
	s.gateway = &member{t: t, name: "gateway", log: filepath.Join(dir, "gateway.log"), args: []string{
		"gateway", "--grpc", s.api, "--http", s.web, "--cell", "cell1=" + cellID + "@" + cellAddr,
	}}
	var err error
	if s.conn, err = rpc.Dial(s.api); err != nil {
		t.Fatal(err)
	}
	conn, err := rpc.Dial(cellAddr)
	if err != nil {
		t.Fatal(err)
	}
	b.cell = cellv1.NewCellSchedulerClient(conn)
	sim, err := agent.NewSimulation(1, "cell1", b.hosts)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range sim.Hosts() {
		state, _ := h.State()
		if !state.GetDisabled() {
			b.uuids = append(b.uuids, state.GetHostUuid())
		}
	}
	b.source = &stoppable{churn: churn{
		Simulation: sim, Every: 10 * time.Second, Burst: min(3000, b.hosts/3), BurstEvery: 3 * time.Second,
	}, pace: make(chan pace)}
	b.agents = &agentsBench{t: t, hosts: b.hosts, cell: s.cells[0], back: map[*agent.Host]bool{}, refused: map[string]float64{}}
	fleet, err := agent.NewFleet(agent.FleetConfig{Cell: "cell1", Replicas: []string{cellAddr}}, agent.FleetDeps{
		Source: b.source, Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial(target) }, Accepted: b.agents.took,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_, _ = s.conn.Close(), conn.Close()
		for _, m := range s.all() {
			_ = m.signal(os.Kill)
		}
	})
	for _, m := range s.all() {
		m.start()
	}
	all := b.agents.awaitAll()
	go func() { ended <- fleet.Run(ctx) }()
	b.agents.await(all)
	s.awaitReady(time.Minute)
	s.awaitHosts(time.Minute)
}

// claim makes claims over all hosts, whose leases end at ends.
func (b *stallsBench) claim(ends time.Time) []*cellv1.ClaimRef {
	b.t.Helper()
	refs := make([]*cellv1.ClaimRef, 0, b.leases)
	for len(refs) < b.leases {
		req := &cellv1.ClaimBatchRequest{}
		for len(req.Ops) < 256 && len(refs) < b.leases {
			host := b.uuids[len(refs)%len(b.uuids)]
			ref := &cellv1.ClaimRef{ClaimId: uuid.NewString(), ConsumerUuid: uuid.NewString()}
			refs = append(refs, ref)
			req.Ops = append(req.Ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
				ClaimId: ref.ClaimId, ConsumerUuid: ref.ConsumerUuid, HostUuid: host, ProjectId: "bench",
				Ttl:         durationpb.New(max(time.Until(ends), time.Second)),
				Allocations: []*cellgatev1.Allocation{{ProviderUuid: host, ResourceClass: "MEMORY_MB", Amount: 1}},
			}}})
		}
		out, err := b.cell.ClaimBatch(b.t.Context(), req)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, o := range out.GetOutcomes() {
			if o.GetRefusal() != nil {
				b.t.Fatal(o.GetRefusal())
			}
		}
	}
	return refs
}

func (b *stallsBench) release(ctx context.Context, refs []*cellv1.ClaimRef) {
	for part := range slices.Chunk(refs, 256) {
		req := &cellv1.ClaimBatchRequest{}
		for _, ref := range part {
			req.Ops = append(req.Ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
		}
		if _, err := b.cell.ClaimBatch(ctx, req); err != nil {
			b.t.Error(err)
			return
		}
	}
}

// pending returns the number of unconfirmed claims in the cell's summary.
func (b *stallsBench) pending(ctx context.Context) int {
	s, err := b.cell.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	if err != nil {
		b.t.Error(err)
		return 0
	}
	return int(s.GetTotals().GetClaimsPending())
}

// measure selects with all callers while beside runs, and for at least one phase. Without a name it
// prints nothing.
func (b *stallsBench) measure(name string, beside func(context.Context)) {
	b.t.Helper()
	callers := exec.Command(os.Args[0], "-test.run=^TestBenchStalls$", "-test.timeout=30m")
	callers.Env = append(os.Environ(), "CELLGATE_STALLS_WEB="+b.system.web, fmt.Sprint("STALLS_CALLERS=", b.callers))
	callers.Stderr = os.Stderr
	var printed bytes.Buffer
	callers.Stdout = &printed
	stop, err := callers.StdinPipe()
	if err == nil {
		err = callers.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	began := time.Now()
	beside(b.t.Context())
	took := time.Since(began)
	hold(b.t.Context(), b.phase-took)
	_ = stop.Close()
	if err := callers.Wait(); err != nil {
		b.t.Fatalf("the callers: %v: ... %s", err, printed.Bytes()[max(0, printed.Len()-1000):])
	}
	var got stallsTimes
	line, _, _ := bytes.Cut(printed.Bytes(), []byte("\n"))
	if err := json.Unmarshal(line, &got); err != nil || len(got.Times) == 0 {
		b.t.Fatalf("%s: no selection was answered: %v in %s", name, err, printed.Bytes())
	}
	if name == "" {
		return
	}
	slices.Sort(got.Times)
	at := func(q float64) float64 {
		return float64(got.Times[min(len(got.Times)-1, int(q*float64(len(got.Times))))].Microseconds()) / 1000
	}
	b.t.Logf("| %s | %.0f | %.1f | %.1f | %.1f | %d | %v |", name, float64(len(got.Times))/got.Took.Seconds(), at(0.5), at(0.99), at(1), got.Failed, took.Round(100*time.Millisecond))
}

// stallsTimes is the callers' output: the duration of each selection.
type stallsTimes struct {
	Times  []time.Duration
	Failed int64
	Took   time.Duration
}

// callForStalls is the callers' process. It selects until its input ends, and prints a stallsTimes.
func callForStalls(t *testing.T, web string) {
	c := &stallsCaller{url: "http://" + web + "/v1/", web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var all sync.WaitGroup
	var failed atomic.Int64
	times := make([][]time.Duration, envNumber(t, "STALLS_CALLERS", 8))
	start := time.Now()
	for i := range times {
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				given, err := c.selectOne()
				if err == nil {
					times[i] = append(times[i], time.Since(began))
					err = c.giveBack(given)
				}
				if err != nil {
					if failed.Add(1) == 1 {
						fmt.Fprintln(os.Stderr, err)
					}
					hold(ctx, 50*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	c.web.CloseIdleConnections()
	if err := json.NewEncoder(os.Stdout).Encode(stallsTimes{slices.Concat(times...), failed.Load(), time.Since(start)}); err != nil {
		t.Fatal(err)
	}
}

type stallsCaller struct {
	url string
	web *http.Client
}

// selectOne selects an instance's host.
func (c *stallsCaller) selectOne() (*cellgatev1.ReleaseClaimRequest, error) {
	instance := uuid.NewString()
	text, err := c.call(http.MethodPost, "select_destinations", fmt.Appendf(nil, stallsRequest, instance))
	if err != nil {
		return nil, err
	}
	var answer cellgatev1.SelectDestinationsResponse
	if err := protojson.Unmarshal(text, &answer); err != nil || len(answer.GetDestinations()) != 1 {
		return nil, fmt.Errorf("no destination: %w in %.300s", err, text)
	}
	to := answer.GetDestinations()[0].GetSelected()
	return &cellgatev1.ReleaseClaimRequest{ConsumerUuid: instance, ClaimId: to.GetClaimId(), Cell: to.GetCell()}, nil
}

// giveBack releases a claim, so that the hosts stay as full as they are.
func (c *stallsCaller) giveBack(ref *cellgatev1.ReleaseClaimRequest) error {
	_, err := c.call(http.MethodDelete, fmt.Sprintf("claims/%s?claim_id=%s&cell=%s", ref.GetConsumerUuid(), ref.GetClaimId(), ref.GetCell()), nil)
	return err
}

func (c *stallsCaller) call(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.web.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s: %.300s", resp.Status, text)
	}
	return text, err
}

func pauseUntil(t time.Time) { <-time.After(time.Until(t)) }
