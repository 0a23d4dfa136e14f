package cell

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// A host without agent and claims is removed from every replica's table, and from what counts for
// the limits. A host whose agent reports, or that has a claim, stays.
func TestRemoveHost_NothingHoldsIt_GoneFromEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.MaxHosts = 1 })
		other := start(t, store, func(c *Config) { c.Replica = "r2" })
		a := r.register(plainState(1, 8))
		r.must(newClaim("k1", 1, 1, 1))
		remove := func() error {
			_, err := r.cells.RemoveHost(t.Context(), &cellv1.RemoveHostRequest{HostUuid: hostUUID(1), Reason: "scrapped"})
			return err
		}
		for _, held := range []string{"still reports", "claim k1"} {
			if err := remove(); fault.KindOf(err) != fault.FailedPrecondition || !strings.Contains(err.Error(), held) {
				t.Errorf("removed though held: %v, want %q", err, held)
			}
			a.cancel()
			synctest.Wait()
		}
		r.must(release("k1", 1))
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // virtual: the other replica reads the journal
		for name, r := range map[string]*testCell{"its own": r, "the other": other} {
			if n := r.cell.versions.Current().Len(); n != 0 {
				t.Errorf("%s replica's table has %d hosts", name, n)
			}
			if n := r.cell.newestSummary().GetTotals().GetHosts(); n != 0 {
				t.Errorf("%s replica counts %d hosts", name, n)
			}
		}
		if err := remove(); fault.KindOf(err) != fault.NotFound {
			t.Errorf("removed again: %v", err)
		}
		r.register(plainState(2, 8)) // its place is free
	})
}
