package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Every operation that asks all cells skips an open breaker at once, and says what it does not know because of that.
func TestI7_OpenBreakerFailsFastEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		here, there := w.cells[0].fill(0, 1), w.cells[1].fill(100, 2)
		w.trip(1)
		began := time.Now()
		ctx := t.Context()
		names := func(err error) {
			t.Helper()
			e := mustFail(t, nil, err, fault.CellUnavailable)
			if e.Metadata["cells"] != "cell2" || !strings.Contains(e.Message, "cell2 (breaker open since ") {
				t.Errorf("%v %v", e, e.Metadata)
			}
		}
		// A claim in the healthy cell is found. A claim that may be in the sick cell is not reported as missing.
		if got, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: here.GetConsumerUuid()}); err != nil || got.GetClaim().GetClaimId() != here.GetClaimId() {
			t.Errorf("%v, %v", got, err)
		}
		_, err := w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: there.GetConsumerUuid()})
		names(err)
		_, err = w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: there.GetConsumerUuid(), Cell: "cell2"})
		names(err)
		if _, err := w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: here.GetConsumerUuid(), ClaimId: here.GetClaimId()}); err != nil {
			t.Error(err)
		}
		_, err = w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: there.GetConsumerUuid(), ClaimId: there.GetClaimId()})
		names(err)
		if _, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: here.GetConsumerUuid(), ClaimId: here.GetClaimId()}); err != nil {
			t.Error(err)
		}
		_, err = w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: there.GetConsumerUuid(), ClaimId: there.GetClaimId()})
		names(err)
		claims, err := w.claims.ListClaims(ctx, &cellgatev1.ListClaimsRequest{})
		if err != nil || strings.Join(claims.GetUnavailableCells(), ",") != "cell2" {
			t.Errorf("%v, %v", claims, err)
		}
		hosts, err := w.hosts.ListHosts(ctx, &cellgatev1.ListHostsRequest{})
		if err != nil || strings.Join(hosts.GetUnavailableCells(), ",") != "cell2" || len(hosts.GetHosts()) != 2 {
			t.Errorf("%v, %v", hosts, err)
		}
		if _, err := w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 0)}); err != nil {
			t.Error(err)
		}
		_, err = w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 100)})
		names(err)
		_, err = w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: "host100"})
		if names(err); !strings.Contains(err.Error(), `host "host100" is not in the cells that answered; these did not: cell2 (`) {
			t.Error(err)
		}
		cells, err := w.cellsAPI.ListCells(ctx, &cellgatev1.ListCellsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		sick, well := cells.GetCells()[1], cells.GetCells()[0]
		if sick.GetAvailable() || !strings.HasPrefix(sick.GetReason(), "breaker open since ") || !well.GetAvailable() {
			t.Errorf("%v", cells)
		}
		if r := sick.GetReplicaStates(); len(r) != 1 || r[0].GetAddress() != "cell2" || r[0].GetBreaker() != cellgatev1.BreakerState_OPEN ||
			!strings.HasPrefix(r[0].GetLastError(), "cell cell2 did not answer within ") || !r[0].GetSince().IsValid() {
			t.Errorf("%v", r)
		}
		if r := well.GetReplicaStates(); len(r) != 1 || r[0].GetBreaker() != cellgatev1.BreakerState_CLOSED || r[0].GetLastError() != "" {
			t.Errorf("%v", r)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("all that took %v", took)
		}
	})
}

// A call that reads, and waits for a cell's answer, stops waiting when the breaker opens.
func TestReadUnderWayEndsWithTheTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, fleet(2, 2), nil)
		w.cells[1].hook(hangAll, nil)
		began := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := w.claims.GetClaim(context.Background(), &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(1, 9)})
			done <- err
		}()
		synctest.Wait()
		for range w.g.cfg.Breaker.Failures {
			go func() { _, _, _ = w.dry(context.Background()) }()
		}
		e := mustFail(t, nil, <-done, fault.CellUnavailable)
		if took := time.Since(began); took != w.g.cfg.ProposeBudget || !strings.Contains(e.Message, "breaker open since") {
			t.Errorf("after %v: %v", took, e)
		}
		time.Sleep(time.Second) // virtual: the dry runs end
	})
}

