package agent

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const (
	rootUUID = "aaaaaaaa-0000-4000-8000-000000000001"
	gpuUUID  = "aaaaaaaa-0000-4000-8000-000000000002"
)

func instanceUUID(n int) string { return fmt.Sprintf("cccccccc-0000-4000-8000-%012d", n) }

func vcpus(n int32) []*agentv1.Usage {
	return []*agentv1.Usage{{ProviderUuid: rootUUID, ResourceClass: "VCPU", Amount: n}}
}

// smallHost has 8 VCPUs, 1 reserved, at a ratio of 2, and instances of so many VCPUs each.
func smallHost(instances ...int32) *agentv1.FullState {
	s := &agentv1.FullState{
		HostUuid: rootUUID, BootId: "b", Version: 1,
		Providers: []*agentv1.Provider{{Uuid: rootUUID, Inventories: []*agentv1.Inventory{{ResourceClass: "VCPU", Total: 8, Reserved: 1, AllocationRatio: 2}}}},
	}
	for n, v := range instances {
		s.Instances = append(s.Instances, &agentv1.Instance{InstanceUuid: instanceUUID(n), Usages: vcpus(v)})
	}
	return s
}

// offerTo makes the offer of a claim of instance n.
func offerTo(id string, n int, v int32) *agentv1.ClaimOffer {
	return &agentv1.ClaimOffer{ClaimId: id, InstanceUuid: instanceUUID(n), ConsumerUuid: instanceUUID(n), Usages: vcpus(v), WantsVerdict: true}
}

var noon = time.Unix(1_700_000_000, 0)

func TestAnOfferIsJudgedByWhatTheHostHasLeft(t *testing.T) {
	l := newLedger(smallHost(4, 2)) // 14, 8 free
	for i, c := range []struct {
		offer *agentv1.ClaimOffer
		want  agentv1.Verdict_Reason
	}{
		{offerTo("a", 10, 5), ok},
		{offerTo("b", 11, 4), agentv1.Verdict_NO_ROOM}, // 3 left
		{offerTo("b", 11, 3), ok},
		{offerTo("a", 10, 5), ok}, // repeated
		{offerTo("c", 12, 1), agentv1.Verdict_NO_ROOM},
		{offerTo("d", 10, 1), agentv1.Verdict_INSTANCE_EXISTS},
		{offerTo("e", 0, 4), ok}, // its instance runs already
		{&agentv1.ClaimOffer{ClaimId: "f", InstanceUuid: instanceUUID(13), WantsVerdict: true, Usages: []*agentv1.Usage{{ProviderUuid: gpuUUID, ResourceClass: "VGPU", Amount: 1}}}, agentv1.Verdict_UNKNOWN_PROVIDER},
	} {
		v := l.offered(noon, "r", c.offer)
		want := agentv1.Verdict_OK
		if c.want != ok {
			want = agentv1.Verdict_REJECTED
		}
		if v.GetReason() != c.want || v.GetOutcome() != want || v.GetBootId() != "b" || v.GetVersion() != 1 || (want == agentv1.Verdict_REJECTED) != (v.GetDetail() != "") {
			t.Errorf("offer %d, %v, is answered with %v, want %v", i, c.offer, v, c.want)
		}
	}
	taken := smallHost()
	taken.Providers[0].Inventories[0].Unaccounted = 3
	l = newLedger(taken)
	if v := l.offered(noon, "r", offerTo("a", 1, 12)); v.GetReason() != agentv1.Verdict_NO_ROOM {
		t.Errorf("12 VCPU beside 3 of 14 that nothing accounts for: %v", v)
	}
	if v := l.offered(noon, "r", offerTo("a", 1, 11)); v.GetReason() != ok {
		t.Errorf("11 VCPU beside 3 of 14 that nothing accounts for: %v", v)
	}
	off := smallHost()
	off.Disabled = true
	l.observe(off)
	if v := l.offered(noon, "r", offerTo("g", 14, 1)); v.GetReason() != agentv1.Verdict_DISABLED {
		t.Errorf("a host that takes no instances says %v", v)
	}
}

