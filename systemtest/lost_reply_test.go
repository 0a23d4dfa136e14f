package systemtest

import (
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// play runs a scenario in a new world, with at most one reply lost. It then checks what must hold
// in either case.
func play(t *testing.T, s scenario, n *network) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, n)
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		n.watch(true)
		want := s.run(c)
		// Work after the answer is part of the scenario: an unpin, a decision.
		time.Sleep(time.Second)
		n.watch(false)
		// The gateway leaves out a cell whose connection broke until a probe succeeds. A repeated
		// request has the same answer only if the same cells answer.
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

// The reply of each call between two parts is lost once in each way: the call takes effect, but the
// caller gets an error. make test runs only one of the two ways per call, alternating. A conductor
// that reacts as documented ends in the same state. Nothing is claimed twice, left over, or over
// capacity, and the same request has the same answer.
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
				case !testlong.On(): // alternating
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
