package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// checkEvery is how often the checks read the journals. It affects only the delay: every
// transaction is checked, in the order of commits.
const checkEvery = 100 * time.Millisecond

// checks compares every transaction of every shard with the invariants, and with the answers that
// callers got.
type checks struct {
	world *world

	polling sync.Mutex
	mu      sync.Mutex
	cells   []*checkedCell
	// promises has the key claim_id.
	promises map[string]*promise
	asked    []*promise
	// ends holds, by claim_id, why the end of a claim was wrong if a caller had been promised it.
	ends map[string]string
	// entries counts transactions, count counts checks.
	entries, count int
	// history is the events of the run, without ids that are random in each run.
	history []string
}

// checkedCell is a shard as read from its journal.
type checkedCell struct {
	cell   *simCell
	at     shard.Cursor
	hosts  map[string]*shard.Host
	usages map[string]*shard.Usage
	// followed are the boot ids of agents whose rows another incarnation has replaced.
	followed map[string]bool
	// admins are the hosts' admin states.
	admins map[string]*shard.AdminState
	// claims includes ended claims. written is the journal position of each claim's newest row, if
	// the journal was read there.
	claims  map[string]*shard.Claim
	written map[string]place
	// states counts the states that were written, by boot id.
	states map[string]int
}

func newChecks(w *world) *checks {
	k := &checks{world: w, promises: map[string]*promise{}, ends: map[string]string{}}
	for _, c := range w.cells {
		k.cells = append(k.cells, &checkedCell{cell: c, hosts: map[string]*shard.Host{}, followed: map[string]bool{}, usages: map[string]*shard.Usage{}, admins: map[string]*shard.AdminState{}, claims: map[string]*shard.Claim{}, written: map[string]place{}, states: map[string]int{}})
	}
	return k
}

func (k *checks) run(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.poll()
		}
	}
}

// checked counts a check.
func (k *checks) checked() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
}

