package cell

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

const (
	adminEnabled     = cellgatev1.HostAdmin_ENABLED
	adminDisabled    = cellgatev1.HostAdmin_DISABLED
	adminMaintenance = cellgatev1.HostAdmin_MAINTENANCE
	adminForcedDown  = cellgatev1.HostAdmin_FORCED_DOWN
)

// operate sets a host's admin state, as alice.
func (r *testCell) operate(n int, to cellgatev1.HostAdmin_State, change ...func(*cellv1.SetAdminStateRequest)) *cellgatev1.Host {
	r.t.Helper()
	req := &cellv1.SetAdminStateRequest{HostUuid: hostUUID(n), State: to, Reason: "a bad disk", By: "alice"}
	for _, f := range change {
		f(req)
	}
	out, err := r.cells.SetAdminState(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return out.GetHost()
}

// rejected gives how many hosts a proposal rejects, by filter and detail.
func (r *testCell) rejected(q *cellv1.Query) map[string]int32 {
	r.t.Helper()
	got := map[string]int32{}
	for _, x := range r.propose(q).GetRejects() {
		got[strings.TrimSuffix(x.GetFilter()+": "+x.GetDetail(), ": ")] += x.GetHosts()
	}
	return got
}

func (r *testCell) host(n int) *cellgatev1.Host {
	r.t.Helper()
	_, out := r.listHosts(&cellv1.ListHostsRequest{HostUuid: hostUUID(n)})
	return out.GetHosts()[0]
}

func TestAnOperatorsWordKeepsNewInstancesFromAHost(t *testing.T) {
	r := start(t, newStore(t))
	for n := range 3 {
		r.register(plainState(n, 8))
	}
	r.must(newClaim("pending", 1, 0, 1), newClaim("moving", 2, 0, 1), confirm("moving", 2))
	r.operate(1, adminMaintenance)
	shown := r.operate(0, adminDisabled)
	if a := shown.GetAdmin(); a.GetState() != adminDisabled || a.GetReason() != "a bad disk" || a.GetBy() != "alice" || a.GetSince() == nil || a.GetUntil() != nil {
		t.Errorf("it is answered as %v", a)
	}
	want := map[string]int32{"ComputeFilter: disabled by operator: a bad disk": 1, "ComputeFilter: in maintenance: a bad disk": 1}
	check := func(r *testCell, when string) {
		t.Helper()
		if got := r.rejected(query(1)); len(got) != 2 || got["ComputeFilter: disabled by operator: a bad disk"] != 1 || got["ComputeFilter: in maintenance: a bad disk"] != 1 {
			t.Errorf("%s, rejected are %v, want %v", when, got, want)
		}
		if h := r.host(0); !h.GetEnabled() || !h.GetUp() || h.GetAdmin().GetState() != adminDisabled {
			t.Errorf("%s, shown is %v", when, h)
		}
		if s := r.totals(); s.GetHostsUp() != 1 || s.GetHostsWithheld() != 2 {
			t.Errorf("%s, the totals are %v", when, s)
		}
	}
	check(r, "once it is said")
	r.counts(2, "cellgate_cell_hosts_withheld", "cell1", "r1")
	state := plainState(0, 8)
	state.BootId, state.IoWorkload = "bbbbbbbb-0000-4000-8000-000000000002", 1
	r.register(state)
	check(r, "after a report of the host")
	if o := r.do(newClaim("new", 3, 0, 1))[0].GetRefusal(); o.GetReason() != string(fault.NoValidHost) || o.GetFilter() != "ComputeFilter" || o.GetDetail() != "disabled by operator: a bad disk" {
		t.Errorf("a claim is refused with %v", o)
	}
	// Claims that exist can still be confirmed and moved away.
	away := newClaim("away", 2, 2, 1)
	away.GetClaim().MovesClaimId = "moving"
	r.must(confirm("pending", 1), away, confirm("away", 2))
	if h := r.host(0); h.GetInstances() != 1 {
		t.Errorf("after one moved away %d instances are on the host", h.GetInstances())
	}
	r.operate(0, adminEnabled)
	if p := r.propose(query(1)); p.GetPassed() != 2 {
		t.Errorf("after it went back into service %d hosts passed", p.GetPassed())
	}
	r.must(newClaim("new", 3, 0, 1))
}

// A request for an admin state names the host's generation that it was based on. It is refused if a
// newer request was done, even one that changed nothing.
func TestAWordThatComesLateIsRefused(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(0, 8))
	over := func(generation int64) func(*cellv1.SetAdminStateRequest) {
		return func(req *cellv1.SetAdminStateRequest) { req.AsOfGeneration = generation }
	}
	seen := r.host(0).GetGeneration()
	enabled := r.operate(0, adminEnabled, over(seen))
	if g := enabled.GetGeneration(); g <= seen || g != r.host(0).GetGeneration() {
		t.Errorf("after a word over generation %d the host is of %d", seen, g)
	}
	_, err := r.cells.SetAdminState(t.Context(), &cellv1.SetAdminStateRequest{HostUuid: hostUUID(0), State: adminDisabled, Reason: "late", AsOfGeneration: seen})
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.StaleGeneration || e.Metadata["generation"] != fmt.Sprint(enabled.GetGeneration()) {
		t.Errorf("a word over generation %d is answered with %v", seen, err)
	}
	r.must(newClaim("one", 1, 0, 1))
	r.operate(0, adminDisabled, over(enabled.GetGeneration())) // a claim does not count as a newer request
}

