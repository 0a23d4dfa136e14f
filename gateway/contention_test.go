package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// While claims of a shape are refused, requests of this shape pick among the best few hosts, and their answers are not
// exact. With KeepOrder no pick leaves the order. Once claims succeed again, all picks are exact.
func TestPicksSpreadWhileClaimsAreRefused(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, cellsOf(1, 20), func(c *Config) { c.KeepOrder = keep })
			defer w.cells[0].hook(nil, nil)
			inexact := func(first int) (n int) {
				for i := range 8 {
					if !w.choose(ask(first+i, 1)).GetExact() {
						n++
					}
				}
				return n
			}
			if n := inexact(1); n != 0 {
				t.Errorf("keep %v, idle: %d picks out of the order", keep, n)
			}
			refusals := 12
			w.cells[0].hook(func(_ context.Context, method string, req any) error {
				if method == "ClaimBatch" && refusals > 0 {
					refusals--
					for _, c := range claimsIn(req) {
						c.Allocations[0].Amount = 100000
					}
				}
				return nil
			}, nil)
			w.choose(ask(100, 1))
			before := w.metric("cellgate_gateway_inexact_total") // the request that was refused may be counted
			n := inexact(200)
			if (n > 0) == keep {
				t.Errorf("keep %v, after refusals: %d picks out of the order", keep, n)
			}
			w.counts(before+float64(n), "cellgate_gateway_inexact_total", "spread")
			w.counts(before+float64(n), "cellgate_gateway_inexact_total")
			time.Sleep(time.Minute)
			if n := inexact(300); n != 0 {
				t.Errorf("keep %v, a minute later: %d picks out of the order", keep, n)
			}
		})
	}
}
