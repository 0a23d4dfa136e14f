package simulation

import (
	"context"
	"errors"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// selects sends a request until it is answered, and records the promises.
func (c *caller) selects(req *cellgatev1.SelectDestinationsRequest) ([]*promise, error) {
	began := time.Now()
	over := map[string]bool{}
	for _, consumer := range req.GetInstanceUuids() {
		maps.Copy(over, c.world.checks.overFor(consumer))
	}
	var resp *cellgatev1.SelectDestinationsResponse
	if err := c.again("select", true, func(ctx context.Context, d *gatewayNode) (err error) {
		resp, err = d.scheduler().SelectDestinations(ctx, req)
		return err
	}); err != nil {
		if id := inTheWay(err); over[id] {
			c.world.wrong("I3: %v is refused for claim %s, and all replicas had read that it was given back", req.GetInstanceUuids(), short8(id))
		}
		return nil, err
	}
	c.world.count("placed")
	var out []*promise
	for i, d := range resp.GetDestinations() {
		if id := d.GetSelected().GetClaimId(); over[id] {
			c.world.wrong("I3: %s is answered with claim %s, and all replicas had read that it was given back", req.GetInstanceUuids()[i], short8(id))
		}
		out = append(out, c.world.checks.promised(req.GetInstanceUuids()[i], d, began))
	}
	return out, nil
}

// inTheWay returns the claim that a refusal names, or "".
func inTheWay(err error) string {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Metadata["claim_id"]
	}
	return ""
}

// repeats sends an answered request again. The answer is the same as long as all cells answer and
// the leases run.
func (c *caller) repeats(req *cellgatev1.SelectDestinationsRequest, built []*builtOn) error {
	c.pause(2 * time.Second)
	for _, b := range built {
		b.promise.set(func(p *promise) { p.doubted = true })
	}
	got, err := c.selects(req)
	if err != nil {
		return err
	}
	for i, p := range got {
		b := built[i]
		c.world.count("repeated")
		if p != b.promise {
			c.world.count("repeated with another answer")
			b.promise.set(func(was *promise) { was.superseded = true })
		}
		b.promise, b.host = p, c.world.hostOf(p.hostUUID)
		p.set(func(p *promise) { p.doubted = false })
	}
	return nil
}

// confirms confirms a claim. It returns false if the claim cannot be confirmed any more, and holds
// no claim then.
func (c *caller) confirms(b *builtOn, mayGiveUp bool) (bool, error) {
	p := b.promise
	p.set(func(p *promise) { p.confirming = true })
	began := time.Now()
	err := c.again("confirm", mayGiveUp, func(ctx context.Context, d *gatewayNode) error {
		_, err := d.claims().ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{ConsumerUuid: b.consumer, ClaimId: p.claim})
		return err
	})
	switch {
	case err == nil:
		p.set(func(p *promise) { p.confirmed, p.confirmedAt, p.began = true, time.Now(), began })
		c.world.checks.ask(p)
		return true, nil
	case fault.KindOf(err) == fault.ClaimRejected:
		c.world.count("confirm rejected")
		return false, c.releases(b, mayGiveUp)
	case final(err):
		c.world.count("confirm refused")
		p.set(func(p *promise) { p.refused = true })
		return false, nil
	}
	return false, err
}

// releases gives a claim back.
func (c *caller) releases(b *builtOn, mayGiveUp bool) error {
	p := b.promise
	p.set(func(p *promise) { p.releasing = true })
	err := c.again("release", mayGiveUp, func(ctx context.Context, d *gatewayNode) error {
		_, err := d.claims().ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: b.consumer, ClaimId: p.claim})
		return err
	})
	if err == nil {
		p.set(func(p *promise) { p.released = true })
		c.world.checks.ask(p)
	}
	return err
}

// alternate moves a claim to one of its alternates, if one has room.
func (c *caller) alternate(b *builtOn) error {
	p := b.promise
	if len(p.alternates) == 0 {
		return nil
	}
	to := p.alternates[c.rng.IntN(len(p.alternates))]
	p.set(func(p *promise) { p.swapping = true })
	var claim *cellgatev1.Claim
	err := c.again("alternate", true, func(ctx context.Context, d *gatewayNode) error {
		resp, err := d.claims().ClaimAlternate(ctx, &cellgatev1.ClaimAlternateRequest{
			ConsumerUuid: b.consumer, ClaimId: p.claim, HostUuid: to, ClaimTtl: durationpb.New(20 * time.Second),
		})
		claim = resp.GetClaim()
		return err
	})
	if errors.Is(err, errGivenUp) {
		return err
	}
	if err == nil {
		p.set(func(p *promise) { p.hostUUID = claim.GetHostUuid() })
		b.host = c.world.hostOf(claim.GetHostUuid())
		return nil
	}
	if !final(err) {
		return err
	}
	c.world.count("alternate refused")
	// An earlier try may have moved the claim.
	if on := c.world.checks.hostOf(p.claim); on != "" {
		p.set(func(p *promise) { p.hostUUID = on })
		b.host = c.world.hostOf(on)
	}
	return nil
}
