package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// caller is a conductor whose random numbers decide what it does. It reacts to answers as
// docs/reference/api.md says.
type caller struct {
	world *world
	n     int
	group int
	rng   *rand.Rand
}

// builtOn is an instance that a caller has a claim for.
type builtOn struct {
	consumer string
	vcpus    int32
	promise  *promise
	host     *host
}

// errGivenUp ends a story: the caller left in the middle of a call.
var errGivenUp = errors.New("the caller gave up")

func (w *world) play(s story) {
	c := &caller{world: w, n: s.n, group: s.group, rng: rand.New(rand.NewPCG(s.seed, 7))}
	w.ends(c, c.play())
}

// ends records how a caller's story ended. It reports errors that callers must not get.
func (w *world) ends(c *caller, err error) {
	w.trace("caller %d is done: %v", c.n, err)
	if err != nil && !errors.Is(err, errGivenUp) && !final(err) {
		w.wrong("caller %d: %v", c.n, err)
	}
}

// play plays the story.
func (c *caller) play() error {
	req, vcpus := c.request()
	got, err := c.selects(req)
	if err != nil {
		if fault.KindOf(err) == fault.NoValidHost {
			c.world.count("no valid host")
		}
		return err
	}
	var built []*builtOn
	for i, d := range got {
		built = append(built, &builtOn{consumer: req.GetInstanceUuids()[i], vcpus: vcpus, promise: d, host: c.world.hostOf(d.hostUUID)})
	}
	if c.rng.IntN(4) == 0 {
		if err := c.repeats(req, built); err != nil {
			return err
		}
	}
	c.pause(3 * time.Second)
	for _, b := range built {
		if err := c.use(b, req); err != nil {
			return err
		}
	}
	return nil
}

// use does to an instance what the caller's random numbers choose.
func (c *caller) use(b *builtOn, req *cellgatev1.SelectDestinationsRequest) error {
	switch how := c.rng.IntN(10); how {
	case 0: // never confirmed: the lease ends it
		b.promise.set(func(p *promise) { p.left = true })
		return nil
	case 1: // released instead of built
		return c.releases(b, true)
	case 2: // confirmed, but never built
		_, err := c.confirms(b, true)
		return err
	case 3: // the host's report confirms it
		if c.build(b) != nil {
			return c.releases(b, true)
		}
	case 4: // an alternate, as if the host had failed
		if err := c.alternate(b); err != nil {
			return err
		}
		fallthrough
	default:
		if ok, err := c.confirms(b, true); err != nil || !ok {
			return err
		}
		if c.build(b) != nil {
			return c.releases(b, true)
		}
	}
	c.pause(15 * time.Second)
	switch c.rng.IntN(3) {
	case 0:
		return nil // the instance keeps running
	case 1:
		if req.GetRequestSpec().GetInstanceGroup() == nil {
			if err := c.moves(b); err != nil {
				return err
			}
		}
		return nil
	default:
		b.host.stop(b.consumer)
		if c.rng.IntN(2) == 0 {
			return c.releases(b, true)
		}
		b.promise.set(func(p *promise) { p.kept = true })
		return nil // the caller never releases the claim
	}
}

// request asks for one or two instances, which are sometimes in a group.
func (c *caller) request() (*cellgatev1.SelectDestinationsRequest, int32) {
	vcpus := int32(1 + c.rng.IntN(4))
	r := &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("build-%d", c.n), ClaimTtl: durationpb.New(time.Duration(5+c.rng.IntN(25)) * time.Second), ReturnAlternates: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: vcpus, MemoryMb: memoryOf(vcpus), RootGb: diskOf(vcpus)}, ProjectId: "p",
		}},
	}
	for i := range 1 + c.rng.IntN(2) {
		r.InstanceUuids = append(r.InstanceUuids, uuidOf(0x1, 10*c.n+i+1))
	}
	if c.group > 0 {
		r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: uuidOf(0x6, c.group), Policy: policyOf(c.group)}
	}
	return r, vcpus
}

// policyOf returns a group's policy.
func policyOf(group int) string {
	if group > 2 {
		return "affinity"
	}
	return "anti-affinity"
}

// patience returns the time limit of a call, which is sometimes too short.
func (c *caller) patience() time.Duration {
	if c.rng.IntN(3) == 0 {
		return time.Duration(5+c.rng.IntN(400)) * time.Millisecond
	}
	return time.Duration(1+c.rng.IntN(8)) * time.Second
}

func (c *caller) pause(most time.Duration) { sleep(time.Duration(c.rng.Int64N(int64(most)))) }

// again repeats a call, through any gateway, until it succeeds or fails with an error that must not
// be repeated, or the caller gives up.
func (c *caller) again(what string, mayGiveUp bool, do func(context.Context, *gatewayNode) error) error {
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), c.patience())
		d := c.world.gateways[c.rng.IntN(len(c.world.gateways))]
		began := time.Now()
		err := do(ctx, d)
		cancel()
		c.world.count("call " + what)
		c.world.trace("caller %d: %s through %s, try %d: %s after %v", c.n, what, d.name, try, short(err), time.Since(began))
		if err == nil || !unanswered(err) {
			return err
		}
		switch {
		case mayGiveUp && c.rng.IntN(12) == 0:
			c.world.count("given up")
			return errGivenUp
		case c.world.quietFor() > 2*time.Minute:
			return fmt.Errorf("%s is still unanswered two minutes after the last fault: %w", what, err)
		}
		c.pause(time.Second)
	}
}

// unanswered reports whether docs/reference/api.md tells callers to repeat a call that failed with
// err.
func unanswered(err error) bool {
	switch fault.KindOf(err) {
	case fault.CellUnavailable, fault.OutcomeUnknown, fault.Contended, fault.Overloaded:
		return true
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// final reports whether err is a refusal that a caller may get.
func final(err error) bool {
	switch fault.KindOf(err) {
	case fault.NoValidHost, fault.ClaimExpired, fault.ClaimRejected, fault.AlreadyExists, fault.NotFound:
		return true
	}
	return false
}

func short(err error) string {
	if err == nil {
		return "done"
	}
	s := err.Error()
	if len(s) > 200 {
		s = s[:200]
	}
	return s
}

// build starts the instance on its host.
func (c *caller) build(b *builtOn) error {
	return b.host.build(b.promise.claim, b.consumer, usagesOf(b.host.uuid, b.vcpus))
}
