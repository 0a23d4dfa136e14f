package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// fullHost is one of 16 VCPU that are all in use.
func fullHost(n int) schedule.Host {
	h := testHost(n, 1)
	h.Resources[0].Used = 16
	return h
}

// claims counts the claims that a cell was asked for.
func claimsAsked(f *fakeCell) (n int) {
	for _, op := range f.did() {
		if strings.HasPrefix(op, "claim ") {
			n++
		}
	}
	return n
}

func rejectsOf(t *testing.T, e *fault.Error) map[string]int32 {
	t.Helper()
	d, ok := e.Detail.(*cellgatev1.NoValidHost)
	if !ok {
		t.Fatalf("the detail is %v", e.Detail)
	}
	return rejectCountsOf(d.GetRejects())
}

func rejectCountsOf(counts []*cellgatev1.RejectCount) map[string]int32 {
	out := map[string]int32{}
	for _, r := range counts {
		out[r.GetFilter()+" "+r.GetDetail()] = r.GetHosts()
	}
	return out
}

// The rows of 200 hosts show room that the shard has on one alone. A request finds that
// one, and the next that nothing can take it, with a few claims and not one for each
// host.
func TestRowsThatShowMoreRoomThanTheShard(t *testing.T) {
	var rows, shard []schedule.Host
	for n := range 200 {
		rows = append(rows, testHost(n+1, 400-n))
		shard = append(shard, fullHost(n+1))
	}
	shard[150] = testHost(151, 1)
	f, u := newFakeCell(1, shard...), newUpgrading(1, rows...)
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	if got := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host151" {
		t.Errorf("it is on %s", got)
	}
	f.edit(func(e *schedule.Edit) { e.PutHost(fullHost(151)) })
	e := w.refused(ask(2, 1), fault.NoValidHost)
	if n := claimsAsked(f); n > 6 {
		t.Errorf("%d claims were tried", n)
	}
	if !strings.Contains(e.Message, "0 of 200 hosts") {
		t.Errorf("it says %q", e.Message)
	}
	if f.gate.shortAsks != 1 {
		t.Errorf("the cell was asked %d times which hosts have no room", f.gate.shortAsks)
	}
}

// A cell that does not say which hosts have no room is asked host by host: it ends.
func TestShardThatDoesNotSayWhatItHasLeft(t *testing.T) {
	f := newFakeCell(1, fullHost(1), fullHost(2), fullHost(3), fullHost(4), fullHost(5))
	u := newUpgrading(1, testHost(1, 5), testHost(2, 4), testHost(3, 3), testHost(4, 2), testHost(5, 1))
	f.gate.mute = true
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	w.refused(ask(1, 1), fault.NoValidHost)
	if n := claimsAsked(f); n != 5 {
		t.Errorf("%d claims were tried", n)
	}
}

// A stand-in that forgets at once what the shard said makes no request go on for ever.
func TestRowsThatSayRoomAgainAndAgain(t *testing.T) {
	f := newFakeCell(1, fullHost(1), fullHost(2))
	u := newUpgrading(1, testHost(1, 2), testHost(2, 1))
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	u.standIn.table.hook(func(_ context.Context, method string, _ any) error {
		if method == "ProposeBatch" {
			u.standIn.table.edit(func(e *schedule.Edit) { e.PutHost(testHost(1, 2)); e.PutHost(testHost(2, 1)) })
		}
		return nil
	}, nil)
	e := w.refused(ask(1, 1), fault.NoValidHost)
	if n := claimsAsked(f); n != 2*maxRefusals {
		t.Errorf("%d claims were tried", n)
	}
	if got := rejectsOf(t, e); got["ShardFilter VCPU"] != 2 {
		t.Errorf("it says %v", got)
	}
}

