package cell

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// guestClaim is a claim that describes its instance.
func guestClaim(id string, consumer, host int, g *cellv1.Guest) *cellv1.ClaimOp {
	op := newClaim(id, consumer, host, 1)
	op.GetClaim().Guest = g
	return op
}

// ask proposes with one filter, or with weighers.
func (r *testCell) ask(filter string, n *cellv1.NovaRequest, weighers ...*cellv1.Weigher) *cellv1.Proposal {
	q := query(1)
	q.Placement = serialized(&cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}},
		Nova:      n, Rules: &cellv1.Rules{Filters: []string{filter}, Weighers: weighers},
	})
	q.Limit = 10
	return r.propose(q)
}

// TypeAffinityFilter and ImagePropertiesWeigher know the instances of claims, after
// a restart too.
func TestClaimsRememberFlavorAndImage(t *testing.T) {
	store := newStore(t)
	r := start(t, store)
	r.register(plainState(1, 8))
	r.register(plainState(2, 8))
	image := &cellv1.NovaImage{Id: "i", Properties: []*cellv1.ImageProperty{{Name: "os_distro", Text: "debian"}}}
	r.must(guestClaim("c1", 1, 1, &cellv1.Guest{FlavorId: "7", Image: image}), confirm("c1", 1))
	look := func(r *testCell, when string) {
		t.Helper()
		of := func(flavor string) *cellv1.NovaRequest {
			return &cellv1.NovaRequest{Flavor: &cellv1.NovaFlavor{Id: flavor}, Image: image}
		}
		if p := r.ask(schedule.TypeAffinityFilter, of("7")); p.GetPassed() != 2 {
			t.Errorf("%s: %d hosts pass for the claim's own flavor, want 2", when, p.GetPassed())
		}
		if p := r.ask(schedule.TypeAffinityFilter, of("8")); p.GetPassed() != 1 {
			t.Errorf("%s: %d hosts pass for another flavor, want 1", when, p.GetPassed())
		}
		p := r.ask(schedule.AllHostsFilter, of("8"), &cellv1.Weigher{Name: schedule.ImagePropertiesWeigher, Multiplier: 1})
		if best, raw := wiretest.Hosts(p)[0], p.GetCandidates().GetRaw()[0]; best != hostUUID(1) || raw != 1 {
			t.Errorf("%s: the image's properties weigh %v on %s", when, raw, best)
		}
	}
	look(r, "at once")
	r.stop()
	look(start(t, store), "after a restart")
}

// gpus returns the facts of a host with n GPUs.
func gpus(n int) *agentv1.Facts {
	return &agentv1.Facts{Stats: "{}", PciStats: fmt.Sprintf(`[{"vendor_id": "10de", "product_id": "20b5", "count": %d}]`, n)}
}

func oneGPU() []*cellv1.PciRequest {
	return []*cellv1.PciRequest{{Count: 1, NumaPolicy: hardware.PCIPreferred, Specs: []*cellv1.PciSpec{{
		Properties: []*cellv1.PciProperty{{Key: "product_id", Value: "20b5"}},
	}}}}
}

// A device that a claim takes is not offered again, until the host's report includes the instance
// or the claim ends. This holds for pending and confirmed claims.
func TestClaimsTakeDevicesUntilTheyAreReported(t *testing.T) {
	store := newStore(t)
	r := start(t, store)
	state := plainState(1, 8)
	state.Facts = gpus(2)
	r.register(state)
	wanted := oneGPU()
	free := func(r *testCell) float64 {
		t.Helper()
		p := r.ask(schedule.PCIFilter, &cellv1.NovaRequest{PciRequests: wanted}, &cellv1.Weigher{Name: schedule.PCIWeigher, Multiplier: 1})
		if p.GetPassed() == 0 {
			return 0
		}
		return 100 - p.GetCandidates().GetRaw()[0]
	}
	expect := func(r *testCell, want float64, when string) {
		t.Helper()
		if got := free(r); got != want {
			t.Errorf("%s: %v devices are free, want %v", when, got, want)
		}
	}
	guest := &cellv1.Guest{PciRequests: wanted}
	expect(r, 2, "reported")
	r.must(guestClaim("c1", 1, 1, guest))
	expect(r, 1, "one claim")
	r.must(guestClaim("c2", 2, 1, guest))
	expect(r, 0, "two claims")
	r.stop()
	r = start(t, store)
	expect(r, 0, "after a restart")
	r.must(release("c1", 1))
	expect(r, 1, "one released")
	r.must(confirm("c2", 2))
	expect(r, 1, "the other confirmed")
	r.stop()
	r = start(t, store)
	expect(r, 1, "after another restart")
	state = proto.CloneOf(state)
	state.Version = 2
	agent := r.register(state)
	expect(r, 1, "a report without the instance")
	state = proto.CloneOf(state)
	state.Version, state.Facts, state.Instances = 3, gpus(1), []*agentv1.Instance{{InstanceUuid: consumerUUID(2)}}
	agent.report(state)
	expect(r, 1, "a report with the instance and its device")
	r.must(guestClaim("c3", 3, 1, guest), confirm("c3", 3))
	expect(r, 0, "a third claim, confirmed at once")
	r.must(release("c3", 3))
	expect(r, 1, "released, never reported")
}

