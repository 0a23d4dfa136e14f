package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
)

// drainWorld is a system of real processes under a steady load through gRPC and
// REST.
type drainWorld struct {
	*realSystem
	client       *loadProcess
	acknowledged *promises
	read         int64
	rest         *restLoad
}

func startDrainWorld(t *testing.T) *drainWorld {
	t.Helper()
	s := startSystem(t, 2, 15, func(kind string) []string {
		switch kind {
		case "gateway":
			return []string{"--drain-delay", "2s", "--propose-budget", "5s", "--claim-budget", "8s"}
		case "cell":
			return []string{"--drain-delay", "300ms"}
		}
		return nil
	})
	l := chaosLoad{Addr: s.api, Log: filepath.Join(t.TempDir(), "acknowledged.jsonl"), Seed: 2, Workers: 4, Short: time.Second, Long: 30 * time.Second, Within: time.Minute}
	w := &drainWorld{realSystem: s, client: startLoad(t, l), acknowledged: newPromises(l), rest: startREST(t, s.web, 2)}
	w.client.command("go")
	w.loaded(50)
	return w
}

// loaded waits until so many requests were answered by gRPC, and some by REST.
func (w *drainWorld) loaded(least int64) {
	w.t.Helper()
	before, rest := w.client.command("count").Acknowledged, w.rest.answers()
	w.await(testwait.Limit, "the load is there", func(context.Context) (bool, string) {
		c := w.client.command("count")
		return c.Acknowledged-before >= least && int64(w.rest.answers()-rest) >= least/10, fmt.Sprintf("%d acknowledged, REST %d", c.Acknowledged-before, w.rest.answers()-rest)
	})
}

// terminate stops a process and requires a clean exit.
func (w *drainWorld) terminate(m *member, meanwhile func()) {
	w.t.Helper()
	ended := make(chan error, 1)
	process := m.cmd.Process
	go func() { ended <- m.signal(syscall.SIGTERM) }()
	if meanwhile != nil {
		meanwhile()
	}
	select {
	case err := <-ended:
		if err != nil {
			w.t.Errorf("%s after SIGTERM: %v\n%s", m.name, err, m.tail())
		}
	case <-time.After(testwait.Limit):
		_ = process.Kill()
		w.t.Errorf("%s did not end within %v of SIGTERM: %v", m.name, testwait.Limit, <-ended)
	}
}

// verify checks that no call was cut off, and that everything acknowledged exists.
func (w *drainWorld) verify() {
	w.t.Helper()
	count := w.client.command("pause")
	w.rest.stop()
	if count.Cut != 0 {
		w.t.Errorf("%d calls were cut in the middle: %+v", count.Cut, count)
	}
	for _, p := range w.rest.problems() {
		w.t.Errorf("REST: %s", p)
	}
	notes, read, err := readNotes(w.acknowledged.load.Log, w.read)
	if err != nil {
		w.t.Fatal(err)
	}
	w.read = read
	w.acknowledged.addNotes(notes)
	for _, odd := range w.acknowledged.odd {
		w.t.Error(odd)
	}
	at := time.Now()
	live, err := w.claims()
	if err != nil {
		w.t.Fatal(err)
	}
	for id, c := range live {
		if !strings.HasPrefix(c.GetRequestId(), chaosRequests) && !c.GetAdopted() {
			delete(live, id) // from the REST load
		}
	}
	v := w.acknowledged.compare(live, at, time.Now(), false)
	for _, p := range v.Problems {
		w.t.Error(p)
	}
	// The number of live claims depends on the machine's speed.
	if v.Due < 5 || v.Found != v.Due {
		w.t.Errorf("%d of %d acknowledged claims were found, want all of at least 5", v.Found, v.Due)
	}
	w.t.Logf("%+v; %d of %d acknowledged claims found; REST %d answers, %d refused connections, %d reset", count, v.Found, v.Due, w.rest.answers(), w.rest.refused, w.rest.reset)
}

func TestDrainingGatewayAnswersEveryRequest(t *testing.T) {
	w := startDrainWorld(t)
	w.terminate(w.gateway, func() {
		w.await(testwait.Limit, "draining is said", func(ctx context.Context) (bool, string) {
			code, report, err := w.ready(ctx)
			return code == http.StatusServiceUnavailable && report.Checks[0].Name == "draining" && !report.Checks[0].OK, fmt.Sprint(code, report, err)
		})
		if state := w.health(t, w.api, "cellgate.v1.Scheduler"); state != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the gRPC health service says %s while draining", state)
		}
		w.loaded(10) // requests are still answered
	})
	w.gateway.start()
	w.awaitReady(testwait.Limit)
	if state := w.health(t, w.api, ""); state != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the gRPC health service says %s when ready", state)
	}
	w.loaded(50)
	w.verify()
	if w.rest.closing() == 0 {
		t.Error("no REST answer closed its connection while draining")
	}
}

