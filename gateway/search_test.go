package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A call that names a claim or a host does not wait for a frozen cell once another cell has found it. A call that names
// an instance waits for the propose budget.
func TestI7_WhatIsFoundEndsTheSearch(t *testing.T) {
	for _, tt := range []struct {
		name string
		want time.Duration // 0 for at once
		call func(*world, *cellgatev1.Destinations) error
	}{
		{"GetClaim", 250 * time.Millisecond, func(w *world, _ *cellgatev1.Destinations) error {
			_, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)})
			return err
		}},
		{"GetClaim in its cell", 0, func(w *world, _ *cellgatev1.Destinations) error {
			_, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1), Cell: "cell1"})
			return err
		}},
		{"ReleaseClaim", 0, func(w *world, d *cellgatev1.Destinations) error {
			return w.releaseRef(d.GetSelected(), testUUID(0x1, 1), "")
		}},
		{"ClaimAlternate", 0, func(w *world, d *cellgatev1.Destinations) error {
			_, err := w.claims.ClaimAlternate(context.Background(), &cellgatev1.ClaimAlternateRequest{
				ConsumerUuid: testUUID(0x1, 1), ClaimId: d.GetSelected().GetClaimId(), HostUuid: d.GetAlternates()[0].GetComputeNodeUuid(),
			})
			return err
		}},
		{"GetHost", 0, func(w *world, d *cellgatev1.Destinations) error {
			_, err := w.hosts.GetHost(context.Background(), &cellgatev1.GetHostRequest{HostUuid: d.GetSelected().GetComputeNodeUuid()})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, []*testCell{newCell(1, testHost(1, 9), testHost(2, 9)), newCell(2, testHost(3, 1))}, nil)
				req := ask(1, 1)
				req.ReturnAlternates, req.MaxAlternates = true, 1
				d := w.choose(to(req, "cell1")).GetDestinations()[0]
				waited := make(chan time.Duration, 1)
				w.cells[1].hook(func(ctx context.Context, method string, _ any) error {
					if method != "ListClaims" && method != "ListHosts" && method != "ClaimBatch" {
						return nil
					}
					began := time.Now()
					<-ctx.Done()
					select {
					case waited <- time.Since(began):
					default:
					}
					return ctx.Err()
				}, nil)
				began := time.Now()
				if err := tt.call(w, d); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("took %v, want %v", took, tt.want)
				}
				if tt.name == "GetClaim in its cell" {
					return
				}
				// The call to the frozen cell goes on without the caller, so that it counts for the breaker.
				if d := <-waited; d != w.g.cfg.ClaimBudget {
					t.Errorf("the frozen cell was given %v", d)
				}
			})
		})
	}
}

// If no cell finds the claim, the search waits for all cells. A caller that leaves ends the calls.
func TestSearchWithoutAFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		w.cells[1].hook(hang("ListClaims"), nil)
		began := time.Now()
		_, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)})
		if fault.KindOf(rpc.FromStatus(err)) != fault.CellUnavailable || time.Since(began) != w.g.cfg.ClaimBudget {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(0x1, 1)}); err == nil || time.Since(began) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