// A claim that ended, that moved away, or that a set does not include any more takes nothing.
func TestWhatEndsMakesRoom(t *testing.T) {
	full := func() *ledger {
		l := newLedger(smallHost())
		if v := l.offered(noon, "r1", offerTo("a", 10, 14)); v.GetOutcome() != agentv1.Verdict_OK {
			t.Fatalf("the first claim: %v", v)
		}
		return l
	}
	for name, c := range map[string]struct {
		do   func(*ledger)
		room bool
	}{
		"nothing":                        {func(*ledger) {}, false},
		"ended":                          {func(l *ledger) { l.ended(noon, "a", "RELEASED") }, true},
		"not in its replica's set":       {func(l *ledger) { l.set(noon, "r1", &agentv1.ClaimSet{}) }, true},
		"not in another's set":           {func(l *ledger) { l.set(noon, "r2", &agentv1.ClaimSet{}) }, false},
		"not in another's set for long":  {func(l *ledger) { l.set(noon.Add(time.Minute), "r2", &agentv1.ClaimSet{}) }, true},
		"in a set":                       {func(l *ledger) { l.set(noon.Add(time.Minute), "r1", &agentv1.ClaimSet{ClaimIds: []string{"a"}}) }, false},
		"its instance is there, smaller": {func(l *ledger) { s := smallHost(1); s.Instances[0].InstanceUuid = instanceUUID(10); l.observe(s) }, true},
	} {
		l := full()
		c.do(l)
		if v := l.offered(noon, "r1", offerTo("b", 11, 1)); (v.GetOutcome() == agentv1.Verdict_OK) != c.room {
			t.Errorf("%s: the next claim is answered with %v", name, v)
		}
	}
}

// An offer that arrives after the claim's end, from a replica that had not read the end, takes
// nothing. A claim that moved away may come back.
func TestAnOfferAfterTheEndTakesNothing(t *testing.T) {
	for state, back := range map[string]bool{"RELEASED": false, "REJECTED": false, "EXPIRED": true, "MOVED": true, "": true} {
		l := newLedger(smallHost())
		l.ended(noon, "a", state)
		v := l.offered(noon.Add(time.Second), "r2", offerTo("a", 10, 14))
		if (v != nil) != back || (l.held["a"] != nil) != back {
			t.Errorf("%q: answered with %v, held is %v", state, v, l.held["a"])
		}
		if want := map[bool]agentv1.Verdict_Reason{false: ok, true: agentv1.Verdict_NO_ROOM}[back]; l.offered(noon, "r1", offerTo("b", 11, 14)).GetReason() != want {
			t.Errorf("%q: the next claim is not judged by what is left", state)
		}
		if l.expire(noon.Add(setGrace + 2*time.Second)); len(l.over) != 0 {
			t.Errorf("%q: kept for ever: %v", state, l.over)
		}
	}
}

func TestAResizeIsHeldBesideItsInstance(t *testing.T) {
	l := newLedger(smallHost(6))
	l.offered(noon, "r", &agentv1.ClaimOffer{ClaimId: "old", InstanceUuid: instanceUUID(0), Usages: vcpus(6), Confirmed: true})
	bigger := offerTo("new", 0, 9)
	bigger.MovesClaimId = "old"
	if v := l.offered(noon, "r", bigger); v.GetReason() != agentv1.Verdict_NO_ROOM {
		t.Errorf("6 + 9 of 14 is answered with %v", v)
	}
	bigger.Usages = vcpus(8)
	if v := l.offered(noon, "r", bigger); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("6 + 8 of 14 is answered with %v", v)
	}
	if v := l.offered(noon, "r", offerTo("x", 5, 1)); v.GetReason() != agentv1.Verdict_NO_ROOM {
		t.Errorf("beside both there is room: %v", v)
	}
	l.observe(smallHost(8))
	l.ended(noon, "old", "RELEASED")
	if v := l.offered(noon, "r", offerTo("x", 5, 6)); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("once resized, 8 + 6 of 14 is answered with %v", v)
	}
}

