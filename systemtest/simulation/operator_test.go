package simulation

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// operate sets a host's admin state, and repeats the call until it is answered. It gives up after
// five tries, unless it enables the host. An unanswered call may still take effect, until a later
// call is answered.
func (h *host) operate(state cellgatev1.HostAdmin_State, seed uint64) {
	w := h.world
	req := &cellgatev1.UpdateHostRequest{HostUuid: h.uuid, AdminState: state, Cell: h.cell.name}
	if state != cellgatev1.HostAdmin_ENABLED {
		req.Reason = "a fault of the plan"
	}
	for try := uint64(0); state == cellgatev1.HostAdmin_ENABLED || try < 5; try++ {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_, err := w.gateways[int((seed+try)%uint64(len(w.gateways)))].hosts().UpdateHost(ctx, req)
		cancel()
		w.trace("an operator says %v of %s: %s", state, h.name, short(err))
		if err == nil {
			w.count("operator answered")
			return
		}
		if w.quietFor() > 2*time.Minute {
			w.wrong("what an operator says of %s is not taken two minutes after the last fault: %v", h.name, err)
			return
		}
		sleep(time.Second)
	}
}

// withheld checks that no claim is made on, or moved to, a host that an operator took out of
// service. Instances that the host reports are adopted all the same. The caller holds mu.
func (k *checks) withheld(c *checkedCell, e shard.Entry) {
	after := map[string]*shard.AdminState{}
	for _, ch := range e.Changes {
		if ch.AdminState != nil {
			after[ch.AdminState.HostUUID] = ch.AdminState
		}
	}
	for _, ch := range e.Changes {
		is := ch.Claim
		if is == nil || is.Adopted || !is.State.Live() {
			continue
		}
		was, word := c.claims[is.ClaimID], c.admins[is.HostUUID]
		if was != nil && was.HostUUID == is.HostUUID {
			continue
		}
		k.count++
		if now := after[is.HostUUID]; !word.Withholds(e.At) || now != nil && !now.Withholds(e.At) {
			continue
		}
		k.world.wrong("%s: claim %s of %s is new on %s, which is %s", c.cell.name, short8(is.ClaimID), is.ConsumerUUID, is.ServiceHost, word.Withholding().Text())
	}
	for uuid, word := range after {
		c.admins[uuid] = word
	}
}

// probeOperator takes the alternates of an answer out of service: a claim must not be moved to one.
// withheld checks the same in the shard.
func (w *world) probeOperator() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, consumer := w.gateways[0], uuidOf(0xf, 90_000)
	got, err := d.scheduler().SelectDestinations(ctx, &cellgatev1.SelectDestinationsRequest{
		RequestId: "probe-operator", InstanceUuids: []string{consumer}, ClaimTtl: durationpb.New(10 * time.Second), ReturnAlternates: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: memoryOf(1), RootGb: diskOf(1)}, ProjectId: "p",
		}},
	})
	if err != nil {
		if fault.KindOf(err) != fault.NoValidHost {
			w.wrong("nothing is placed when all is quiet: %v", err)
		}
		return
	}
	claim := got.GetDestinations()[0].GetSelected().GetClaimId()
	for _, to := range got.GetDestinations()[0].GetAlternates() {
		h := w.hostOf(to.GetComputeNodeUuid())
		h.operate(cellgatev1.HostAdmin_DISABLED, 0)
		_, err := d.claims().ClaimAlternate(ctx, &cellgatev1.ClaimAlternateRequest{
			ConsumerUuid: consumer, ClaimId: claim, HostUuid: h.uuid, ClaimTtl: durationpb.New(10 * time.Second),
		})
		if fault.KindOf(err) != fault.NoValidHost {
			w.wrong("a claim is put on %s, which an operator disabled: %v", h.name, err)
		}
		h.operate(cellgatev1.HostAdmin_ENABLED, 0)
		w.count("alternate out of service")
	}
	if _, err := d.claims().ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: consumer, ClaimId: claim}); err != nil {
		w.wrong("a claim of a probe is not released: %v", err)
	}
	sleep(2 * time.Second)
	w.checks.poll()
}
