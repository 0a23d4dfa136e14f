package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// While hosts pass the filters, a request retries until its deadline. Only then is the error CONTENDED.
func TestContendedOnlyAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) { c.MaxDeadline = 5 * time.Second })
		// The shard refuses what the table still shows as free.
		w.cells[0].hook(func(_ context.Context, method string, req any) error {
			if method == "ClaimBatch" {
				for _, c := range claimsIn(req) {
					c.Allocations[0].Amount = 100000
				}
			}
			return nil
		}, nil)
		began := time.Now()
		e := w.refused(ask(1, 1), fault.Contended)
		if took := time.Since(began); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("gave up after %v of 5 s", took)
		}
		if n := len(w.cells[0].did()); n < 50 || !strings.Contains(e.Message, "lost to other requests") {
			t.Errorf("%v after %d attempts", e, n)
		}
	})
}

// many sends requests at once and gives their errors, nil for placed.
func (w *world) many(reqs []*cellgatev1.SelectDestinationsRequest) []error {
	errs := make([]error, len(reqs))
	var all sync.WaitGroup
	for i, r := range reqs {
		all.Go(func() { _, errs[i] = w.scheduler.SelectDestinations(context.Background(), r) })
	}
	all.Wait()
	return errs
}

// patient gives a gateway budgets that a busy machine does not exceed.
func patient(c *Config) {
	c.ProposeBudget, c.ClaimBudget, c.MaxDeadline = 20*time.Second, 20*time.Second, 120*time.Second
	c.Breaker.ProbeBudget = 20 * time.Second
}

// cellsOf builds cells of hosts that hold exactly one instance of 16 VCPU each.
func cellsOf(cells, hosts int) []*testCell {
	var out []*testCell
	for c := range cells {
		var hs []schedule.Host
		for h := range hosts {
			hs = append(hs, testHost(1+c*hosts+h, 1))
		}
		out = append(out, newCell(1+c, hs...))
	}
	return out
}

func whole(first, n int) *cellgatev1.SelectDestinationsRequest {
	r := ask(first, n)
	r.GetRequestSpec().Flavor.Vcpus = 16
	return r
}

// No caller is refused while hosts fit: as many requests as there is room for arrive at once,
// and all want the same best host.
func TestNobodyIsRefusedWhatFits(t *testing.T) {
	w := start(t, cellsOf(3, 40), patient)
	var reqs []*cellgatev1.SelectDestinationsRequest
	for i := range 120 {
		reqs = append(reqs, whole(1+i, 1))
	}
	for i, err := range w.many(reqs) {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := w.liveClaims(); n != 120 {
		t.Errorf("%d claims on 120 hosts", n)
	}
}

func TestAntiAffinityGroupPlacedAllAtOnce(t *testing.T) {
	w := start(t, cellsOf(3, 40), patient)
	var reqs []*cellgatev1.SelectDestinationsRequest
	for i := range 100 {
		r := ask(1+i, 1)
		r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0x9, 1), Policy: "anti-affinity"}
		reqs = append(reqs, r)
	}
	for i, err := range w.many(reqs) {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	hosts := map[string]bool{}
	for _, c := range w.cells {
		for _, claim := range c.live() {
			hosts[claim.GetServiceHost()] = true
		}
	}
	if n := w.liveClaims(); n != 100 || len(hosts) != 100 {
		t.Errorf("%d claims of 100 on %d hosts", n, len(hosts))
	}
}

// Requests for two instances each arrive at once, twice as many as there is room for. A request that holds one host and
// waits for the second releases the first. So pairs are placed, none by halves, and no request ends with CONTENDED.
func TestPairsDoNotStarveEachOther(t *testing.T) {
	w := start(t, cellsOf(2, 20), patient)
	var reqs []*cellgatev1.SelectDestinationsRequest
	for i := range 40 {
		reqs = append(reqs, whole(1+2*i, 2))
	}
	placed := 0
	for i, err := range w.many(reqs) {
		switch {
		case err == nil:
			placed++
		case fault.KindOf(err) != fault.NoValidHost:
			t.Errorf("request %d: %v", i, err)
		}
	}
	if n := w.liveClaims(); n != 2*placed {
		t.Errorf("%d claims for %d pairs", n, placed)
	}
	if placed < 15 {
		t.Errorf("%d pairs of 20 that fit were placed", placed)
	}
	// The next requests find the hosts that are left.
	for i := range 20 - placed {
		w.choose(whole(1000+2*i, 2))
	}
	w.refused(whole(2000, 1), fault.NoValidHost)
}

// If one of two instances of a hard-affinity group loses a race, the request goes on while another host holds both.
func TestAffinityPairStartsOverOnAnotherHost(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 4), testHost(2, 3))}, nil)
	claims := 0
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if method == "ClaimBatch" && len(claimsIn(req)) > 0 {
			if claims++; claims == 1 {
				// Room for one of the two is left on the better host.
				h := testHost(1, 4)
				h.Resources[0].Used = 62
				w.cells[0].report(h)
			}
		}
		return nil
	}, nil)
	r := ask(1, 2)
	r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0x9, 1), Policy: "affinity"}
	for _, d := range w.choose(r).GetDestinations() {
		if h := d.GetSelected().GetServiceHost(); h != "host002" {
			t.Errorf("placed on %s", h)
		}
	}
	if n := w.liveClaims(); n != 2 {
		t.Errorf("%d claims", n)
	}
}
