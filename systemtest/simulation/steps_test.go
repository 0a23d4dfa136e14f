package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/cell/agents"
	"cellgate/shard"
)

// step checks what a transaction does to one claim (I3, I4, I8). The caller holds mu.
func (k *checks) step(c *checkedCell, e shard.Entry, was, is *shard.Claim) {
	k.count++
	from := "none"
	if was != nil {
		from = string(was.State)
		if !is.UpdatedAt.After(was.UpdatedAt) {
			k.world.wrong("%s: a row of claim %s of %v follows one of %v", c.cell.name, short8(is.ClaimID), is.UpdatedAt, was.UpdatedAt)
		}
	}
	more := ""
	if is.Adopted {
		more = ", adopted"
	}
	if is.Moves != "" {
		more += ", moves another"
	}
	k.logEntry(c, e, "claim of %s on %s: %s to %s%s", is.ConsumerUUID, is.ServiceHost, from, is.State, more)
	k.world.trace("    it is %s", short8(is.ClaimID))
	bad := func(format string, args ...any) {
		k.world.wrong("%s, lane %s/%d entry %d: claim %s of %s on %s: "+format, append([]any{
			c.cell.name, e.Lane.Replica, e.Lane.Incarnation, e.Seq, short8(is.ClaimID), is.ConsumerUUID, is.ServiceHost,
		}, args...)...)
	}
	k.gaveBack(was, is, bad)
	if was == nil {
		return
	}
	switch {
	case was.State.Live() && is.State.Live():
		switch {
		case was.State == shard.Confirmed && is.State != shard.Confirmed:
			bad("I3: a confirmed claim is %s", is.State)
		case was.State == shard.Confirmed && was.HostUUID != is.HostUUID:
			bad("I3: a confirmed claim was moved from %s", was.ServiceHost)
		}
	case is.State.Live():
		if was.State != shard.Expired {
			bad("I3: it was %s and is %s", was.State, is.State)
		}
	case was.State.Live():
		k.ended(e, was, is, bad)
	}
}

// ended checks the end of a claim.
func (k *checks) ended(e shard.Entry, was, is *shard.Claim, bad func(string, ...any)) {
	p := k.promises[is.ClaimID]
	switch is.State {
	case shard.Expired:
		if was.State != shard.Pending || e.At.Before(was.ExpiresAt) {
			bad("I3: a claim that was %s until %v expired at %v", was.State, was.ExpiresAt, e.At)
		}
	case shard.Rejected:
		if k.abortEnds(was, is) {
			return
		}
		if k.world.plan.mode != agents.VerifySync {
			bad("it was ended as rejected in mode %s", k.world.plan.mode)
		}
		k.nobodys(p, is, "it was ended as rejected", bad)
	case shard.Released:
		// A claim whose instance the host has reported may end with that instance.
		if was.Seen && k.world.hostOf(was.HostUUID).ran(was.Instance()) {
			return
		}
		if k.taken(e, is.ClaimID) {
			return
		}
		if was.Seen && was.Adopted {
			bad("I3: its instance was reported and was not stopped, and the claim was released")
			return
		}
		k.nobodys(p, is, "it was released and nobody asked for that", bad)
	}
}

// taken reports whether a confirmed claim has replaced the claim.
func (k *checks) taken(e shard.Entry, id string) bool {
	for _, ch := range e.Changes {
		if ch.Claim != nil && ch.Claim.Moves == id && ch.Claim.State == shard.Confirmed {
			return true
		}
	}
	for _, c := range k.cells {
		for _, claim := range c.claims {
			if claim.Moves == id && claim.State == shard.Confirmed {
				return true
			}
		}
	}
	return false
}

// nobodys records an end that is right only if no caller was given the claim.
func (k *checks) nobodys(p *promise, is *shard.Claim, what string, bad func(string, ...any)) {
	k.ends[is.ClaimID] = fmt.Sprintf("%s on %s", what, is.ServiceHost)
	if p != nil && !p.mayEnd() {
		bad("I3: %s", what)
	}
}

// consumer checks that a consumer has one live claim in a shard, and at most one more that moves
// the first (I2).
func (k *checks) consumer(c *checkedCell, consumer string) {
	k.count++
	var live []*shard.Claim
	for _, claim := range c.claims {
		if claim.State.Live() && claim.ConsumerUUID == consumer {
			live = append(live, claim)
		}
	}
	if len(live) > 2 || len(live) == 2 && live[0].Moves != live[1].ClaimID && live[1].Moves != live[0].ClaimID {
		k.world.wrong("I2: %s has %d live claims in %s", consumer, len(live), c.cell.name)
	}
}

// antiAffinity checks that no host has more members of a group than its policy allows (I9).
func (k *checks) antiAffinity(c *checkedCell, changed *shard.Claim) {
	g := changed.Group
	if g == nil || g.Policy != "anti-affinity" || !changed.State.Live() {
		return
	}
	k.count++
	members := map[string]bool{}
	for _, claim := range c.claims {
		if claim.State.Live() && claim.HostUUID == changed.HostUUID && claim.Group != nil && claim.Group.UUID == g.UUID {
			members[claim.Instance()] = true
		}
	}
	if limit := max(int(g.MaxPerHost), 1); len(members) > limit {
		k.world.wrong("I9: %d members of a group with anti-affinity are on %s", len(members), changed.ServiceHost)
	}
}

// affinity checks that all members of a group are on one host, over all cells (I9).
func (k *checks) affinity() {
	var claims []*shard.Claim
	for _, c := range k.cells {
		for _, claim := range c.claims {
			if claim.State.Live() && claim.Group != nil && claim.Group.Policy == "affinity" {
				claims = append(claims, claim)
			}
		}
	}
	k.count += len(claims)
	if where := apart(claims); where != "" {
		k.world.wrong("I9: a group with affinity is on several hosts: %s", where)
	}
}

// apart names a member of a group and its hosts, if no host has a claim of every member. Otherwise
// it returns "". A member may have a second claim elsewhere until its lease ends: a call that was
// lost (OUTCOME_UNKNOWN) can arrive after the retry found another host.
func apart(claims []*shard.Claim) string {
	type member struct{ group, instance string }
	on := map[member]map[string]bool{}
	for _, c := range claims {
		m := member{c.Group.UUID, c.Instance()}
		if on[m] == nil {
			on[m] = map[string]bool{}
		}
		on[m][c.ServiceHost] = true
	}
	common := map[string]map[string]bool{}
	for m, hosts := range on {
		if common[m.group] == nil {
			common[m.group] = maps.Clone(hosts)
		}
		maps.DeleteFunc(common[m.group], func(host string, _ bool) bool { return !hosts[host] })
		if len(common[m.group]) == 0 {
			return m.instance + " on " + strings.Join(slices.Sorted(maps.Keys(hosts)), " and ")
		}
	}
	return ""
}