func TestDrainingCellLosesNothing(t *testing.T) {
	testlong.Only(t, "TestDrainingGatewayAnswersEveryRequest")
	w := startDrainWorld(t)
	cellAddr := w.cells[0].args[6]
	if state := w.health(t, cellAddr, "cellgate.cell.v1.CellScheduler"); state != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the cell's health service says %s when ready", state)
	}
	w.terminate(w.cells[0], func() {
		w.await(testwait.Limit, "draining is said", func(context.Context) (bool, string) {
			state := w.health(t, cellAddr, "cellgate.cell.v1.CellScheduler")
			return state == healthpb.HealthCheckResponse_NOT_SERVING, state.String()
		})
	})
	w.loaded(50) // by the other cell
	w.cells[0].start()
	w.awaitReady(testwait.Limit)
	w.loaded(50)
	w.verify()
	// The agents' streams ended with the cell and were reopened.
	w.await(testwait.Limit, "the agents are back", func(context.Context) (bool, string) {
		tail := w.agents[0].tail()
		lost, back := strings.LastIndex(tail, "reporting=0 "), strings.LastIndex(tail, "reporting=15 ")
		return back > lost, tail
	})
}

// A second signal ends a draining process at once.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := startSystem(t, 1, 1, func(kind string) []string {
		if kind == "gateway" {
			return []string{"--drain-delay", "1m"}
		}
		return nil
	})
	if err := s.gateway.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.await(testwait.Limit, "draining is said", func(ctx context.Context) (bool, string) {
		code, report, err := s.ready(ctx)
		return code == http.StatusServiceUnavailable, fmt.Sprint(code, report, err)
	})
	if err := s.gateway.signal(syscall.SIGTERM); err == nil || !strings.Contains(err.Error(), "signal: terminated") {
		t.Errorf("ended with %v, want by the second signal", err)
	}
}

// health asks a process's gRPC health service.
func (s *realSystem) health(t *testing.T, addr, service string) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	defer cancel()
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		t.Errorf("health of %s: %v", addr, err)
	}
	return resp.GetStatus()
}

// restLoad sends selections through REST. Each connection sends one at a time.
type restLoad struct {
	url     string
	client  *http.Client
	end     context.CancelFunc
	number  int
	workers sync.WaitGroup

	mu             sync.Mutex
	count, closed  int
	refused, reset int
	wrong          []string
}

func startREST(t *testing.T, addr string, workers int) *restLoad {
	ctx, cancel := context.WithCancel(context.Background())
	l := &restLoad{url: "http://" + addr + "/v1/select_destinations", end: cancel, number: workers, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: workers}, Timeout: testwait.Limit,
	}}
	for range workers {
		l.workers.Go(func() {
			for ctx.Err() == nil {
				l.one(ctx)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// one sends a request that Go's client does not repeat, because the client cannot know that it is
// idempotent.
func (l *restLoad) one(ctx context.Context) {
	body := fmt.Sprintf(`{"instance_uuids": [%q], "claim_ttl": "2s", "request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}}`, uuid.NewString())
	resp, err := l.client.Post(l.url, "application/json", io.MultiReader(bytes.NewReader([]byte(body))))
	var text []byte
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		// Nobody listens, which is a clean refusal.
		l.refused++
		l.mu.Unlock()
		hold(ctx, 20*time.Millisecond)
		l.mu.Lock()
	case errors.Is(err, syscall.ECONNRESET):
		// The connection was made at the moment when the port closed. That may happen once per
		// worker.
		if l.reset++; l.reset > l.number {
			l.wrong = append(l.wrong, err.Error())
		}
	case err != nil:
		l.wrong = append(l.wrong, err.Error())
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable && !strings.Contains(string(text), "NO_VALID_HOST"):
		l.wrong = append(l.wrong, fmt.Sprintf("%d %s", resp.StatusCode, text))
	default:
		l.count++
		if resp.Close {
			l.closed++
		}
	}
}

func (l *restLoad) stop() {
	l.end()
	l.workers.Wait()
	l.client.CloseIdleConnections()
}

func (l *restLoad) answers() int       { l.mu.Lock(); defer l.mu.Unlock(); return l.count }
func (l *restLoad) closing() int       { l.mu.Lock(); defer l.mu.Unlock(); return l.closed }
func (l *restLoad) problems() []string { l.mu.Lock(); defer l.mu.Unlock(); return l.wrong }
