package sqlshard

import (
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// A replica has decided to make a claim and has not committed it when another replica releases the claim: no answer
// came in time. The release is final. If the consumer has a row already, the release waits for the claim.
func TestRelease_WhileAnotherReplicaMakesTheClaim_IsFinal(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		for _, isolation := range []string{readCommitted, "repeatable read", "serializable"} {
			for _, known := range []bool{false, true} {
				opts := at.options(at.database(t))
				opts.Isolation = isolation
				opts.IdleTimeout, opts.StatementTimeout = testwait.Limit, testwait.Limit
				quick := newStand(t, opts)
				decided, wait := make(chan struct{}), make(chan struct{})
				goOn := sync.OnceFunc(func() { close(wait) })
				armed := false
				opts.skew = func() time.Duration { // called between the two trips
					if armed {
						armed = false
						close(decided)
						<-wait
					}
					return 0
				}
				slow := openAt(t, opts)
				defer mustClose(t, slow)
				defer goOn()
				lane, err := slow.OpenLane(t.Context(), "slow")
				if err != nil {
					t.Fatal(err)
				}
				claim := shardtest.NewClaim(2, 1, 1)
				if known { // the consumer had another claim before
					claim.ConsumerUUID = shardtest.ConsumerID(1)
					if err := quick.claim(1); err != nil {
						t.Fatal(err)
					}
					if err := quick.apply(shard.Op{Release: shardtest.Ref(1)}); err != nil {
						t.Fatal(err)
					}
				}
				armed = true
				claimed, released := make(chan shard.Outcome, 1), make(chan error, 1)
				go func() {
					a, err := lane.Apply(t.Context(), []shard.Op{{Claim: claim}})
					if err != nil {
						t.Errorf("Apply: %v", err)
						a.Outcomes = make([]shard.Outcome, 1)
					}
					claimed <- a.Outcomes[0]
				}()
				<-decided
				go func() {
					released <- quick.apply(shard.Op{Release: &shard.ClaimRef{ClaimID: claim.ClaimID, ConsumerUUID: claim.ConsumerUUID}})
				}()
				if known && at.as.needsGuards() {
					awaitLocked(t, opts.URL, 1)
					goOn()
					err = <-released
				} else {
					err = <-released
					goOn()
				}
				if err != nil {
					t.Fatalf("%s: Release: %v", isolation, err)
				}
				o := <-claimed
				if refused := o.Refusal != nil && o.Refusal.Kind == fault.ClaimExpired; refused == known && at.as.needsGuards() {
					t.Errorf("%s: the claim was answered %+v", isolation, o.Refusal)
				}
				page, err := quick.FindClaims(t.Context(), shard.ClaimQuery{ClaimIDs: []string{claim.ClaimID}, Ended: true})
				if err != nil || len(page.Claims) != 1 || page.Claims[0].State != shard.Released {
					t.Errorf("%s: after the release there are %d claims of its id, %v", isolation, len(page.Claims), err)
					for _, c := range page.Claims {
						t.Errorf("%s is %s", c.ClaimID, c.State)
					}
				}
			}
		}
	})
}