// Many at once for the last place: one gets it, each of the others hears that there is
// none, and claims tried do not multiply.
func TestManyForTheLastPlaceOfALegacyCell(t *testing.T) {
	last := testHost(1, 1)
	last.Resources[0].Used = 14
	f := newFakeCell(1, last, fullHost(2), fullHost(3))
	u := newUpgrading(1, testHost(1, 3), testHost(2, 2), testHost(3, 1))
	f.moveGate(cellgatev1.Gate_LEGACY)
	w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
	const n = 40
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { _, errs[i] = w.scheduler.SelectDestinations(t.Context(), ask(10+i, 1)) })
	}
	all.Wait()
	placed := 0
	for i, err := range errs {
		switch kind := fault.KindOf(err); {
		case err == nil:
			placed++
		case kind != fault.NoValidHost:
			t.Errorf("request %d: %v", i, err)
		}
	}
	if live := len(f.live()); placed != 1 || live != 1 {
		t.Errorf("%d were placed, the shard has %d claims", placed, live)
	}
	if tried := claimsAsked(f); tried > n*(3*maxRefusals) {
		t.Errorf("%d claims were tried", tried)
	}
}

// The members of a group that nobody names are known to the shard alone: with affinity
// the request goes where they are, with anti-affinity it keeps from there.
func TestMembersThatNobodyNames(t *testing.T) {
	group := testUUID(0x9, 1)
	begin := func(t *testing.T, policy schedule.Policy) (*world, *fakeCell) {
		f := newFakeCell(1, testHost(1, 1), testHost(2, 1), testHost(3, 1))
		u := newUpgrading(1, testHost(1, 3), testHost(2, 2), testHost(3, 1))
		f.moveGate(cellgatev1.Gate_LEGACY)
		w := startGated(t, []*fakeCell{f}, map[int]*upgrading{0: u}, nil)
		f.members = map[string][]string{}
		member := "host003"
		if policy == schedule.AntiAffinity {
			member = "host001"
		}
		f.members[group] = []string{member}
		return w, f
	}
	grouped := func(n int, policy schedule.Policy) *cellgatev1.SelectDestinationsRequest {
		req := ask(n, 1)
		req.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: group, Policy: string(policy)}
		return req
	}
	t.Run("affinity", func(t *testing.T) {
		w, f := begin(t, schedule.Affinity)
		if got := w.choose(grouped(1, schedule.Affinity)).GetDestinations()[0].GetSelected().GetServiceHost(); got != "host003" {
			t.Errorf("it is on %s", got)
		}
		if n := claimsAsked(f); n != 2 {
			t.Errorf("%d claims were tried", n)
		}
	})
	t.Run("anti-affinity", func(t *testing.T) {
		w, f := begin(t, schedule.AntiAffinity)
		if got := w.choose(grouped(1, schedule.AntiAffinity)).GetDestinations()[0].GetSelected().GetServiceHost(); got == "host001" {
			t.Errorf("it is on %s", got)
		}
		pair := grouped(3, schedule.AntiAffinity)
		pair.InstanceUuids = append(pair.InstanceUuids, testUUID(0x1, 4), testUUID(0x1, 5))
		w.refused(pair, fault.NoValidHost) // three on the two hosts that are left
		if n := len(f.live()); n != 1 {
			t.Errorf("%d claims live", n)
		}
		f.members[group] = []string{"host001", "host002", "host003"}
		e := w.refused(grouped(2, schedule.AntiAffinity), fault.NoValidHost)
		if got := rejectsOf(t, e); got["ShardFilter ServerGroupAntiAffinityFilter"] == 0 {
			t.Errorf("it says %v", got)
		}
	})
}

// What a cell's own table shows is not the stand-in's business.
func TestRefusalOfANativeCellIsNotRemembered(t *testing.T) {
	w, f, u := oneUpgrading(t, cellgatev1.Gate_NATIVE)
	var once sync.Once
	f.hook(func(_ context.Context, method string, req any) error {
		if batch, ok := req.(*cellv1.ClaimBatchRequest); ok && batch.GetOps()[0].GetClaim() != nil {
			once.Do(func() { f.edit(func(e *schedule.Edit) { e.PutHost(fullHost(1)) }) })
		}
		return nil
	}, nil)
	if got := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected().GetServiceHost(); got == "" {
		t.Error("it has no host")
	}
	if f.gate.shortAsks != 0 || u.standIn.asked() != 0 {
		t.Errorf("the cell was asked %d times what it has left, the stand-in %d times", f.gate.shortAsks, u.standIn.asked())
	}
}
