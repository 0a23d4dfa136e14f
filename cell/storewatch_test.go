package cell

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// placing gives the errors of a summary and of a proposal.
func (r *testCell) placing() (summary, proposal error) {
	_, summary = r.cells.GetSummary(context.Background(), &cellv1.GetSummaryRequest{})
	_, proposal = r.cells.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(1)}})
	return summary, proposal
}

func (r *testCell) placesNothing(when, text string) {
	r.t.Helper()
	for method, err := range func(yield func(string, error) bool) {
		summary, proposal := r.placing()
		_ = yield("GetSummary", summary) && yield("ProposeBatch", proposal)
	} {
		if fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), text) {
			r.t.Errorf("%s: %s: %v, want %q", when, method, err, text)
		}
	}
	if bad := r.failing(); len(bad) != 1 || bad[0] != "store" {
		r.t.Errorf("%s: %v fail, want store", when, bad)
	}
}

func (r *testCell) places(when string) {
	r.t.Helper()
	if summary, proposal := r.placing(); summary != nil || proposal != nil {
		r.t.Errorf("%s: %v, %v", when, summary, proposal)
	}
	if bad := r.failing(); bad != nil {
		r.t.Errorf("%s: %v fail", when, bad)
	}
}

// A disk hangs while a claim is written. Reads work, so only the transaction shows the problem. The
// cell refuses queries until a transaction succeeds, which the replica tries by itself.
func TestNothingIsPlacedWhileTheShardDoesNotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(0, 8))
		let := make(chan struct{})
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			<-let
			return commit()
		})
		claimed := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_, err := r.cells.ClaimBatch(ctx, &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 0, 1)}})
			claimed <- err
		}()
		time.Sleep(replica.CommitBound - time.Millisecond) // virtual
		r.places("before the bound")
		time.Sleep(2 * time.Millisecond) // virtual
		if err := <-claimed; err == nil {
			t.Error("claimed")
		}
		r.placesNothing("after the bound", "the cell's shard has not committed for 2s")
		// The transaction fails when the disk answers again. Meanwhile the lease scan can read.
		time.Sleep(shard.ApplyLimit) // virtual
		r.placesNothing("later", "the cell's shard has not committed for 12s")
		let <- struct{}{}
		for range 5 {
			time.Sleep(700 * time.Millisecond) // virtual: a scan, whose trial hangs
			r.placesNothing("while the trial hangs", "the cell's shard has not committed for 1")
		}
		store.hook(nil)
		close(let)
		synctest.Wait()
		r.places("after the trial")
		r.must(newClaim("k2", 2, 0, 1))
	})
}

// If a store fails at once, the lease scan tries it again, even without requests.
func TestAReplicaWithoutRequestsFindsThatItsShardCommitsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(0, 8))
		trials := 0
		store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) {
			trials++
			return shard.Applied{}, errUnknown
		})
		req := &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 0, 1)}}
		if resp, err := r.cells.ClaimBatch(t.Context(), req); err == nil && resp.GetOutcomes()[0].GetRefusal().GetReason() != string(fault.OutcomeUnknown) {
			t.Errorf("claim: %v", resp)
		}
		time.Sleep(10*time.Second + time.Millisecond) // virtual
		r.placesNothing("while it fails", "the cell's shard has not committed for 10s")
		store.hook(nil)
		if trials < 10 {
			t.Errorf("%d trials", trials)
		}
		time.Sleep(time.Second) // virtual: a scan
		r.places("when it works again")
	})
}

// A database whose disk is full can be read, and ends transactions that write nothing. The replica's trials fail until
// the database takes writes again.
func TestTrial_DatabaseRefusesWrites_FailsUntilItTakesThem(t *testing.T) {
	url := pgtest.Start(t).NewDatabase(t)
	store := &testStore{Store: openPostgres(t, url)}
	r := start(t, store, func(c *Config) { c.LeaseScan = 10 * time.Millisecond })
	r.register(plainState(0, 8))
	execute := func(sql string) {
		t.Helper()
		c, err := pgx.Connect(t.Context(), url)
		if err == nil {
			_, err = c.Exec(t.Context(), sql)
			err = errors.Join(err, c.Close(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	execute(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION refuse()`)
	tried := make(chan error, 100)
	store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
		a, err := commit()
		tried <- err
		return a, err
	})
	req := &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 0, 1)}}
	if _, err := r.cells.ClaimBatch(t.Context(), req); fault.KindOf(err) != fault.CellUnavailable {
		t.Fatalf("claim: %v", err)
	}
	for n := range 5 {
		if err := <-tried; fault.KindOf(err) != fault.CellUnavailable {
			t.Fatalf("transaction %d, the claim's or a trial: %v", n, err)
		}
	}
	execute("DROP TRIGGER refuse ON journal")
	for <-tried != nil {
	}
	r.must(newClaim("k2", 2, 0, 1))
}
