package gateway

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// twoReplicas is a world of one cell with two replicas, which both say they are it.
func twoReplicas(t *testing.T, change func(*Config)) *world {
	t.Helper()
	return twoReplicasLogged(t, change, slog.New(slog.DiscardHandler))
}

// twoReplicasLogged is twoReplicas with the gateway's log.
func twoReplicasLogged(t *testing.T, change func(*Config), log *slog.Logger) *world {
	t.Helper()
	first, second := newFakeCell(1, testHost(1, 9)), newFakeCell(1, testHost(1, 9))
	second.name = "replica2"
	w := startLogged(t, []*fakeCell{first, second}, func(c *Config) {
		c.Cells = c.Cells[:1]
		c.Cells[0].Replicas = []string{"cell1", "replica2"}
		if change != nil {
			change(c)
		}
	}, log)
	second.mu.Lock()
	second.name = "cell1"
	second.mu.Unlock()
	time.Sleep(2 * summaryEvery) // virtual: until it is no stranger
	return w
}

// A replica that fails at once costs nobody anything while another one serves;
// one that hangs costs a budget until it is known.
func TestReadsAndProposalsGoToTheNextReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.cells[0].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "loading") }, nil)
		for range 3 {
			if resp, took, err := w.dry(t.Context()); err != nil || took != 0 || resp.GetPartial() {
				t.Fatalf("took %v: %v, %v", took, resp, err)
			}
			if _, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)}); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.claims.ReleaseClaim(t.Context(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(1, 1), ClaimId: "early"}); err != nil {
			t.Error(err)
		}
		w.cells[0].hook(nil, nil)
		time.Sleep(5 * time.Second) // virtual
		w.cells[0].hook(hangAll, nil)
		slow := 0
		for range 50 {
			if _, took, _ := w.dry(t.Context()); took > 0 {
				slow++
			}
		}
		if slow > w.g.cfg.Breaker.Failures {
			t.Errorf("%d requests waited", slow)
		}
	})
}

// What changes nothing and is under way at a replica when its breaker opens goes to the next
// replica at once, whatever is left of the retries.
func TestWhatIsUnderWayWhenABreakerOpensGoesToTheNextReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		w.cells[0].hook(hangAll, nil)
		c := w.g.cells[0]
		for c.retries.take() {
		}
		reads := []func() error{
			func() error { _, _, err := w.dry(t.Context()); return err },
			func() error {
				_, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)})
				return err
			},
		}
		done := make(chan error, len(reads))
		for _, read := range reads {
			go func() { done <- read() }()
		}
		synctest.Wait()
		began := time.Now()
		for first := c.replicas[0]; first.refuses() == nil; {
			p, err := first.breaker.enter(asks)
			if err != nil {
				t.Fatal(err)
			}
			p.leave(failed, fault.New(fault.CellUnavailable, "killed"))
		}
		for range reads {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
	})
}

// A claim whose outcome is unknown is not sent to another replica: it is released,
// through one that answers, and planned again under another id; once for each other
// replica.
func TestUnknownClaimIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		sent, released := map[string]int{}, map[string]int{}
		count := func(method string, req any) {
			if b, ok := req.(*cellv1.ClaimBatchRequest); ok {
				for _, op := range b.GetOps() {
					if c := op.GetClaim(); c != nil {
						sent[c.GetClaimId()]++
					}
					if r := op.GetRelease(); r != nil {
						released[r.GetClaimId()]++
					}
				}
			}
		}
		for _, c := range w.cells {
			c.hook(func(_ context.Context, method string, req any) error {
				w.cells[0].mu.Lock()
				defer w.cells[0].mu.Unlock()
				count(method, req)
				return nil
			}, func(method string, req any) error {
				if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetClaim() != nil {
					return fault.New(fault.CellUnavailable, "the reply is lost")
				}
				return nil
			})
		}
		w.refused(ask(1, 1), fault.CellUnavailable)
		synctest.Wait()
		if len(sent) != 2 {
			t.Errorf("claims sent: %v", sent)
		}
		for id, n := range sent {
			if n != 1 || released[id] == 0 {
				t.Errorf("claim %s was sent %d times and released %d times", id, n, released[id])
			}
		}
	})
}

// When every replica is sick the load is not multiplied by their number.
func TestRetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, func(c *Config) { c.Breaker.Failures, c.Breaker.Window = 1<<30, 24*time.Hour })
		// Enough that went well, so that the share of failures opens nothing.
		for range 500 {
			if _, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range w.g.cells[0].replicas { // the second one too
			for range 5000 {
				p, err := r.breaker.enter(asks)
				if err != nil {
					t.Fatal(err)
				}
				p.leave(served, nil)
			}
		}
		var calls atomic.Int32
		for _, c := range w.cells {
			c.hook(func(_ context.Context, method string, _ any) error {
				if method == "ListHosts" {
					calls.Add(1)
					return fault.New(fault.CellUnavailable, "sick")
				}
				return nil
			}, nil)
		}
		const users = 1000
		for range users {
			_, err := w.hosts.GetHost(t.Context(), &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)})
			mustFail(t, nil, err, fault.CellUnavailable)
		}
		if n := calls.Load(); n <= users || n > users+users/retryCost+retryMost/retryCost {
			t.Errorf("%d calls for %d of users", n, users)
		}
	})
}
