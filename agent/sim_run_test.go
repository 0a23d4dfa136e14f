package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// computing is a simulated host that gets claims from one replica, in virtual time.
type computing struct {
	t    *testing.T
	host *Host
	// seeds is the number of its initial instances.
	seeds int
}

func (c *computing) offer(id string, instance int, vcpus int32, confirmed bool, change func(*agentv1.ClaimOffer)) {
	o := &agentv1.ClaimOffer{
		ClaimId: id, InstanceUuid: simInstance(instance), ConsumerUuid: simInstance(instance), Confirmed: confirmed,
		Usages: []*agentv1.Usage{{ProviderUuid: c.root(), ResourceClass: "VCPU", Amount: vcpus}},
	}
	if change != nil {
		change(o)
	}
	c.host.claims.offered("replica", o)
}

func (c *computing) root() string {
	s, _ := c.host.State()
	return s.GetHostUuid()
}

// vcpus returns the host's VCPUs, and how many are free.
func (c *computing) vcpus() (all, free int32) {
	l := c.host.claims.ledger
	s := stock{c.root(), "VCPU"}
	return int32(l.stock[s]), int32(l.stock[s]) - int32(l.used[s])
}

// asked offers a claim that wants a verdict.
func (c *computing) asked(id string, instance int, vcpus int32) *agentv1.Verdict {
	return c.host.claims.offered("replica", &agentv1.ClaimOffer{
		ClaimId: id, InstanceUuid: simInstance(instance), ConsumerUuid: simInstance(instance), WantsVerdict: true,
		Usages: []*agentv1.Usage{{ProviderUuid: c.root(), ResourceClass: "VCPU", Amount: vcpus}},
	})
}

// runs checks the VCPUs of the reported instances except the initial ones, and the number of
// reports.
func (c *computing) runs(when string, version uint64, want map[int]int32) {
	c.t.Helper()
	time.Sleep(simStart + 2*simPace)
	synctest.Wait()
	s, _ := c.host.State()
	got := map[string]int32{}
	for _, i := range s.GetInstances()[c.seeds:] {
		got[i.GetInstanceUuid()] = i.GetUsages()[0].GetAmount()
	}
	same := len(got) == len(want)
	for n, vcpus := range want {
		same = same && got[simInstance(n)] == vcpus
	}
	if !same || s.GetVersion() != version {
		c.t.Errorf("%s: version %d runs %v, want version %d and %v", when, s.GetVersion(), got, version, want)
	}
}

func simInstance(n int) string { return "11111111-1111-4111-8111-00000000000" + string(rune('0'+n)) }

func compute(t *testing.T, test func(*computing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := simulation(t, 4)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		c := &computing{t: t, host: s.Hosts()[3]}
		first, _ := c.host.State()
		c.seeds = len(first.GetInstances())
		test(c)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A claim's instance runs once the claim is confirmed, and stops when the claim has ended,
// whichever message says so. Several changes make one report.
func TestSimulatedHostsRunWhatIsConfirmed(t *testing.T) {
	compute(t, func(c *computing) {
		c.offer("a", 1, 2, false, nil)
		c.offer("b", 2, 4, false, nil)
		c.runs("offered", 1, nil)
		c.host.claims.set("replica", &agentv1.ClaimSet{ClaimIds: []string{"a", "b"}, ConfirmedClaimIds: []string{"a", "b"}})
		c.runs("confirmed", 2, map[int]int32{1: 2, 2: 4})
		c.host.claims.set("replica", &agentv1.ClaimSet{ClaimIds: []string{"a", "b"}, ConfirmedClaimIds: []string{"a", "b"}})
		c.runs("told again", 2, map[int]int32{1: 2, 2: 4})
		c.offer("c", 3, 1, true, nil)
		c.host.claims.ended("a", "RELEASED")
		c.runs("one less, and later one more", 4, map[int]int32{2: 4, 3: 1})
		c.host.claims.set("replica", &agentv1.ClaimSet{ClaimIds: []string{"c"}, ConfirmedClaimIds: []string{"c"}})
		c.runs("one is not in the set", 5, map[int]int32{3: 1})
		c.offer("d", 4, 1, false, nil)
		c.host.claims.ended("d", "EXPIRED")
		c.offer("e", 5, 1, true, nil)
		c.host.claims.ended("e", "RELEASED")
		c.runs("one was never confirmed, and one not for long", 5, map[int]int32{3: 1})
	})
}

// The room of an ended claim is free at once, even if the host still reports the instance.
func TestSimulatedHostsMakeRoomAtOnce(t *testing.T) {
	compute(t, func(c *computing) {
		_, most := c.vcpus()
		c.offer("a", 1, most, true, nil)
		c.runs("confirmed", 2, map[int]int32{1: most})
		c.host.claims.ended("a", "RELEASED")
		c.host.renew(2, 0) // a state that still has the instance
		if v := c.asked("b", 2, most); v.GetOutcome() != agentv1.Verdict_OK {
			t.Errorf("all that the ended claim's instance took: %v", v)
		}
		if v := c.asked("c", 3, 1); v.GetOutcome() != agentv1.Verdict_REJECTED {
			t.Errorf("one more: %v", v)
		}
		c.runs("gone", 4, nil)
		if v := c.asked("d", 4, 1); v.GetOutcome() != agentv1.Verdict_REJECTED {
			t.Errorf("one more, once it is reported: %v", v)
		}
		c.host.claims.ended("b", "RELEASED")
		c.offer("e", 1, most, true, nil)
		c.runs("the same instance again", 5, map[int]int32{1: most})
		if v := c.asked("f", 5, 1); v.GetOutcome() != agentv1.Verdict_REJECTED {
			t.Errorf("beside the same instance again: %v", v)
		}
	})
}

// A resize on the host runs with its new size, and a transferred claim holds its instance.
func TestSimulatedHostsFollowMoves(t *testing.T) {
	compute(t, func(c *computing) {
		c.offer("a", 1, 2, true, nil)
		c.offer("b", 1, 8, true, func(o *agentv1.ClaimOffer) { o.MovesClaimId = "a" })
		c.runs("both", 2, map[int]int32{1: 8})
		c.host.claims.ended("a", "RELEASED")
		c.runs("resized", 2, map[int]int32{1: 8})
		c.offer("b", 1, 8, true, func(o *agentv1.ClaimOffer) { o.ConsumerUuid = simInstance(9) })
		c.runs("transferred", 2, map[int]int32{1: 8})
		c.host.claims.ended("b", "RELEASED")
		c.runs("arrived elsewhere", 3, nil)
	})
}

// A claim on NUMA cells or devices starts no instance, because the simulated host does not report
// hardware usage.
func TestSimulatedHostsDoNotRunHardware(t *testing.T) {
	compute(t, func(c *computing) {
		c.offer("a", 1, 2, true, func(o *agentv1.ClaimOffer) { o.Guest = pinnedGuest(1) })
		c.runs("confirmed", 1, nil)
	})
}