func TestForcedDown_HostStillSendsHeartbeats_IsDown(t *testing.T) {
	r := start(t, newStore(t))
	a := r.register(plainState(0, 8))
	if h := r.operate(0, adminForcedDown); h.GetUp() {
		t.Errorf("it is answered as %v", h)
	}
	a.heartbeat()
	state := plainState(0, 8)
	state.Version = 2
	a.report(state)
	if got := r.rejected(query(1)); got["ComputeFilter: forced down by operator: a bad disk"] != 1 {
		t.Errorf("rejected are %v", got)
	}
	for h := range r.cell.versions.Current().All() {
		if !h.Down || r.host(0).GetUp() {
			t.Errorf("in the table it is %+v, shown as %v", h, r.host(0))
		}
	}
	if h := r.operate(0, adminEnabled); !h.GetUp() || r.propose(query(1)).GetPassed() != 1 {
		t.Errorf("back in service it is %v", h)
	}
}

func TestAMaintenanceEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(0, 8))
		r.register(plainState(1, 8))
		h := r.operate(0, adminMaintenance, func(q *cellv1.SetAdminStateRequest) { q.Lasts = durationpb.New(10 * time.Minute) })
		until := h.GetAdmin().GetUntil().AsTime()
		r.operate(1, adminMaintenance, func(q *cellv1.SetAdminStateRequest) { q.Until = timestamppb.New(until.Add(time.Hour)) })
		beat := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Second) {
				for n := range 2 {
					r.cell.live.NoteSeen(hostUUID(n))
				}
			}
		}
		beat(9 * time.Minute)
		if got := r.rejected(query(1)); got["ComputeFilter: in maintenance: a bad disk"] != 2 {
			t.Errorf("after nine minutes rejected are %v", got)
		}
		beat(2 * time.Minute)
		if got := r.rejected(query(1)); len(got) != 1 || got["ComputeFilter: in maintenance: a bad disk"] != 1 {
			t.Errorf("after its end rejected are %v", got)
		}
		if a := r.host(0).GetAdmin(); a.GetState() != adminEnabled || !a.GetSince().AsTime().Equal(until) || a.GetReason() != "a bad disk" {
			t.Errorf("it ended as %v", a)
		}
	})
}

func TestTheWordIsThereAfterARestartAndAtEveryReplica(t *testing.T) {
	sharedShards(t, func(t *testing.T, open func() shard.Store) {
		one := start(t, open(), named("r1"))
		one.register(plainState(0, 8))
		two := start(t, open(), named("r2"), func(c *Config) { c.TailEvery = time.Hour })
		one.operate(0, adminDisabled)
		if row := two.cell.rows.Host(hostUUID(0)); row.Admin != nil {
			t.Fatalf("the other replica knows it already: %+v", row.Admin)
		}
		if o := two.do(newClaim("new", 1, 0, 1))[0].GetRefusal(); o.GetDetail() != "disabled by operator: a bad disk" {
			t.Errorf("a replica whose table is older refuses a claim with %v", o)
		}
		three := start(t, open(), named("r3"))
		if got := three.rejected(query(1)); got["ComputeFilter: disabled by operator: a bad disk"] != 1 {
			t.Errorf("rejected by a replica that starts are %v", got)
		}
		three.operate(0, adminEnabled)
		two.must(newClaim("new", 1, 0, 1))
	})
}

func TestImportsLeaveTheWordOfAHost(t *testing.T) {
	r := start(t, newStore(t))
	r.imported(importedState(1, 1), &cellv1.ImportOutcome{})
	if h := r.operate(1, adminMaintenance); !h.GetImported() || h.GetAdmin().GetState() != adminMaintenance {
		t.Errorf("an imported host is answered as %v", h)
	}
	r.imported(importedState(1, 2, 7), &cellv1.ImportOutcome{Unchanged: true, Adopted: 1})
	r.register(plainState(1, 8))
	if got := r.rejected(query(1)); got["ComputeFilter: in maintenance: a bad disk"] != 1 {
		t.Errorf("when its agent speaks for it rejected are %v", got)
	}
}

func TestBadWordsAboutHostsAreRefusedByTheirField(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(0, 8))
	for field, req := range map[string]*cellv1.SetAdminStateRequest{
		"host_uuid": {HostUuid: "x", State: adminDisabled, Reason: "y"},
		"reason":    {HostUuid: hostUUID(0), State: adminDisabled},
		"lasts":     {HostUuid: hostUUID(0), State: adminMaintenance, Reason: "y", Lasts: durationpb.New(0)},
		"until":     {HostUuid: hostUUID(0), State: adminDisabled, Reason: "y", Lasts: durationpb.New(time.Hour)},
	} {
		_, err := r.cells.SetAdminState(t.Context(), req)
		if fault.KindOf(err) != fault.InvalidRequest || !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v", req, err)
		}
	}
	_, err := r.cells.SetAdminState(t.Context(), &cellv1.SetAdminStateRequest{HostUuid: shardtest.HostID(99), State: adminDisabled, Reason: "y"})
	if fault.KindOf(err) != fault.NotFound {
		t.Errorf("of a host that is not there: %v", err)
	}
}