// The ledger is compared with sums that are recomputed from scratch. A claim gets OK exactly if it
// fits.
func TestTheLedgerNeverHoldsMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger(smallHost())
		instances := map[int]int32{}
		held := map[string]*agentv1.ClaimOffer{}
		number := func(offer *agentv1.ClaimOffer) int {
			var n int
			if _, err := fmt.Sscanf(offer.GetInstanceUuid()[24:], "%d", &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		sum := func() (n int32) {
			for _, v := range instances {
				n += v
			}
			for _, o := range held {
				if _, there := instances[number(o)]; !there {
					n += o.GetUsages()[0].GetAmount()
				}
			}
			return n
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			n := rapid.IntRange(0, 5).Draw(t, "n")
			id := fmt.Sprint("claim ", n)
			switch rapid.SampledFrom([]string{"offer", "offer", "offer", "end", "instances"}).Draw(t, "step") {
			case "offer":
				o := offerTo(id, n, rapid.Int32Range(1, 9).Draw(t, "vcpus"))
				before := held[id]
				delete(held, id)
				_, there := instances[n]
				again := before != nil && before.GetUsages()[0].GetAmount() == o.GetUsages()[0].GetAmount()
				fits := again || there || sum()+o.GetUsages()[0].GetAmount() <= 14
				v := l.offered(noon, "r", o)
				if (v.GetOutcome() == agentv1.Verdict_OK) != fits {
					t.Fatalf("%v beside %d of 14 (%v there: %v) is answered with %v", o, sum(), instances, there, v)
				}
				if fits {
					held[id] = o
				}
			case "end":
				l.ended(noon, id, "MOVED") // the claim may come back
				delete(held, id)
			case "instances":
				s := smallHost()
				clear(instances)
				for _, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 0, 3, rapid.ID).Draw(t, "there") {
					instances[n] = rapid.Int32Range(1, 6).Draw(t, "uses")
					s.Instances = append(s.Instances, &agentv1.Instance{InstanceUuid: instanceUUID(n), Usages: vcpus(instances[n])})
				}
				l.observe(s)
				// All were offered at noon, so the lower claim_id counts as earlier.
				sums := int32(0)
				for _, v := range instances {
					sums += v
				}
				var gone []string
				for _, id := range slices.Sorted(maps.Keys(held)) {
					if _, there := instances[number(held[id])]; there {
						continue
					}
					if amount := held[id].GetUsages()[0].GetAmount(); sums+amount <= 14 {
						sums += amount
						continue
					}
					gone = append(gone, id)
					delete(held, id)
				}
				var rejected []string
				for _, v := range l.pendingVerdicts("r") {
					rejected = append(rejected, v.GetClaimId())
				}
				if !slices.Equal(rejected, gone) {
					t.Fatalf("%v on the host, rejected are %v, want %v", instances, rejected, gone)
				}
			}
		}
	})
}

// An accepted offer is rejected if the host's newest state leaves no room for it. Of two, the later
// is rejected. A claim that is confirmed, taken up, or whose instance runs is never rejected.
func TestAnOfferIsJudgedAgainByANewerState(t *testing.T) {
	l := newLedger(smallHost()) // 14
	for i, o := range []*agentv1.ClaimOffer{offerTo("z", 10, 4), offerTo("b", 11, 3), offerTo("a", 12, 2), offerTo("c", 13, 1)} {
		if v := l.offered(noon.Add(time.Duration(i)), "r1", o); v.GetOutcome() != agentv1.Verdict_OK {
			t.Fatalf("offered: %v", v)
		}
	}
	l.offered(noon.Add(time.Hour), "r2", offerTo("a", 12, 2))
	l.held["c"].kind = instanceClaim
	confirmed := offerTo("d", 14, 1)
	confirmed.Confirmed = true
	l.offered(noon, "r1", confirmed) // of 14, 11 are held
	wantVerdicts := func(by string, want ...string) {
		t.Helper()
		var got []string
		for _, v := range l.pendingVerdicts(by) {
			if v.GetOutcome() != agentv1.Verdict_REJECTED || v.GetReason() != agentv1.Verdict_NO_ROOM || v.GetVersion() != l.state.GetVersion() {
				t.Errorf("verdict is %v", v)
			}
			got = append(got, v.GetClaimId())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is sent %v, want %v", by, got, want)
		}
	}
	state := smallHost(3)
	state.Version = 2
	l.observe(state) // all fits
	wantVerdicts("r1")
	state = smallHost(3, 2)
	state.Version = 3
	l.observe(state) // 2 too many: a was offered last, though its id is the lowest
	wantVerdicts("r2", "a")
	wantVerdicts("r1", "a")
	wantVerdicts("r1")
	state = smallHost(3, 2, 9)
	state.Version, state.Disabled = 4, true
	l.observe(state) // none but c and d are left
	wantVerdicts("r1", "z", "b")
	if len(l.held) != 2 || l.held["c"] == nil || l.held["d"] == nil {
		t.Errorf("held are %v", l.held)
	}
	if v := l.offered(noon, "r1", offerTo("z", 2, 4)); v.GetReason() != ok {
		t.Errorf("an instance that is there: %v", v)
	}
}
