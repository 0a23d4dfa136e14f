package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func askGroup(first, n int, policy string) *cellgatev1.SelectDestinationsRequest {
	r := ask(first, n)
	r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xe, 1), Policy: policy}
	return r
}

// arbiterOf gives the test cell that arbitrates the test group.
func (w *world) arbiterOf() *testCell {
	name := w.g.claims.Arbiter(testUUID(0xe, 1)).Name()
	for _, c := range w.cells {
		if c.name == name {
			return c
		}
	}
	w.t.Fatalf("no cell %s", name)
	return nil
}

// holders counts the claims that hold a group where it is pinned.
func (c *testCell) holders(group string) int {
	_, holders := c.pin(group)
	return len(holders)
}

// Many first members of one group at once, over cells: all end on one host. The
// claims of each are held up until all have proposed, so that none sees another.
func TestI9_ConcurrentHardAffinityEndsOnOneHost(t *testing.T) {
	const requests = 4
	var hosts []schedule.Host
	for i := range 12 {
		hosts = append(hosts, testHost(i, 1))
	}
	w := start(t, []*testCell{newCell(1, hosts[:4]...), newCell(2, hosts[4:8]...), newCell(3, hosts[8:]...)}, nil)
	var once sync.Once
	var first sync.WaitGroup
	first.Add(requests)
	gate := make(chan struct{})
	var mu sync.Mutex
	seen := map[string]bool{}
	pinned := map[string]bool{}
	w.arbiterOf().hook(func(_ context.Context, method string, req any) error {
		b, ok := req.(*cellv1.ClaimBatchRequest)
		if !ok || b.GetOps()[0].GetPin() == nil {
			return nil
		}
		mu.Lock()
		for _, op := range b.GetOps() {
			pin := op.GetPin()
			if pin == nil {
				continue
			}
			pinned[pin.GetServiceHost()] = true
			if !seen[pin.GetClaimId()] && len(seen) < requests {
				seen[pin.GetClaimId()] = true
				first.Done()
			}
		}
		mu.Unlock()
		once.Do(func() { go func() { first.Wait(); close(gate) }() })
		<-gate
		return nil
	}, nil)
	answers := make(chan string, requests)
	for i := range requests {
		go func() {
			req := askGroup(10*i, 2, "affinity")
			req.RequestId = fmt.Sprint("request ", i) // of which the seed is made: they do not all want one host
			resp, err := w.scheduler.SelectDestinations(context.Background(), req)
			if err != nil {
				answers <- err.Error()
				return
			}
			a, b := resp.GetDestinations()[0].GetSelected(), resp.GetDestinations()[1].GetSelected()
			answers <- a.GetServiceHost() + " " + b.GetServiceHost()
		}()
	}
	got := map[string]bool{}
	for range requests {
		got[<-answers] = true
	}
	if len(pinned) < 2 {
		t.Fatalf("all requests wanted %v: they did not race", pinned)
	}
	if len(got) != 1 {
		t.Fatalf("members on %v", got)
	}
	for a := range got {
		if x, y, _ := strings.Cut(a, " "); x != y {
			t.Errorf("members on %v", got)
		}
	}
	if w.liveClaims() != 2*requests {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestI9_LaterMembersFollowTheFirst(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 2))}, nil)
	host := w.choose(askGroup(1, 1, "affinity")).GetDestinations()[0].GetSelected().GetServiceHost()
	// host002 has more free than host001 now, and less after the next claim.
	if host != "host002" {
		t.Fatalf("first member on %s", host)
	}
	big := ask(50, 1)
	big.GetRequestSpec().Flavor.Vcpus, big.GetRequestSpec().Flavor.MemoryMb = 20, 90000
	big.GetRequestSpec().ForceHosts = []string{"host002"}
	w.choose(big)
	for i := range 3 {
		if got := w.choose(askGroup(10+i, 1, "affinity")).GetDestinations()[0].GetSelected().GetServiceHost(); got != host {
			t.Errorf("member %d on %s", i, got)
		}
	}
}

// A cell that could not hold the request may still hold the group's members.
func TestI9_MembersInACellThatCannotHoldTheRequest(t *testing.T) {
	fast := testHost(2, 1)
	fast.Traits = []string{"CUSTOM_FAST"}
	w := start(t, []*testCell{newCell(1, testHost(1, 2)), newCell(2, fast)}, nil)
	if s := w.choose(askGroup(1, 1, "affinity")).GetDestinations()[0].GetSelected(); s.GetServiceHost() != "host001" {
		t.Fatalf("first member on %s", s.GetServiceHost())
	}
	second := askGroup(2, 1, "affinity")
	second.GetRequestSpec().RequiredTraits = []string{"CUSTOM_FAST"}
	e := w.refused(second, fault.NoValidHost)
	if !strings.Contains(e.Message, "has no member of the server group") {
		t.Errorf("%v", e)
	}
}

func TestHardAffinityNeedsEveryCell(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1)), newCell(3, testHost(3, 1))}, nil)
	var sick *testCell
	for _, c := range w.cells {
		if c != w.arbiterOf() {
			sick = c
		}
	}
	down := func(_ context.Context, method string, _ any) error { return errors.New("down") }
	sick.hook(down, nil)
	e := w.refused(askGroup(1, 1, "affinity"), fault.CellUnavailable)
	if !strings.Contains(e.Message, sick.name) {
		t.Errorf("%v does not name %s", e, sick.name)
	}
	// A request that names a member's host, or has soft affinity, does not need the sick cell.
	w.choose(askGroup(2, 1, "soft-affinity"))
	named := askGroup(3, 1, "affinity")
	for _, c := range w.cells {
		if c != sick {
			named.GetRequestSpec().InstanceGroup.Hosts = []string{c.hosts[0].ServiceHost}
		}
	}
	if resp := w.choose(named); !resp.GetPartial() {
		t.Errorf("not partial: %v", resp)
	}
}

