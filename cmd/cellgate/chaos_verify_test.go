package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// promise is what the client knows of one claim, and what must hold for it.
type promise struct {
	noteClaim
	request string
	// sent is when the request was sent. The lease began later.
	sent time.Time
	ttl  time.Duration
	// Pairs of a call that was sent and its answer.
	confirming, confirmed, releasing, released bool
	// ended is when a confirm failed because the claim had ended, or zero.
	ended time.Time
}

// promises are all claims that the client was answered with, by claim_id, and its requests.
type promises struct {
	load   chaosLoad
	claims map[string]*promise
	// answers are the acknowledged requests. If an instance was placed again after its lease, the
	// last answer counts.
	answers map[string]note
	odd     []string
	// scanning is the time from which every cell scans for expired leases.
	scanning time.Time
}

func newPromises(l chaosLoad) *promises {
	return &promises{load: l, claims: map[string]*promise{}, answers: map[string]note{}}
}

// addNotes adds notes in the order of the log.
func (p *promises) addNotes(notes []note) {
	for _, n := range notes {
		switch n.Kind {
		case noteAcknowledged:
			p.answers[n.Request] = n
			for _, c := range n.Claims {
				p.claims[c.Claim] = &promise{noteClaim: c, request: n.Request, sent: n.Sent, ttl: p.load.request(n.Request).ttl}
			}
			continue
		case noteOdd:
			p.odd = append(p.odd, fmt.Sprintf("request %s, claim %q was answered: %s", n.Request, n.Claim, n.Error))
			continue
		}
		c := p.claims[n.Claim]
		if c == nil {
			p.odd = append(p.odd, fmt.Sprintf("%s of claim %s that was never acknowledged", n.Kind, n.Claim))
			continue
		}
		switch n.Kind {
		case noteConfirming:
			c.confirming = true
		case noteConfirmed:
			c.confirmed = true
		case noteReleasing:
			c.releasing = true
		case noteReleased:
			c.released = true
		case noteEnded:
			c.ended = n.At
		}
	}
}

// After a crash, store time may be ahead of the machine by leaseEarly, and leases end that much
// early. They end up to leaseLate late: a scan and its transaction.
const (
	leaseEarly = 1500 * time.Millisecond
	leaseLate  = 2500 * time.Millisecond
)

// due reports whether the claim must be live at a time: no lease of it can have ended, and nobody
// released it.
func (c *promise) due(at time.Time) bool {
	if c.released || c.releasing {
		return false
	}
	return c.confirmed || at.Before(c.leased().Add(-leaseEarly))
}

// leased returns the end of the claim's lease: the answered one, or else the ttl counted from when
// the request was sent.
func (c *promise) leased() time.Time {
	if c.Expires.IsZero() {
		return c.sent.Add(c.ttl)
	}
	return c.Expires
}

// stays reports whether the claim has, or may have, no lease.
func (c *promise) stays() bool { return c.confirming && !c.released && c.ended.IsZero() }

// finding is the result of a comparison.
type finding struct {
	// Due counts the claims that must be live. Found counts those of them that are, as promised.
	Due, Found int
	// Leftover counts live claims that nobody was answered with, or that should have ended.
	Leftover int
	Problems []string
}

func (v *finding) bad(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// compare holds the promises against the live claims. at is a time before they
// were listed, listed one after. settled: every lease of the client's is over.
func (p *promises) compare(live map[string]*cellgatev1.Claim, at, listed time.Time, settled bool) *finding {
	v := &finding{}
	for _, id := range slices.Sorted(maps.Keys(p.claims)) {
		c, l := p.claims[id], live[id]
		what := fmt.Sprintf("claim %s (request %s, instance %s, %s on %s)", id, c.request, c.Consumer, c.Cell, c.Host)
		if !c.ended.IsZero() && (c.confirmed || c.ended.Before(c.leased().Add(-leaseEarly))) {
			v.bad("%s: a confirm was told that it had ended %v after it was asked for; its lease is %v", what, c.ended.Sub(c.sent), c.ttl)
		}
		due := c.due(listed) && c.ended.IsZero()
		if due {
			v.Due++
		}
		switch {
		case l == nil && due:
			v.bad("%s is not there", what)
		case l == nil:
		case c.released:
			v.bad("%s was released and is there, %s", what, l.GetState())
			v.Leftover++
		case l.GetConsumerUuid() != c.Consumer || l.GetCell() != c.Cell || l.GetServiceHost() != c.Host:
			v.bad("%s is of instance %s, %s on %s", what, l.GetConsumerUuid(), l.GetCell(), l.GetServiceHost())
		case c.confirmed && l.GetState() != cellgatev1.ClaimState_CONFIRMED:
			v.bad("%s was confirmed and is %s", what, l.GetState())
		case !c.confirming && l.GetState() != cellgatev1.ClaimState_PENDING:
			v.bad("%s was never confirmed and is %s", what, l.GetState())
		case settled && l.GetState() == cellgatev1.ClaimState_PENDING:
			v.bad("%s is PENDING %v after it was asked for; its lease is %v", what, at.Sub(c.sent), c.ttl)
			v.Leftover++
		case due:
			v.Found++
		}
	}
	p.strangers(v, live, at, settled)
	return v
}

// overdue reports whether a claim's lease should have ended by a time.
func (p *promises) overdue(l *cellgatev1.Claim, at time.Time) bool {
	over := l.GetExpiresAt().AsTime()
	if over.Before(p.scanning) {
		over = p.scanning
	}
	return at.After(over.Add(leaseLate))
}

// strangers checks live claims that nobody was answered with, and instances with two claims.
func (p *promises) strangers(v *finding, live map[string]*cellgatev1.Claim, at time.Time, settled bool) {
	of := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		l := live[id]
		if l.GetAdopted() {
			continue
		}
		// A claim older than the longest lease must be the only one of its instance.
		if settled || at.Sub(l.GetCreatedAt().AsTime()) > p.load.Long+leaseLate {
			of[l.GetConsumerUuid()] = append(of[l.GetConsumerUuid()], id)
		}
		if p.claims[id] != nil {
			continue
		}
		what := fmt.Sprintf("claim %s of request %q on %s, which nobody was told of,", id, l.GetRequestId(), l.GetServiceHost())
		if !strings.HasPrefix(l.GetRequestId(), chaosRequests) {
			v.bad("%s is of no request of the client", what)
			continue
		}
		switch {
		case l.GetState() != cellgatev1.ClaimState_PENDING:
			v.bad("%s is %s", what, l.GetState())
			v.Leftover++
		case p.overdue(l, at):
			v.bad("%s is still there at %v; its lease was to end at %v", what, at, l.GetExpiresAt().AsTime())
			v.Leftover++
		case settled:
			v.bad("%s is still there; its lease is to end at %v", what, l.GetExpiresAt().AsTime())
			v.Leftover++
		}
	}
	for _, consumer := range slices.Sorted(maps.Keys(of)) {
		if ids := of[consumer]; len(ids) > 1 {
			v.bad("instance %s has %d live claims after every lease is over: %v", consumer, len(ids), ids)
		}
	}
}

