package systemtest

import (
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// play plays a scenario in a world of its own, with one reply lost or none, and
// checks what must hold after it, whatever was lost.
func play(t *testing.T, s scenario, n *network) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, n)
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		n.watch(true)
		want := s.run(c)
		// What goes on behind the answers is part of it: an unpin, a decision.
		time.Sleep(time.Second)
		n.watch(false)
		// A cell whose connection broke is left out until a probe is answered; the
		// same answer is promised over the cells that answer.
		time.Sleep(5 * time.Second)
		for _, r := range c.asked {
			first := c.answers[r.GetRequestId()]
			repeated := c.selects(r)
			for i, d := range first.GetDestinations() {
				if a, b := d.GetSelected(), repeated[i]; a.GetClaimId() != b.GetClaimId() || a.GetComputeNodeUuid() != b.GetComputeNodeUuid() {
					t.Errorf("request %s is answered %s on %s, was %s on %s (partial: %v)", r.GetRequestId(), b.GetClaimId(), b.GetServiceHost(), a.GetClaimId(), a.GetServiceHost(), c.answers[r.GetRequestId()].GetPartial())
				}
			}
		}
		got := w.settle()
		found := map[string]int{}
		for _, claim := range got.claims {
			found[claim.ConsumerUUID]++
			if want[claim.ConsumerUUID] != claim.ServiceHost {
				t.Errorf("consumer %s holds %s on %s (%s), want %q", claim.ConsumerUUID, claim.ClaimID, claim.ServiceHost, claim.State, want[claim.ConsumerUUID])
			}
		}
		for consumer := range want {
			if found[consumer] != 1 {
				t.Errorf("consumer %s holds %d claims", consumer, found[consumer])
			}
		}
	})
}

// For each call that a scenario makes between two parts, its reply is lost once in
// each way (in make test in one of the two, by turns): it worked, but the caller heard a failure. A conductor that reacts as
// documented ends where it would have; nothing is held twice, nothing is left over,
// nothing is over capacity, and the same request has the same answer.
func TestLostReplies(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	total := map[string]int{}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			n := newNetwork()
			play(t, s, n)
			if t.Failed() {
				t.Fatal("fails with nothing lost")
			}
			for i, lose := range n.calls() {
				ways := []way{cut, silence}
				switch {
				case lose.pair == "cell-store":
					ways = ways[:1]
				case !testlong.On(): // by turns
					ways = ways[i%2 : i%2+1]
				}
				for _, how := range ways {
					t.Run(lose.String()+" "+string(how), func(t *testing.T) {
						lossy := newNetwork()
						lossy.lose, lossy.way = &lose, how
						play(t, s, lossy)
						if !lossy.lost {
							t.Errorf("the call was not made: calls are %v", lossy.calls())
						}
						total[lose.pair]++
					})
				}
			}
		})
	}
	sum := 0
	for pair, n := range total {
		t.Logf("%4d replies lost between %s", n, pair)
		sum += n
	}
	t.Logf("%4d replies lost in all, over %d scenarios", sum, len(scenarios))
}