// Every call to a cell has a deadline: its budget, or the caller's remaining time if that is shorter.
func TestEveryCallHasItsBudget(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, fleet(1, 4), nil)
			most := map[string]time.Duration{}
			w.cells[0].hook(func(ctx context.Context, method string, req any) error {
				if b, ok := req.(*cellv1.ClaimBatchRequest); ok {
					method += " " + strings.SplitN(b.GetOps()[0].String(), ":", 2)[0]
				}
				until, ok := ctx.Deadline()
				if !ok {
					t.Errorf("%s has no deadline", method)
				}
				w.cells[0].mu.Lock()
				defer w.cells[0].mu.Unlock()
				most[method] = max(most[method], time.Until(until))
				return nil
			}, nil)
			ctx, cancel := t.Context(), func() {}
			if limit > 0 {
				ctx, cancel = context.WithTimeout(ctx, limit)
			}
			defer cancel()
			group := ask(1, 2)
			group.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, 1), Policy: "affinity"}
			resp, err := w.scheduler.SelectDestinations(ctx, group)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range resp.GetDestinations() {
				ref := d.GetSelected()
				if _, err := w.claims.ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: ref.GetClaimId()}); err != nil {
					t.Error(err)
				}
				if _, err := w.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: d.GetInstanceUuid(), ClaimId: ref.GetClaimId()}); err != nil {
					t.Error(err)
				}
			}
			_, _ = w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(1, 1)})
			_, _ = w.claims.ListClaims(ctx, &cellgatev1.ListClaimsRequest{})
			_, _ = w.hosts.ListHosts(ctx, &cellgatev1.ListHostsRequest{})
			_, _ = w.hosts.GetHost(ctx, &cellgatev1.GetHostRequest{HostUuid: testUUID(0xa, 1)})
			_, _ = w.cellsAPI.ListCells(ctx, &cellgatev1.ListCellsRequest{})
			synctest.Wait()
			for method, want := range map[string]time.Duration{
				"ProposeBatch": w.g.cfg.ProposeBudget, "ListClaims": w.g.cfg.ClaimBudget, "ListHosts": w.g.cfg.ClaimBudget,
				"GetSummary": w.g.cfg.ClaimBudget, "ClaimBatch claim": cellclient.StepBudget(ctx, w.g.cfg.ClaimBudget), "ClaimBatch pin": cellclient.StepBudget(ctx, w.g.cfg.ClaimBudget),
				"ClaimBatch confirm": w.g.cfg.ClaimBudget, "ClaimBatch release": w.g.cfg.ClaimBudget, "ClaimBatch unpin": w.g.cfg.ClaimBudget,
			} {
				if limit > 0 && method != "ClaimBatch unpin" { // an unpin outlives its caller
					want = min(want, limit)
				}
				// gRPC rounds up the timeout that it sends.
				if got := most[method]; got <= 0 || got > want+time.Millisecond {
					t.Errorf("caller's limit %v: %s has %v, want %v at most and more than nothing", limit, method, got, want)
				}
			}
		})
	}
}

// A breaker that opens after a proposal and before its claim: the claim is not sent, so nothing is in doubt and
// nothing has to be released.
func TestClaim_BreakerOpenedAfterProposal_NotInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
		// The group's pin is in the first cell, so the gateway asks this cell between the proposals and the claim.
		req, n := ask(1, 1), 1
		for w.g.claims.Arbiter(testUUID(0xe, n)).Name() != "cell1" {
			n++
		}
		req.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, n), Policy: "affinity"}
		w.cells[1].hook(func(_ context.Context, method string, _ any) error {
			if method == "ListClaims" {
				return fault.New(fault.Internal, "broken")
			}
			return nil
		}, nil)
		w.cells[0].hook(func(ctx context.Context, _ string, req any) error {
			if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetPin() != nil {
				for range w.g.cfg.Breaker.Failures {
					_, _ = w.claims.GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: testUUID(1, 9), Cell: "cell2"})
				}
			}
			return nil
		}, nil)
		w.refused(req, fault.CellUnavailable)
		synctest.Wait()
		if did := w.cells[1].did(); len(did) > 0 {
			t.Errorf("cell2 did %v", did)
		}
	})
}