// capacity compares every host's inventories with the live claims. exact: nothing changed between
// the two lists, so the hosts' usage must equal the sum. A claim must have had room when it was made (I1). An instance
// that its host reports is adopted whatever room there is: the client releases claims that their hosts still report, and
// a killed cell gives the room to others before the report arrives.
func (v *finding) capacity(hosts []*cellgatev1.Host, live map[string]*cellgatev1.Claim, exact bool) {
	type key struct{ provider, class string }
	type use struct {
		made    time.Time
		adopted bool
		amount  int64
	}
	uses := map[key][]use{}
	for _, c := range live {
		for _, a := range c.GetAllocations() {
			k := key{a.GetProviderUuid(), a.GetResourceClass()}
			uses[k] = append(uses[k], use{c.GetCreatedAt().AsTime(), c.GetAdopted(), int64(a.GetAmount())})
		}
	}
	for _, h := range hosts {
		for _, i := range h.GetInventories() {
			k := key{i.GetProviderUuid(), i.GetResourceClass()}
			most := int64(float64(i.GetTotal()-i.GetReserved()) * i.GetAllocationRatio())
			slices.SortFunc(uses[k], func(a, b use) int {
				if !a.made.Equal(b.made) || a.adopted == b.adopted {
					return a.made.Compare(b.made)
				}
				return map[bool]int{true: 1, false: -1}[a.adopted]
			})
			used := int64(0)
			for _, u := range uses[k] {
				used += u.amount
				if used > most && !u.adopted {
					v.bad("host %s: %d %s were claimed at %v, it can hold %d", h.GetServiceHost(), used, k.class, u.made, most)
				}
			}
			if int64(i.GetUsed()) > max(most, used) {
				v.bad("host %s: shows %d %s as used, it can hold %d", h.GetServiceHost(), i.GetUsed(), k.class, most)
			}
			if exact && int64(i.GetUsed()) != used {
				v.bad("host %s: shows %d %s as used, its claims add up to %d", h.GetServiceHost(), i.GetUsed(), k.class, used)
			}
			delete(uses, k)
		}
	}
	for k, of := range uses {
		v.bad("%d claims of %s are of provider %s, which no host has", len(of), k.class, k.provider)
	}
}

func TestChaosCapacity_OrderOfClaimsAndAdoptions_FindsClaimsWithoutRoom(t *testing.T) {
	hosts := []*cellgatev1.Host{{ServiceHost: "h", Inventories: []*cellgatev1.HostInventory{{ProviderUuid: "p", ResourceClass: "VCPU", Total: 8, AllocationRatio: 1, Used: 10}}}}
	claim := func(second int64, amount int32, adopted bool) *cellgatev1.Claim {
		return &cellgatev1.Claim{
			CreatedAt: &timestamppb.Timestamp{Seconds: second}, Adopted: adopted,
			Allocations: []*cellgatev1.Allocation{{ProviderUuid: "p", ResourceClass: "VCPU", Amount: amount}},
		}
	}
	for name, c := range map[string]struct {
		live map[string]*cellgatev1.Claim
		bad  bool
	}{
		"claims, then an adoption":  {map[string]*cellgatev1.Claim{"a": claim(1, 8, false), "b": claim(2, 2, true)}, false},
		"an adoption, then a claim": {map[string]*cellgatev1.Claim{"a": claim(1, 8, true), "b": claim(2, 2, false)}, true},
		"claims alone":              {map[string]*cellgatev1.Claim{"a": claim(1, 8, false), "b": claim(2, 2, false)}, true},
		"adoptions alone":           {map[string]*cellgatev1.Claim{"a": claim(1, 8, true), "b": claim(2, 2, true)}, false},
		"both at once":              {map[string]*cellgatev1.Claim{"a": claim(1, 2, true), "b": claim(1, 8, false)}, false},
	} {
		v := &finding{}
		if v.capacity(hosts, c.live, true); len(v.Problems) > 0 != c.bad {
			t.Errorf("%s: %v", name, v.Problems)
		}
	}
}