// poll reads all journals to their ends. It checks the new entries, and the promises that were made
// before it began.
func (k *checks) poll() {
	k.polling.Lock()
	defer k.polling.Unlock()
	k.mu.Lock()
	asked := k.asked
	k.asked = nil
	k.mu.Unlock()
	for _, c := range k.cells {
		for {
			entries, at, err := c.cell.store.Tail(context.Background(), c.at, 1000)
			if fault.KindOf(err) == fault.Gone {
				k.reload(c)
				continue
			}
			if err != nil {
				k.world.wrong("the journal of %s cannot be read: %v", c.cell.name, err)
				return
			}
			if len(entries) == 0 {
				break
			}
			slices.SortStableFunc(entries, func(a, b shard.Entry) int { return a.At.Compare(b.At) })
			k.mu.Lock()
			for _, e := range entries {
				if want := c.at[e.Lane] + 1; e.Seq != want {
					k.world.wrong("I3: lane %v of %s has entry %d where %d belongs", e.Lane, c.cell.name, e.Seq, want)
				}
				if c.at == nil {
					c.at = shard.Cursor{}
				}
				c.at[e.Lane] = e.Seq
				k.checkEntry(c, e)
			}
			k.mu.Unlock()
			c.at = at
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.affinity()
	for _, p := range asked {
		k.kept(p)
	}
}

// reload continues from the shard's rows when the journal was trimmed before it was read.
func (k *checks) reload(c *checkedCell) {
	k.world.count("journal trimmed before it was checked")
	rows := shard.Entry{}
	at, err := c.cell.store.Load(context.Background(), func(ch shard.Change) error {
		rows.Changes = append(rows.Changes, ch)
		return nil
	})
	if err != nil {
		k.world.wrong("%s cannot be loaded: %v", c.cell.name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	live := map[string]bool{}
	for _, ch := range rows.Changes {
		switch {
		case ch.Host != nil:
			c.hosts[ch.Host.UUID] = ch.Host
		case ch.Usage != nil:
			c.usages[ch.Usage.HostUUID] = ch.Usage
		case ch.AdminState != nil:
			c.admins[ch.AdminState.HostUUID] = ch.AdminState
		case ch.Claim != nil:
			c.claims[ch.Claim.ClaimID], live[ch.Claim.ClaimID] = ch.Claim, true
		}
	}
	for id, claim := range c.claims {
		if claim.State.Live() && !live[id] {
			ended := *claim
			ended.State = shard.Released
			c.claims[id] = &ended
		}
	}
	clear(c.written)
	c.at = at
}

// checkEntry checks one transaction. The caller holds mu.
func (k *checks) checkEntry(c *checkedCell, e shard.Entry) {
	k.entries++
	k.room(c, e)
	k.withheld(c, e)
	for _, ch := range e.Changes {
		switch {
		case ch.AdminState != nil:
			k.world.trace("%s, lane %s/%d entry %d: an operator says %v of host %s", c.cell.name, e.Lane.Replica, e.Lane.Incarnation, e.Seq, ch.AdminState.State, short8(ch.AdminState.HostUUID))
		case ch.Host != nil:
			k.logEntry(c, e, "host %s version %d of its incarnation", ch.Host.ServiceHost, ch.Host.StateVersion)
			k.incarnation(c, ch.Host)
			c.hosts[ch.Host.UUID] = ch.Host
			c.states[ch.Host.BootID]++
		case ch.Usage != nil:
			c.usages[ch.Usage.HostUUID] = ch.Usage
		case ch.Claim != nil:
			k.step(c, e, c.claims[ch.Claim.ClaimID], ch.Claim)
			c.claims[ch.Claim.ClaimID], c.written[ch.Claim.ClaimID] = ch.Claim, place{e.Lane, e.Seq}
		}
	}
	for _, ch := range e.Changes {
		if ch.Claim != nil {
			k.consumer(c, ch.Claim.ConsumerUUID)
			k.antiAffinity(c, ch.Claim)
		}
		if ch.Usage != nil {
			k.sum(c, ch.Usage)
		}
	}
}

func (k *checks) logEntry(c *checkedCell, e shard.Entry, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	k.history = append(k.history, fmt.Sprintf("%s %s", c.cell.name, what))
	k.world.trace("%s, lane %s/%d entry %d: %s", c.cell.name, e.Lane.Replica, e.Lane.Incarnation, e.Seq, what)
}

// room checks that new claims never take a provider over capacity (I1). Adopted claims may.
func (k *checks) room(c *checkedCell, e shard.Entry) {
	type key struct{ host, provider, class string }
	fresh, reported := map[key]int64{}, map[key]int64{}
	after := map[string]*shard.Usage{}
	hosts := map[string]*shard.Host{}
	for _, ch := range e.Changes {
		switch {
		case ch.Usage != nil:
			after[ch.Usage.HostUUID] = ch.Usage
		case ch.Host != nil:
			hosts[ch.Host.UUID] = ch.Host
		case ch.Claim != nil && ch.Claim.State.Live():
			was := c.claims[ch.Claim.ClaimID]
			there := was != nil && was.State.Live() && was.HostUUID == ch.Claim.HostUUID
			to := fresh
			if ch.Claim.Adopted {
				to = reported
			} else if there {
				continue
			}
			for _, a := range ch.Claim.Allocations {
				to[key{ch.Claim.HostUUID, a.ProviderUUID, a.ResourceClass}] += a.Amount
			}
			if there {
				for _, a := range was.Allocations {
					to[key{ch.Claim.HostUUID, a.ProviderUUID, a.ResourceClass}] -= a.Amount
				}
			}
		}
	}
	for at, amount := range fresh {
		k.count++
		capacity := int64(-1)
		for _, h := range []*shard.Host{c.hosts[at.host], hosts[at.host]} {
			if h == nil {
				continue
			}
			for _, p := range h.Providers {
				for _, inv := range p.Inventories {
					if p.UUID == at.provider && inv.ResourceClass == at.class {
						capacity = max(capacity, inv.Capacity())
					}
				}
			}
		}
		if used := after[at.host].Of(at.provider, at.class) - reported[at]; used > capacity {
			k.world.wrong("I1: %s: a claim of %d %s takes host %s to %d of %d", c.cell.name, amount, at.class, at.host, used, capacity)
		}
	}
}

// sum checks that a host's usage is the sum of its live claims.
func (k *checks) sum(c *checkedCell, u *shard.Usage) {
	k.count++
	sums := map[shard.Used]int64{}
	for _, claim := range c.claims {
		if claim.State.Live() && claim.HostUUID == u.HostUUID {
			for _, a := range claim.Allocations {
				sums[shard.Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}] += a.Amount
			}
		}
	}
	for _, a := range u.Used {
		at := shard.Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}
		if sums[at] != a.Amount {
			k.world.wrong("%s: host %s has %d %s in use, its claims take %d", c.cell.name, u.HostUUID, a.Amount, a.ResourceClass, sums[at])
		}
		delete(sums, at)
	}
	for at, n := range sums {
		if n != 0 {
			k.world.wrong("%s: host %s has no %s in use, its claims take %d", c.cell.name, u.HostUUID, at.ResourceClass, n)
		}
	}
}
