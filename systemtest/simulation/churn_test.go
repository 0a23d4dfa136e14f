package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// churn is a caller that claims and releases in a loop from at on. It gives hosts short-lived
// claims while their rows are compared.
type churn struct {
	n     int
	at    time.Duration
	lasts time.Duration
	seed  uint64
}

// drawChurns uses its own random source, so that it changes nothing else of the plan.
func (p *plan) drawChurns(length int) {
	draw := rand.New(rand.NewPCG(p.seed, 0x52))
	for n := range length {
		p.churns = append(p.churns, churn{n: n, at: p.moment(draw), lasts: 8*time.Second + time.Duration(draw.Int64N(int64(8*time.Second))), seed: draw.Uint64()})
	}
}

// churn plays a churn.
func (w *world) churn(s churn) {
	c := &caller{world: w, n: 10_000 + 1000*s.n, rng: rand.New(rand.NewPCG(s.seed, 8))}
	var past []*cellgatev1.SelectDestinationsRequest // their claims were released
	for began := time.Now(); time.Since(began) < s.lasts && !w.over(); {
		c.n++
		req := c.newTurn()
		if len(past) > 0 && c.rng.IntN(3) == 0 {
			req = past[c.rng.IntN(len(past))]
			w.count("asked again after a release")
		}
		err := c.turn(req)
		if w.ends(c, err); err != nil {
			continue
		}
		if past = append(past, req); len(past) > 8 {
			past = past[1:]
		}
	}
}

func (c *caller) newTurn() *cellgatev1.SelectDestinationsRequest {
	return &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("turn-%d", c.n), InstanceUuids: []string{uuidOf(0x2, c.n)}, ClaimTtl: durationpb.New(5 * time.Second),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: memoryOf(1), RootGb: diskOf(1)}, ProjectId: "p",
		}},
	}
}

// turn claims, may confirm, and releases.
func (c *caller) turn(req *cellgatev1.SelectDestinationsRequest) error {
	got, err := c.selects(req)
	if err != nil {
		c.pause(500 * time.Millisecond)
		return err
	}
	b := &builtOn{consumer: req.GetInstanceUuids()[0], vcpus: 1, promise: got[0]}
	if c.rng.IntN(2) == 0 {
		if ok, err := c.confirms(b, true); err != nil || !ok {
			return err
		}
	}
	c.pause(400 * time.Millisecond)
	return c.releases(b, true)
}
