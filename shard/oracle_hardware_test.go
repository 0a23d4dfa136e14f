package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"cellgate/internal/fault"
	"cellgate/schedule/hardware"
)

// naiveGuest is what an instance asks for: counts[i] devices of kinds[i].
type naiveGuest struct {
	kinds  []string
	counts []int64
	judged bool
}

var (
	// guestsOf and poolsOf are the decoded forms of the encoded guests and pools.
	guestsOf = map[string]naiveGuest{}
	poolsOf  = map[string]map[string]int64{}
)

func genGuest(t *rapid.T) *Guest {
	if rapid.SampledFrom(small).Draw(t, "hardware?") < "4" {
		return nil
	}
	g := rapid.SampledFrom([]naiveGuest{
		{[]string{"a"}, []int64{1}, true},
		{[]string{"a"}, []int64{2}, true},
		{[]string{"b"}, []int64{1}, true},
		{[]string{"a", "b"}, []int64{1, 1}, true},
		{[]string{"b", "a"}, []int64{1, 2}, false},
	}).Draw(t, "devices")
	check := hardware.Check{JudgePCI: g.judged}
	for i, kind := range g.kinds {
		check.PCI = append(check.PCI, hardware.PCIRequest{Count: g.counts[i], Specs: []hardware.PCISpec{{{Key: "product_id", Value: kind}}}})
	}
	text := check.Encode()
	guestsOf[string(text)] = g
	return &Guest{Hardware: text}
}

func genFacts(t *rapid.T) *Facts {
	if rapid.SampledFrom(small).Draw(t, "no facts") == "7" {
		return nil
	}
	return devices(rapid.Int64Range(-1, 4).Draw(t, "a"), rapid.Int64Range(0, 2).Draw(t, "b"))
}

func devices(a, b int64) *Facts {
	text := fmt.Sprintf(`[{"vendor_id": "1", "product_id": "a", "count": %d}, {"vendor_id": "1", "product_id": "b", "count": %d}]`, a, b)
	poolsOf[text] = map[string]int64{"a": a, "b": b}
	return &Facts{PCIStats: text}
}

// takesDevices reports whether the claim takes devices that its host's report may still count as
// free.
func takesDevices(c *Claim) bool {
	gaveBack := c.Verdict != nil && c.Verdict.Outcome == VerdictRejected && c.Verdict.Reason == ReasonAborted
	return c.Guest != nil && (c.State == Pending && !gaveBack || c.State == Confirmed && c.Guest.Awaited)
}

// devicesOf gives how many devices of a kind are assigned to a claim.
func devicesOf(c *Claim, kind string) (n int64) {
	if c.Guest == nil || c.Guest.Assigned == nil {
		return 0
	}
	for _, d := range c.Guest.Assigned.Devices {
		if strings.Contains(d.Pool, "product_id="+kind) {
			n += d.Count
		}
	}
	return n
}

// leftOn counts the devices of a host that no claim has, except the claims in but.
func (o *oracle) leftOn(host string, but ...*Claim) map[string]int64 {
	left := maps.Clone(o.poolsOn(host))
	for _, c := range o.claims {
		if c.HostUUID == host && takesDevices(c) && !slices.Contains(but, c) {
			left["a"] -= devicesOf(c, "a")
			left["b"] -= devicesOf(c, "b")
		}
	}
	return left
}

// assignNaively assigns devices to a claim. If a judged claim cannot get all, it returns the kind
// that is missing.
func assignNaively(c *Claim, left map[string]int64) (lacks string) {
	asks := guestsOf[string(c.Guest.Hardware)]
	a := &hardware.Assignment{}
	for i, kind := range asks.kinds {
		if left[kind] < asks.counts[i] {
			if asks.judged {
				return kind
			}
			break
		}
		a.Devices = append(a.Devices, hardware.AssignedDevices{Pool: "product_id=" + kind, Count: asks.counts[i]})
	}
	c.Guest = &Guest{Hardware: c.Guest.Hardware, Awaited: c.Guest.Awaited, Assigned: a}
	return ""
}

// hardware assigns the devices that a claim asks for, or says why the host cannot provide them.
func (o *oracle) hardware(c *Claim) *answer {
	if c.Guest == nil {
		return nil
	}
	if lacks := assignNaively(c, o.leftOn(c.HostUUID, c)); lacks != "" {
		return &answer{kind: fault.NoValidHost, filter: "PciPassthroughFilter", detail: "product_id=" + lacks}
	}
	return nil
}

// reassign applies a new report of a host: in the order of their ids, claims keep devices that the
// report has free. Then the other claims are assigned anew from the rest.
func (o *oracle) reassign(host string) {
	var there, others []*Claim
	for _, c := range o.claims {
		if c.HostUUID == host && takesDevices(c) {
			there = append(there, c)
		}
	}
	slices.SortFunc(there, func(a, b *Claim) int { return strings.Compare(a.ClaimID, b.ClaimID) })
	left := o.leftOn(host, there...)
	take := func(c *Claim) bool {
		a, b := devicesOf(c, "a"), devicesOf(c, "b")
		if a > max(0, left["a"]) || b > max(0, left["b"]) || c.Guest.Assigned == nil {
			return false
		}
		left["a"] -= a
		left["b"] -= b
		return true
	}
	for _, c := range there {
		if !take(c) {
			others = append(others, c)
		}
	}
	for _, c := range others {
		c.Guest = &Guest{Hardware: c.Guest.Hardware, Awaited: c.Guest.Awaited}
		if assignNaively(c, left) == "" {
			take(c)
		}
	}
}

// await sets whether the claim's instance is still awaited on its host.
func await(c *Claim, awaited bool) {
	if c.Guest != nil {
		c.Guest = &Guest{Hardware: c.Guest.Hardware, Assigned: c.Guest.Assigned, Awaited: awaited}
	}
}

// giveBack removes the assignments of claims that no longer take devices.
func (o *oracle) giveBack() {
	for _, c := range o.claims {
		if c.Guest != nil && c.Guest.Assigned != nil && !takesDevices(c) {
			c.Guest = &Guest{Hardware: c.Guest.Hardware, Awaited: c.Guest.Awaited}
		}
	}
}

// checkDevices compares the assigned devices with the naive rules.
func checkDevices(t rapid.TB, w *world, o *oracle) {
	for _, c := range o.claims {
		row := w.claims[c.ClaimID]
		if c.Guest == nil || row == nil {
			continue
		}
		if row.Guest.Awaited != c.Guest.Awaited || (row.Guest.Assigned == nil) != (c.Guest.Assigned == nil) ||
			devicesOf(row, "a") != devicesOf(c, "a") || devicesOf(row, "b") != devicesOf(c, "b") {
			t.Fatalf("claim %s is %s with %+v, %+v; by the naive rules %s with %+v, %+v", c.ClaimID, row.State, row.Guest, row.Guest.Assigned, c.State, c.Guest, c.Guest.Assigned)
		}
	}
	for host := range o.hosts {
		for kind, n := range o.leftOn(host) {
			if n < min(0, o.poolsOn(host)[kind]) {
				t.Fatalf("I1: host %s has %d devices %s left", host, n, kind)
			}
		}
	}
}

// poolsOn counts the devices that instances leave free on a host.
func (o *oracle) poolsOn(host string) map[string]int64 {
	text := ""
	if f := o.hosts[host].Facts; f != nil {
		text = f.PCIStats
	}
	if o.hosts[host].InstancesUnknown {
		text = cmp.Or(o.pools[host], text)
	}
	if pools := poolsOf[text]; pools != nil {
		return pools
	}
	return map[string]int64{}
}