func TestUnreadableArbiterIsCellUnavailable(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	w.arbiterOf().hook(func(_ context.Context, method string, req any) error {
		if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetPin() != nil {
			return errors.New("no")
		}
		return nil
	}, nil)
	e := w.refused(askGroup(1, 1, "affinity"), fault.CellUnavailable)
	if !strings.Contains(e.Message, w.arbiterOf().name) || w.liveClaims() != 0 {
		t.Errorf("%v, %d claims", e, w.liveClaims())
	}
}

// A group that may have been pinned for a refused request does not stay pinned.
func TestPin_AnswerIsLost_NoHoldStays(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	arbiter := w.arbiterOf()
	arbiter.hook(nil, func(_ string, req any) error {
		if len(opsIn(req, (*cellv1.ClaimOp).GetPin)) > 0 {
			return errors.New("lost")
		}
		return nil
	})
	w.refused(askGroup(1, 1, "affinity"), fault.CellUnavailable)
	w.g.cells.Wait()
	if n := arbiter.holders(testUUID(0xe, 1)); n != 0 {
		t.Errorf("%d holds are left", n)
	}
}

// The error names the cell that did not pin the group, not the caller's deadline, which is far.
func TestArbiterThatHangs_IsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
		w.arbiterOf().hook(hang("ClaimBatch"), nil)
		e := w.refused(askGroup(1, 1, "affinity"), fault.CellUnavailable)
		if !strings.Contains(e.Message, "could not pin it") || e.Metadata["cells"] != w.arbiterOf().name {
			t.Errorf("%v, cells %q", e, e.Metadata["cells"])
		}
	})
}

func TestPinEndsWithItsClaims(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	arbiter := w.arbiterOf()
	unpinned := make(chan struct{}, 8)
	arbiter.hook(nil, func(method string, req any) error {
		if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetUnpin() != nil {
			unpinned <- struct{}{}
		}
		return nil
	})
	resp := w.choose(askGroup(1, 2, "affinity"))
	if n := arbiter.holders(testUUID(0xe, 1)); n != 2 {
		t.Fatalf("%d holders", n)
	}
	for i, d := range resp.GetDestinations() {
		if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
			ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId(),
		}); err != nil {
			t.Fatal(err)
		}
		<-unpinned
		if n := arbiter.holders(testUUID(0xe, 1)); n != 1-i {
			t.Errorf("%d holders after %d releases", n, i+1)
		}
	}
}

// Nova ends claims by Placement's API, or the rows of instances do: a pin does not end with them.
func TestPin_ItsClaimsHaveEnded_BindsNobody(t *testing.T) {
	one, two := testHost(1, 2), testHost(2, 1)
	pinned := func() *world {
		w := start(t, []*testCell{newCell(1, one, two)}, nil)
		s := w.choose(askGroup(1, 1, "affinity")).GetDestinations()[0].GetSelected()
		w.cells[0].release(s.GetClaimId(), testUUID(0x1, 1))
		if to, _ := w.cells[0].pin(testUUID(0xe, 1)); to != one.ServiceHost {
			t.Fatalf("the group is pinned to %q", to)
		}
		return w
	}
	t.Run("the build failed, and went on to an alternate", func(t *testing.T) {
		w := pinned()
		w.cells[0].made("alternate", testUUID(0x1, 1), two.UUID.String())
		second := askGroup(2, 1, "affinity")
		g := second.GetRequestSpec().GetInstanceGroup()
		g.Members, g.Hosts = []string{testUUID(0x1, 1), testUUID(0x1, 2)}, []string{two.ServiceHost}
		if s := w.choose(second).GetDestinations()[0].GetSelected(); s.GetServiceHost() != two.ServiceHost {
			t.Errorf("the second member is on %v", s)
		}
	})
	t.Run("the only member was deleted, and its host is not in service", func(t *testing.T) {
		w := pinned()
		second := askGroup(2, 1, "affinity")
		second.GetRequestSpec().IgnoreHosts = []string{one.ServiceHost}
		if s := w.choose(second).GetDestinations()[0].GetSelected(); s.GetServiceHost() != two.ServiceHost {
			t.Errorf("the next member is on %v", s)
		}
	})
}

// Anti-affinity over cells needs no pin: each host is in one cell.
func TestI9_AntiAffinitySpreadsOverCells(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1)), newCell(3, testHost(3, 1))}, nil)
	hosts := map[string]bool{}
	for _, d := range w.choose(askGroup(1, 2, "anti-affinity")).GetDestinations() {
		hosts[d.GetSelected().GetServiceHost()] = true
	}
	hosts[w.choose(askGroup(3, 1, "anti-affinity")).GetDestinations()[0].GetSelected().GetServiceHost()] = true
	if len(hosts) != 3 {
		t.Errorf("members on %v", hosts)
	}
	w.refused(askGroup(4, 1, "anti-affinity"), fault.NoValidHost)
}
