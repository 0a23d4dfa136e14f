package simulation

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// moves migrates a running instance to another host, with or without a migration's record that
// holds the source claim meanwhile. Or it evacuates the instance, as if its host had failed.
func (c *caller) moves(b *builtOn) error {
	switch c.rng.IntN(3) {
	case 0:
		c.world.count("evacuated")
		b.host.stop(b.consumer)
		b.promise.set(func(p *promise) { p.kept = true })
		return c.migrates(b, cellgatev1.Operation_EVACUATE, "")
	case 1:
		return c.migrates(b, cellgatev1.Operation_LIVE_MIGRATE, uuidOf(0x9, int(hash(b.consumer)%1_000_000)))
	}
	return c.migrates(b, cellgatev1.Operation_LIVE_MIGRATE, "")
}

// migrates moves an instance. record is the consumer that holds the source claim meanwhile, or "".
// The caller completes or undoes the move, unless it gives up before it has the new claim.
func (c *caller) migrates(b *builtOn, how cellgatev1.Operation, record string) error {
	if record != "" {
		if err := c.transfers(b, record); err != nil {
			return err
		}
	}
	began := time.Now()
	got, err := c.selects(&cellgatev1.SelectDestinationsRequest{
		RequestId: "move-" + b.consumer, Operation: how, InstanceUuids: []string{b.consumer},
		ClaimTtl: durationpb.New(20 * time.Second),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: b.vcpus, MemoryMb: memoryOf(b.vcpus), RootGb: diskOf(b.vcpus)}, ProjectId: "p",
			IgnoreHosts: []string{b.host.name},
		}},
	})
	if err != nil {
		return err
	}
	to := &builtOn{consumer: b.consumer, vcpus: b.vcpus, promise: got[0], host: c.world.hostOf(got[0].hostUUID)}
	if c.rng.IntN(4) == 0 { // the move is undone
		if err := c.releases(to, record == ""); err != nil || record == "" {
			return err
		}
		return c.transfers(b, "")
	}
	if record == "" {
		b.promise.set(func(p *promise) { p.moving = true })
	}
	// The caller must not give up here: between the confirm and the migration, the instance runs on
	// a host without a claim.
	ok, err := c.confirms(to, false)
	if err != nil || !ok {
		return err
	}
	c.world.count("moved")
	switch {
	case record != "":
	case how == cellgatev1.Operation_EVACUATE && !c.world.calmSince(began):
		// If the source's cell did not answer, an evacuation goes on without it. The source claim
		// then stays until somebody releases it (ADR 5).
	default:
		b.promise.set(func(p *promise) { p.moved = true })
	}
	if to.host.build(to.promise.claim, to.consumer, usagesOf(to.host.uuid, to.vcpus)) != nil {
		// The destination refuses the instance, which stays on its host. The host's next report
		// makes a new claim there, or the record's claim is transferred back.
		if err := c.releases(to, false); err != nil {
			return err
		}
		if record != "" {
			return c.transfers(b, "")
		}
		b.host.change(func() {})
		return nil
	}
	if b.host.has(b.consumer) {
		b.host.stop(b.consumer)
	}
	if record == "" {
		return nil
	}
	return c.releases(&builtOn{consumer: record, promise: b.promise}, false)
}

// transfers gives an instance's claim to a migration's record or, if record is "", back to the
// instance.
func (c *caller) transfers(b *builtOn, record string) error {
	p := b.promise
	from, to := b.consumer, record
	if record == "" {
		from, to = p.consumer, b.consumer
	}
	err := c.again("transfer", false, func(ctx context.Context, d *gatewayNode) error {
		_, err := d.claims().TransferClaim(ctx, &cellgatev1.TransferClaimRequest{ConsumerUuid: from, ClaimId: p.claim, ToConsumer: to})
		return err
	})
	if err == nil {
		c.world.count("transferred")
		p.set(func(p *promise) { p.consumer = to })
	}
	return err
}
