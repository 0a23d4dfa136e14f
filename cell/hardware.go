package cell

import (
	"context"
	"fmt"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

// want is an operation that puts an instance on a host of which it takes NUMA cells or
// devices.
type want struct {
	op                     int
	consumer, moves, claim string
	host                   schedule.ID
	check                  schedule.GuestCheck
}

// screenHardware refuses operations that take NUMA cells or devices which are taken by
// now: the shard's rules know amounts alone. It asks the filters that chose the host
// again, on the newest table, which has all that this lane committed; of what another
// replica committed within its last moments it does not know. An operation of a
// consumer that has a claim already is left to the rules: it may be a repeat.
//
// Naively every operation would wait for the table and be judged. Only those with
// hardware do, and the store is asked only about those that are to be refused. While the
// table is loaded nothing can be judged.
func (c *Cell) screenHardware(ctx context.Context, ops []shard.Op) []*shard.Refusal {
	if c.loading() {
		return c.unjudged(ctx, ops)
	}
	wants := c.wants(ops)
	if len(wants) == 0 {
		return nil
	}
	shown := make(chan struct{})
	c.pipeline.show(feed{shown: func() { close(shown) }})
	<-shown
	table := c.versions.Current()
	byHost := map[schedule.ID][]want{}
	for _, w := range wants {
		if !c.claimed(c.rows.claimsOf([]string{w.consumer}), w) {
			byHost[w.host] = append(byHost[w.host], w)
		}
	}
	var refused []want
	filters := map[int]string{}
	for host, list := range byHost {
		checks := make([]schedule.GuestCheck, len(list))
		for i := range list {
			checks[i] = list[i].check
		}
		for i, filter := range table.JudgeGuests(host, checks) {
			if filter != "" {
				refused = append(refused, list[i])
				filters[list[i].op] = filter
			}
		}
	}
	return c.hardwareRefusals(ctx, len(ops), refused, filters)
}

// unjudged refuses, while the table is loaded, what needs to be judged: the caller may
// go elsewhere, or come again.
func (c *Cell) unjudged(ctx context.Context, ops []shard.Op) []*shard.Refusal {
	var swapped []string
	for _, op := range ops {
		if op.Swap != nil {
			swapped = append(swapped, op.Swap.ClaimID)
		}
	}
	guests := map[string]*shard.Guest{}
	var failed error
	if len(swapped) > 0 {
		page, err := c.store.FindClaims(ctx, shard.ClaimQuery{ClaimIDs: swapped, Ended: true, Limit: len(swapped)})
		failed = err
		for _, claim := range page.Claims {
			guests[claim.ClaimID] = claim.Guest
		}
	}
	var out []*shard.Refusal
	for i, op := range ops {
		why := ""
		switch {
		case op.Claim != nil && judged(op.Claim.Guest), op.Swap != nil && judged(guests[op.Swap.ClaimID]):
			why = "and cannot say yet which NUMA cells and devices are taken"
		case op.Swap != nil && failed != nil:
			why = "which did not say what the claim takes"
		default:
			continue
		}
		if out == nil {
			out = make([]*shard.Refusal, len(ops))
		}
		out[i] = &shard.Refusal{Kind: fault.CellUnavailable, Message: "the cell's replica is loading its shard, " + why}
	}
	return out
}

// judged reports whether filters judged what an instance takes of hardware.
func judged(g *shard.Guest) bool {
	if !hasHardware(g) {
		return false
	}
	check, err := hardwareOf(g)
	return err == nil && (check.NUMA || check.PCI)
}

// wants lists the operations of a batch that take hardware, in their order.
func (c *Cell) wants(ops []shard.Op) (wants []want) {
	for i, op := range ops {
		var w want
		var guest *shard.Guest
		host := ""
		switch {
		case op.Claim != nil:
			guest, host = op.Claim.Guest, op.Claim.HostUUID
			w = want{consumer: op.Claim.ConsumerUUID, moves: op.Claim.Moves}
		case op.Swap != nil:
			claim := c.rows.claim(op.Swap.ClaimID)
			if claim == nil || claim.HostUUID == op.Swap.HostUUID {
				continue
			}
			guest, host = claim.Guest, op.Swap.HostUUID
			w = want{consumer: op.Swap.ConsumerUUID, moves: claim.Moves, claim: claim.ClaimID}
		}
		if !hasHardware(guest) {
			continue
		}
		var err error
		if w.check, err = hardwareOf(guest); err != nil || !w.check.NUMA && !w.check.PCI {
			continue // not readable: the writer says so
		}
		if w.host, err = schedule.ParseID(host); err != nil {
			continue // refused by the rules
		}
		w.op = i
		wants = append(wants, w)
	}
	return wants
}

// claimed: of a consumer's claims one is neither what is moved nor what is swapped.
func (c *Cell) claimed(claims []*shard.Claim, w want) bool {
	for _, of := range claims {
		if of.ConsumerUUID == w.consumer && of.ClaimID != w.moves && of.ClaimID != w.claim {
			return true
		}
	}
	return false
}

// hardwareRefusals makes the refusals, but for consumers that have a claim which only
// the shard knows of yet. A store that does not say leaves all to the transaction.
func (c *Cell) hardwareRefusals(ctx context.Context, ops int, refused []want, filters map[int]string) []*shard.Refusal {
	if len(refused) == 0 {
		return nil
	}
	q := shard.ClaimQuery{Limit: 3 * len(refused)} // a consumer has two at most
	for _, w := range refused {
		q.ConsumerUUIDs = append(q.ConsumerUUIDs, w.consumer)
	}
	page, err := c.store.FindClaims(ctx, q)
	if err != nil {
		c.log.Warn("claims whose NUMA cells or devices are taken were left to the shard, which did not list the claims of their instances", "err", err)
		return nil
	}
	out := make([]*shard.Refusal, ops)
	for _, w := range refused {
		if c.claimed(page.Claims, w) {
			continue
		}
		out[w.op] = &shard.Refusal{
			Kind: fault.NoValidHost, Filter: filters[w.op],
			Message: fmt.Sprintf("what %s asks for of host %s was taken by others", filters[w.op], c.rows.serviceHost(w.host.String())),
		}
	}
	return out
}
