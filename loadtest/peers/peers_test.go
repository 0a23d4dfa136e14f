package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"cellgate/internal/bench"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outputEnv names the folder of the report, and binaryEnv cellgate's binary. make peers sets both.
const (
	outputEnv = "CELLGATE_PEERS"
	binaryEnv = "CELLGATE_PEERS_BINARY"
)

// TestPeers_EveryStep_ClaimsAndGivesBack measures all steps. It fails when a system makes no claim in one of
// them, or does not release what it claimed; no time is asserted.
func TestPeers_EveryStep_ClaimsAndGivesBack(t *testing.T) {
	folder := os.Getenv(outputEnv)
	if folder == "" {
		t.Skip("make peers runs it; make test has the tests of its parts")
	}
	p, err := readPlan(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	progress("plan: %v", p)
	// A run that is interrupted stops its servers and removes their data.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := newReport(p)
	if err != nil {
		t.Fatal(err)
	}
	r.YardstickBefore = yardstick(t)
	server := startPlacement(t)
	for _, n := range p.hosts {
		for _, o := range p.orders {
			steps, hosts, err := measureCellgate(ctx, os.Getenv(binaryEnv), server, n, o, p)
			r.Steps = append(r.Steps, steps...)
			if err != nil {
				t.Fatalf("cellgate, %d hosts, %s: %v", n, o, err)
			}
			steps, err = measurePlacement(ctx, server, hosts, o, p)
			r.Steps = append(r.Steps, steps...)
			if err != nil {
				t.Fatalf("Placement, %d hosts, %s: %v", n, o, err)
			}
			// Steps measured so far are kept, should a later step fail.
			if err := r.write(folder); err != nil {
				t.Fatal(err)
			}
		}
	}
	progress("timing Nova's filters")
	if r.Filters, err = timeFilters(ctx, p.hosts); err != nil {
		t.Fatal(err)
	}
	r.YardstickAfter, r.LoadAfter = yardstick(t), loadAverage()
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Steps {
		if s.Claims == 0 {
			t.Errorf("%s, %d hosts, %s, %d callers: no claim was made: %v", s.System, s.Hosts, s.Order, s.Callers, s.Errors)
		}
	}
}

func yardstick(t *testing.T) bench.Yardstick {
	t.Helper()
	y, err := bench.MeasureYardstick(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return y
}

// mostOf leaves a fifth of the room, so that the last hosts do not decide.
func mostOf(hosts []*cellgatev1.Host) int { return room(hosts) * 4 / 5 }

// measureCellgate runs a cellgate of its own for the steps of an order, and gives its hosts as they are
// when nothing is claimed. Placement has the same hosts afterwards.
func measureCellgate(ctx context.Context, binary string, server *placement, n int, o order, p plan) (steps []step, hosts []*cellgatev1.Host, err error) {
	c, err := startCellgate(binary, n, o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.Remove()) }()
	defer http.DefaultClient.CloseIdleConnections()
	if hosts, err = c.hosts(ctx); err != nil {
		return nil, nil, err
	}
	if err := server.addHosts(ctx, hosts); err != nil {
		return nil, nil, fmt.Errorf("providers of Placement: %w", err)
	}
	for _, callers := range callerSteps {
		before, err := c.lostRaces(ctx)
		if err != nil {
			return steps, hosts, err
		}
		s, err := measure(ctx, c, callers, mostOf(hosts), p.each)
		if err != nil {
			return steps, hosts, err
		}
		after, err := c.lostRaces(ctx)
		if err != nil {
			return steps, hosts, err
		}
		s.Lost += after - before
		steps = append(steps, labelled(s, cellgateName, n, o))
	}
	return steps, hosts, nil
}

func measurePlacement(ctx context.Context, server *placement, hosts []*cellgatev1.Host, o order, p plan) (steps []step, err error) {
	for _, callers := range callerSteps {
		s, err := measure(ctx, placementClaims{server, o}, callers, mostOf(hosts), p.each)
		if err != nil {
			return steps, err
		}
		steps = append(steps, labelled(s, placementName, len(hosts), o))
	}
	return steps, nil
}

func labelled(s step, system string, hosts int, o order) step {
	s.System, s.Hosts, s.Order = system, hosts, o
	progress("%s, %d hosts, %s, %d callers: %s claims/s, p50 %s ms, p99 %s ms, %d claims, %d races lost, errors %v",
		system, hosts, o, s.Callers, short(s.Rate), short(s.Latency.P50), short(s.Latency.P99), s.Claims, s.Lost, s.Errors)
	return s
}