// If Nova's tables list the instances of a host, they also count its devices. Its agent, which cannot, does not judge them.
func TestClaimsOfDevices_AgentDoesNotKnowItsInstances_NovasTablesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		s := unknownState(1, 8)
		s.Verifies, s.Facts = true, gpus(3)
		_, responses := r.withResponses(s)
		judged := &cellv1.Guest{PciRequests: oneGPU(), JudgePci: true}
		r.must(guestClaim("c1", 1, 1, judged), confirm("c1", 1))
		if o := offerIn(t, responses); len(o.GetGuest()) == 0 {
			t.Errorf("offered before an import: %v", o)
		}
		// The row counts the devices of instance 1, and of one from before.
		in := importedState(1, 1, 1, 9)
		in.State.Facts = gpus(1)
		r.imported(in, &cellv1.ImportOutcome{OwnedByAgent: true, InstancesTaken: true, Adopted: 1})
		r.must(guestClaim("c2", 2, 1, judged))
		if o := offerIn(t, responses); o.GetClaimId() != "c2" || len(o.GetGuest()) > 0 {
			t.Errorf("offered after an import: %v", o)
		}
		if f := r.do(guestClaim("c3", 3, 1, judged))[0].GetRefusal(); f.GetFilter() != schedule.PCIFilter {
			t.Errorf("the fourth of three devices: %v", f)
		}
		if p := r.ask(schedule.PCIFilter, &cellv1.NovaRequest{PciRequests: oneGPU()}); p.GetPassed() != 0 {
			t.Errorf("%d hosts have a device free", p.GetPassed())
		}
	})
}

// A claim whose hardware on the host was taken by others is refused. A repeat of a claim that was
// made is answered with that claim.
func TestClaimsOfHardwareThatWasTakenAreRefused(t *testing.T) {
	r := start(t, newStore(t))
	for host, devices := range []int{1: 2, 2: 1} {
		if host > 0 {
			state := plainState(host, 8)
			state.Facts = gpus(devices)
			r.register(state)
		}
	}
	judged := &cellv1.Guest{PciRequests: oneGPU(), JudgePci: true}
	refused := func(o *cellv1.ClaimOutcome, when string) {
		t.Helper()
		if f := o.GetRefusal(); f.GetReason() != string(fault.NoValidHost) || f.GetFilter() != schedule.PCIFilter || o.GetClaim() != nil {
			t.Errorf("%s: %v, want a refusal of %s", when, o, schedule.PCIFilter)
		}
	}
	out := r.do(guestClaim("c1", 1, 1, judged), guestClaim("c2", 2, 1, judged), guestClaim("c3", 3, 1, judged), newClaim("c4", 4, 1, 1))
	for i, o := range out {
		if i != 2 && o.GetRefusal() != nil {
			t.Errorf("claim %d of four at once is refused: %v", i+1, o.GetRefusal())
		}
	}
	refused(out[2], "the third of two devices, in one transaction")
	refused(r.do(guestClaim("c5", 5, 1, judged))[0], "later")
	if o := r.do(guestClaim("c1", 1, 1, judged))[0]; o.GetClaim().GetClaimId() != "c1" {
		t.Errorf("the first claim again: %v", o)
	}
	if o := r.do(guestClaim("c6", 1, 1, judged))[0]; o.GetRefusal().GetReason() != string(fault.AlreadyExists) {
		t.Errorf("another claim of a consumer that has one: %v", o)
	}
	r.must(guestClaim("forced", 6, 1, &cellv1.Guest{PciRequests: oneGPU()}))
	r.must(release("forced", 6), guestClaim("c7", 7, 2, judged))
	refused(r.do(swap("c7", 7, 1, 1))[0], "swapped to the host without a device left")
	r.must(release("c2", 2))
	r.must(swap("c7", 7, 1, 1))
	numa := &cellv1.Guest{Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{Cpus: 1, MemoryMb: 1}}}, JudgeNuma: true}
	if f := r.do(guestClaim("c8", 8, 1, numa))[0].GetRefusal(); f.GetFilter() != schedule.NUMAFilter {
		t.Errorf("a topology on a host without one: %v", f)
	}
}

// A claim whose lease has ended cannot be confirmed if others have taken its devices.
func TestConfirm_LateAndDevicesTaken_ReturnsClaimExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		state := plainState(1, 8)
		state.Facts = gpus(4)
		a := r.register(state)
		two := oneGPU()
		two[0].Count = 2
		claims := func(id string, consumer int) *cellv1.ClaimOp {
			return guestClaim(id, consumer, 1, &cellv1.Guest{PciRequests: two, JudgePci: true})
		}
		late := claims("a", 1)
		late.GetClaim().Ttl = durationpb.New(time.Second)
		r.must(late)
		time.Sleep(5 * time.Second)
		a.heartbeat()
		r.must(claims("b0", 2), claims("b1", 3), confirm("b0", 2), confirm("b1", 3))
		refusal := r.do(confirm("a", 1))[0].GetRefusal()
		if refusal.GetReason() != string(fault.ClaimExpired) || !strings.Contains(refusal.GetMessage(), "2 asked for, 0 free") {
			t.Errorf("the late confirm: %v", refusal)
		}
		r.must(release("b1", 3), confirm("a", 1))
	})
}

func TestGuestsThatCannotBe(t *testing.T) {
	var r reader
	r.guest(&cellv1.Guest{PciRequests: []*cellv1.PciRequest{{Count: 0}}})
	if err := r.Err(); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("a request for no device: %v", err)
	}
	r = reader{}
	big := &cellv1.NovaImage{Properties: []*cellv1.ImageProperty{{Name: "os_distro", Text: string(make([]byte, shard.MaxGuest))}}}
	if r.guest(&cellv1.Guest{Image: big}); fault.KindOf(r.Err()) != fault.InvalidRequest {
		t.Errorf("an image beyond the bound: %v", r.Err())
	}
	if r.guest(nil) != nil {
		t.Error("no guest became one")
	}
}
