package gateway

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// hangAll blocks every call until its caller gives up, like a process that is stopped but not dead.
func hangAll(ctx context.Context, _ string, _ any) error {
	<-ctx.Done()
	return ctx.Err()
}

// dry sends a dry run, and returns how long the answer took.
func (w *world) dry(ctx context.Context) (*cellgatev1.SelectDestinationsResponse, time.Duration, error) {
	req := ask(1, 1)
	req.DryRun = true
	began := time.Now()
	resp, err := w.scheduler.SelectDestinations(ctx, req)
	return resp, time.Since(began), err
}

// state returns the breaker state of a cell's first replica.
func (w *world) state(cell int) cellgatev1.BreakerState {
	return w.g.cells.All[cell].ReplicaStates()[0].GetBreaker()
}

// trip makes a cell hang and asks until its breaker is open.
func (w *world) trip(cell int) {
	w.t.Helper()
	w.cells[cell].hook(hangAll, nil)
	for range 20 {
		if _, _, err := w.dry(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		if w.state(cell) == cellgatev1.BreakerState_OPEN {
			return
		}
	}
	w.t.Fatal("the breaker never opened")
}

// Requests that are under way when a cell freezes wait for their budget once. Requests after
// the breaker opens do not wait.
func TestI7_AfterTheTripAHungCellCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(3, 2), nil)
		w.cells[2].hook(hangAll, nil)
		const callers = 64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				if resp, took, err := w.dry(t.Context()); err != nil || took != w.g.cfg.ProposeBudget || !resp.GetPartial() {
					t.Errorf("took %v: %v, %v", took, resp, err)
				}
			})
		}
		all.Wait()
		// 10 s of requests, through open and half-open.
		for range 200 {
			resp, took, err := w.dry(t.Context())
			if err != nil || took != 0 {
				t.Fatalf("took %v: %v", took, err)
			}
			r := resp.GetCells()[2]
			if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 SEARCHED, cell3 UNAVAILABLE" || !resp.GetPartial() ||
				!strings.HasPrefix(r.GetReason(), "breaker open since 2000-01-01T00:00:0") {
				t.Fatalf("%s: %s", got, r.GetReason())
			}
			time.Sleep(50 * time.Millisecond) // virtual
		}
	})
}

// With one caller at a time, no more requests wait than failures open the breaker.
func TestI7_FewRequestsWaitForAHungCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.cells[1].hook(hangAll, nil)
		slow := 0
		for range 100 {
			_, took, err := w.dry(t.Context())
			if err != nil || took > w.g.cfg.ProposeBudget {
				t.Fatalf("took %v: %v", took, err)
			}
			if took > 0 {
				slow++
			}
		}
		if slow == 0 || slow > w.g.cfg.Breaker.Failures {
			t.Errorf("%d requests waited", slow)
		}
	})
}

// If a cell is gone, no request waits for it, and the first call or probe opens its breaker.
func TestI7_CellThatIsGoneOpensAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.servers[1].Stop()
		for range 2 {
			resp, took, err := w.dry(t.Context())
			if err != nil || took != 0 || !resp.GetPartial() {
				t.Fatalf("took %v: %v, %v", took, resp, err)
			}
		}
		if s := w.state(1); s != cellgatev1.BreakerState_OPEN {
			t.Errorf("the breaker is %v", s)
		}
	})
}

// Within its budget a cell may be as slow as it likes.
func TestSlowCellKeepsItsBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.cells[1].hook(delay("ProposeBatch", 240*time.Millisecond), nil)
		for range 40 {
			if resp, _, err := w.dry(t.Context()); err != nil || resp.GetPartial() {
				t.Fatalf("%v, %v", resp, err)
			}
		}
	})
}

// More requests arrive at once than a slow cell can do within the budget. Some wait in vain, but the breaker stays
// closed, because the cell answers the others.
func TestBusyCellKeepsItsBreakerClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.cells[1].hook(delay("ProposeBatch", 200*time.Millisecond), nil)
		var in, vain atomic.Int32
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond) // virtual
				for range 4 {
					if resp, _, err := w.dry(t.Context()); err != nil {
						t.Error(err)
					} else if resp.GetPartial() {
						vain.Add(1)
					} else {
						in.Add(1)
					}
				}
			})
		}
		all.Wait()
		if s := w.state(1); s != cellgatev1.BreakerState_CLOSED || in.Load() == 0 || vain.Load() == 0 {
			t.Errorf("the breaker is %v, %d in time, %d in vain", s, in.Load(), vain.Load())
		}
	})
}

// The breaker does not count failures that callers cause: they cancel, or leave less time than a cell may take. The
// cell answers the prober meanwhile.
func TestImpatientCallersDoNotTrip(t *testing.T) {
	for name, limit := range map[string]func() (context.Context, context.CancelFunc){
		"cancelled": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		},
		"deadline": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 400*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, fleet(2, 2), nil)
				w.cells[1].hook(hang("ProposeBatch"), nil)
				for range 50 {
					ctx, cancel := limit()
					_, _, _ = w.dry(ctx)
					cancel()
				}
				if s := w.state(1); s != cellgatev1.BreakerState_CLOSED {
					t.Errorf("the breaker is %v", s)
				}
				w.cells[1].hook(nil, nil)
				if resp, _, err := w.dry(t.Context()); err != nil || resp.GetPartial() {
					t.Errorf("%v, %v", resp, err)
				}
			})
		})
	}
}

