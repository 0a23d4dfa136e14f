package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/testlong"
)

// A host always has some short-lived claims. A claim that is released during the audit of its host
// does not come back.
func TestAClaimReleasedWhileItsHostIsAuditedStaysReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t), soon)
		boot(t, 1, 640, r)
		id := func(n int) string { return "k" + consumerUUID(n) }
		n := 0
		looks := 2 * lookEvery
		if testlong.On() {
			looks = 8 * lookEvery
		}
		for begun := time.Now(); time.Since(begun) < looks; {
			n++
			r.must(newClaim(id(n), n, 1, 1))
			if n > 3 {
				r.must(release(id(n-3), n-3))
			}
			time.Sleep(11 * time.Millisecond)
			if n > 4 {
				if c := r.cell.rows.Claim(id(n - 4)); c != nil {
					t.Fatalf("after %v: claim %d, which was released, is %s in the table", time.Since(begun), n-4, c.State)
				}
			}
		}
		calm()
		if live := r.cell.rows.LiveClaims(); len(live) != 3 {
			t.Errorf("%d of %d claims are in the table: %v", len(live), n, live)
		}
		r.stand()
	})
}
