package standin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Everybody calls at once; -race watches. What a choice took is in the next answer of
// whoever chose.
func TestEverybodyAtOnce(t *testing.T) {
	f := &finding{}
	var finding sync.Mutex
	w := newWorld(t, 100, func(c *Config) { c.Now, c.FindFor, c.PinFor, c.Lag = time.Now, time.Nanosecond, time.Minute, time.Hour })
	w.cfg.Find = func(ctx context.Context, uuids []schedule.ID) ([]legacy.Instance, error) {
		finding.Lock()
		defer finding.Unlock()
		return f.find(ctx, uuids)
	}
	w.at = time.Now()
	for _, r := range w.rows {
		r.service.LastSeenUp = w.at
	}
	w.update()
	var all, choosers sync.WaitGroup
	done := make(chan struct{})
	for caller := range 4 {
		choosers.Go(func() {
			for k := range 50 {
				c := newClaim(caller*50+k, 20*caller+k%20)
				w.Chose(c, time.Now().Add(time.Hour))
				q := plain(1)
				q.Request.Group = &schedule.Group{UUID: schedule.ID{1}, Policy: schedule.AntiAffinity, Members: []schedule.ID{instanceID(caller*50 + k)}}
				out, err := w.ProposeBatch(t.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{
					wiretest.Query(q, "", nil), wiretest.Query(plain(2), "", nil),
				}})
				if err != nil {
					t.Error(err)
					return
				}
				p := out.GetProposals()[0]
				if g := p.GetGroupHosts(); len(g) != 1 || g[0].GetHostUuid() != c.GetHostUuid() {
					t.Errorf("instance %d was chosen for host %s, and is on %v", caller*50+k, c.GetHostUuid(), g)
				}
				again := out.GetProposals()[1].GetTableVersion()
				if p := w.raw(wiretest.Query(plain(2), again, nil)); p.GetFailure() != nil && p.GetFailure().GetReason() != string(fault.Gone) {
					t.Error(p.GetFailure())
				}
				if k%3 == 0 {
					w.Ended(c.GetClaimId())
				}
			}
		})
	}
	all.Go(func() {
		for k := 0; ; k++ {
			select {
			case <-done:
				return
			default:
			}
			w.change(k % 100).VCPUsUsed = int64(k % 60)
			w.Update(w.snapshot(), w.at, []*cellv1.AwaitedClaim{awaitedOf(newClaim(300+k%10, k%100))}, time.Now())
			_, _ = w.Summary(), w.Age(time.Now())
		}
	})
	choosers.Wait()
	close(done)
	all.Wait()
	left := map[string]bool{}
	for caller := range 4 {
		for k := range 50 {
			left[fmt.Sprint("claim-", caller*50+k)] = k%3 != 0
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, want := range left {
		if _, got := w.known.claims[id]; got != want {
			t.Errorf("%s counts: %t", id, got)
		}
	}
}