// If every caller is impatient, the prober finds the failure, within a time budget of its own.
func TestProberTripsForImpatientCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.cells[1].hook(hangAll, nil)
		began := time.Now()
		for w.state(1) == cellgatev1.BreakerState_CLOSED {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, _, _ = w.dry(ctx)
			cancel()
		}
		if took, most := time.Since(began), time.Duration(w.g.cfg.Breaker.Failures+1)*w.g.cfg.Breaker.ProbeBudget; took > most {
			t.Errorf("after %v, want %v at most", took, most)
		}
	})
}

// A cell that refuses calls is serving, however often it refuses. Only CELL_UNAVAILABLE and INTERNAL open the breaker.
func TestOnlySicknessTrips(t *testing.T) {
	errs := map[string]error{"a call it does not know": status.Error(codes.Unimplemented, "unknown method")}
	for _, k := range fault.Kinds() {
		errs[string(k)] = fault.New(k, "so it is")
	}
	for name, err := range errs {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, fleet(2, 2), nil)
				w.cells[1].hook(func(_ context.Context, method string, _ any) error {
					if method == "ListClaims" {
						return err
					}
					return nil
				}, nil)
				for range 25 {
					_, _ = w.claims.GetClaim(t.Context(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(1, 1)})
				}
				want := cellgatev1.BreakerState_CLOSED
				if k := fault.Kind(name); k == fault.CellUnavailable || k == fault.Internal {
					want = cellgatev1.BreakerState_OPEN
				}
				if s := w.state(1); s != want {
					t.Errorf("the breaker is %v", s)
				}
			})
		})
	}
}

// A hundred users send requests while a cell's breaker is open or half-open. Only the prober's calls
// reach the cell, one at a time.
func TestOnlyTheProberTriesASickCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.trip(1)
		var probes, now, most, others atomic.Int32
		w.cells[1].hook(func(ctx context.Context, method string, _ any) error {
			if method != "GetSummary" {
				others.Add(1)
			}
			probes.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		var users sync.WaitGroup
		for i := range 20 {
			users.Go(func() {
				for range 12 {
					time.Sleep(time.Duration(300+5*i) * time.Millisecond) // virtual
					if _, took, err := w.dry(t.Context()); err != nil || took != 0 {
						t.Errorf("took %v: %v", took, err)
					}
				}
			})
		}
		users.Wait()
		if probes.Load() < 3 || most.Load() != 1 || others.Load() != 0 {
			t.Errorf("%d probes, %d at once, %d calls of users", probes.Load(), most.Load(), others.Load())
		}
	})
}

// However long a cell was sick, it is asked again as soon as one probe after the
// open time is answered.
func TestI7_RecoveryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		b := w.g.cfg.Breaker
		const step = 20 * time.Millisecond
		bound := b.ProbeBudget + b.OpenFor + step
		for sick := 100 * time.Millisecond; sick < 3*time.Second; sick += 310 * time.Millisecond {
			w.trip(1)
			time.Sleep(sick) // virtual
			w.cells[1].hook(nil, nil)
			began := time.Now()
			for {
				resp, took, err := w.dry(t.Context())
				if err != nil || took != 0 {
					t.Fatalf("took %v: %v", took, err)
				}
				if !resp.GetPartial() {
					break
				}
				time.Sleep(step) // virtual
			}
			if took := time.Since(began); took > bound {
				t.Errorf("sick for %v: back after %v, want %v at most", sick, took, bound)
			}
		}
	})
}

// The log has one line when users' calls stop and one when they go on. The metric counts every change of state.
func TestBreaker_StateChanges_LoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log safeBuffer
		w := startWith(t, fleet(2, 2), nil, Deps{Log: slog.New(slog.NewTextHandler(&log, nil))})
		w.trip(1)
		time.Sleep(10 * time.Second) // virtual
		w.cells[1].hook(nil, nil)
		time.Sleep(2 * time.Second) // virtual
		if open, halfOpen, closed := w.breakerMoves("open"), w.breakerMoves("half-open"), w.breakerMoves("closed"); open < 3 || halfOpen != open || closed != 1 {
			t.Errorf("it opened %v times, was half-open %v times, closed %v times", open, halfOpen, closed)
		}
		for _, want := range []string{`level=WARN msg="breaker opens`, `level=INFO msg="breaker closes`} {
			if n := strings.Count(log.String(), want); n != 1 {
				t.Errorf("%s: %d times in\n%s", want, n, log.String())
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in\n%s", n, log.String())
		}
	})
}

func (w *world) breakerMoves(to string) float64 {
	return w.metric("cellgate_gateway_breaker_moves_total", "cell2", "cell2", to)
}
