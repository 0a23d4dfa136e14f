package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/testlong"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// inGroup puts the instances of a request into a server group with a policy.
func inGroup(req *cellgatev1.SelectDestinationsRequest, policy schedule.Policy) *cellgatev1.SelectDestinationsRequest {
	req.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: testUUID(0xf, 1), Policy: string(policy)}
	return req
}

// withChange is a request after a change that a refusal or an explanation names.
func withChange(req *cellgatev1.SelectDestinationsRequest, change *cellgatev1.RequestChange) *cellgatev1.SelectDestinationsRequest {
	out := withChanges(req, change.GetMisses())
	if n := change.GetInstances(); n > 0 {
		out.InstanceUuids = out.InstanceUuids[:n]
	}
	for _, m := range change.GetMisses() {
		switch m.GetFilter() {
		case schedule.HostFilter:
			out.GetRequestSpec().RequestedDestination, out.GetRequestSpec().ForceHosts = nil, nil
		case schedule.AffinityFilter, schedule.AntiAffinityFilter:
			out.GetRequestSpec().InstanceGroup.Policy = "soft-" + out.GetRequestSpec().InstanceGroup.GetPolicy()
		}
	}
	return out
}

// hostsWithout counts the hosts that do not meet a condition, and those of them that meet all others.
func hostsWithout(conditions []*cellgatev1.Condition, filter string) (hosts, alone int32) {
	for _, c := range conditions {
		if c.GetFilter() == filter {
			hosts, alone = hosts+c.GetHosts(), alone+c.GetAlone()
		}
	}
	return hosts, alone
}

// The host of a group's members is full. Hosts of all other cells count as hosts without the member, like those of its
// own cell. The change that the refusal names makes the request fit.
func TestRefusal_AffinityWithTheMemberInOneCell_AllCellsCountAndAdviseAsOne(t *testing.T) {
	for _, op := range []cellgatev1.Operation{cellgatev1.Operation_BUILD, cellgatev1.Operation_LIVE_MIGRATE} {
		t.Run(op.String(), func(t *testing.T) {
			var hosts []schedule.Host
			for i := range 9 {
				hosts = append(hosts, testHost(i, 1))
			}
			w := start(t, inCells(hosts, 3), nil)
			member := w.choose(inGroup(ask(1, 2), schedule.Affinity)).GetDestinations()
			for i, d := range member {
				if err := w.confirm(d.GetSelected(), testUUID(0x1, 1+i)); err != nil {
					t.Fatal(err)
				}
			}
			req, lacks := inGroup(ask(5, 1), schedule.Affinity), int32(8)
			req.GetRequestSpec().GetFlavor().Vcpus = 16
			if op == cellgatev1.Operation_LIVE_MIGRATE {
				req = inGroup(ask(1, 1), schedule.Affinity)
			}
			req.Operation, req.DryRun = op, true
			e := w.refused(req, fault.NoValidHost)
			d, _ := e.Detail.(*cellgatev1.NoValidHost)
			if n, _ := hostsWithout(d.GetConditions(), schedule.AffinityFilter); n != lacks {
				t.Errorf("%d hosts lack a member, want %d: %v", n, lacks, d.GetConditions())
			}
			why, err := w.scheduler.ExplainDestinations(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			n, alone := hostsWithout(why.GetConditions(), schedule.AffinityFilter)
			if n != lacks || alone != lacks || why.GetPassed() != 0 || why.GetSmallestChange() != d.GetSmallestChange() || d.GetSmallestChange() == "" {
				t.Errorf("explain: %d hosts lack a member, %d that alone, %d pass, change %q; the refusal's is %q", n, alone, why.GetPassed(), why.GetSmallestChange(), d.GetSmallestChange())
			}
			w.choose(withChange(req, d.GetChanges()[0]))
		})
	}
}

// A cell that is dead, or was never reached, does not fail a request that may not go there.
func TestRefusal_OtherCellIsDead_RequestForOneCellHasNoValidHost(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, func(c *Config) {
		c.Cells = append(c.Cells, cellclient.CellConfig{Name: "cell9", Replicas: []string{"nowhere"}})
		c.ProposeBudget = 200 * time.Millisecond
	})
	req := to(ask(1, 1), "cell1")
	req.GetRequestSpec().GetFlavor().Vcpus = 17
	e := w.refused(req, fault.NoValidHost)
	if d, _ := e.Detail.(*cellgatev1.NoValidHost); outcomes(d.GetCells()) != "cell1 SEARCHED, cell9 SKIPPED" {
		t.Errorf("%v", e)
	}
	why, err := w.scheduler.ExplainDestinations(context.Background(), req)
	if err != nil || why.GetPartial() {
		t.Errorf("%v %v", why, err)
	}
	anywhere := proto.CloneOf(req)
	anywhere.GetRequestSpec().RequestedDestination = nil
	w.refused(anywhere, fault.CellUnavailable)
	if w.choose(to(ask(1, 1), "cell1")).GetPartial() {
		t.Error("the answer is partial without a cell that it did not ask")
	}
}

// If a dead cell's last summary has no host of the request's zone, the cell is taken to have
// none: the error is NO_VALID_HOST.
func TestRefusal_DeadCellHasNoHostOfTheZone_NoValidHost(t *testing.T) {
	zoned := func(n int, zone string) schedule.Host {
		h := testHost(n, 1)
		h.Resources[0].Used = 1
		h.Aggregates = []schedule.Aggregate{{UUID: testUUID(0xd, n), Name: zone, Metadata: map[string]string{"availability_zone": zone}}}
		return h
	}
	w := start(t, []*testCell{newCell(1, zoned(1, "az1")), newCell(2, zoned(2, "az2"))}, nil)
	w.cells[1].hook(func(context.Context, string, any) error { return fault.New(fault.CellUnavailable, "no") }, nil)
	req := ask(1, 1)
	req.GetRequestSpec().GetFlavor().Vcpus = 16
	inZone := proto.CloneOf(req)
	inZone.GetRequestSpec().AvailabilityZone = "az1"
	for _, open := range []bool{false, true} { // the dead cell's breaker
		for open && w.g.cells.All[1].Unusable() == nil {
			w.refused(to(ask(1, 1), "cell2"), fault.CellUnavailable)
		}
		w.refused(inZone, fault.NoValidHost)
		w.refused(req, fault.CellUnavailable)
		small := ask(2, 1)
		small.DryRun = true
		if got := w.choose(small); !got.GetPartial() || got.GetExact() {
			t.Errorf("partial %v, exact %v", got.GetPartial(), got.GetExact())
		}
		if why, err := w.scheduler.ExplainDestinations(context.Background(), small); err != nil || !why.GetPartial() || why.GetExact() {
			t.Errorf("explain: partial %v, exact %v, %v", why.GetPartial(), why.GetExact(), err)
		}
	}
}

// Each change that a refusal names makes the whole request fit, over real cells: for several instances, in a group of
// any policy, with members in any cell. Explain names the same changes.
func TestRefusal_SeveralInstancesInGroups_ChangeFitsTheWholeRequest(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 5))
	want, changes, refusals, several, fewer := 12, 0, 0, 0, 0
	if testlong.On() {
		want = 500
	}
	seen := map[string]int{}
	fleet := func(t *testing.T) { // in a bubble the search for near misses takes no time
		w := start(t, inCells(variedHosts(rng, 5+rng.IntN(8)), 3), nil)
		policy := schedule.Affinity
		if rng.IntN(2) == 0 {
			policy = schedule.AntiAffinity
		}
		members := rng.IntN(3)
		if members > 0 {
			if _, err := w.scheduler.SelectDestinations(t.Context(), inGroup(ask(100, members), policy)); err != nil {
				members = 0
			}
		}
		for i := range 10 {
			n := 1 + rng.IntN(4)
			req := ask(10*i, n)
			req.DryRun, req.RequestId = true, fmt.Sprint("r", i)
			spec := req.GetRequestSpec()
			spec.Resources = map[string]int32{"VCPU": 1 + rng.Int32N(20), "MEMORY_MB": 1 + rng.Int32N(60000), "DISK_GB": 1 + rng.Int32N(800)}
			if rng.IntN(3) == 0 {
				spec.RequiredTraits = []string{"CUSTOM_GOLD"}
			}
			if rng.IntN(3) == 0 {
				spec.AvailabilityZone = fmt.Sprintf("az%d", rng.IntN(3))
			}
			grouped := rng.IntN(3) > 0
			if grouped {
				inGroup(req, policy)
			}
			_, err := w.scheduler.SelectDestinations(t.Context(), req)
			if err == nil {
				continue
			}
			d, _ := mustFail(t, nil, err, fault.NoValidHost).Detail.(*cellgatev1.NoValidHost)
			refusals++
			why, err := w.scheduler.ExplainDestinations(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if why.GetSmallestChange() != d.GetSmallestChange() {
				t.Fatalf("%d instances: the refusal names %q, explain %q", n, d.GetSmallestChange(), why.GetSmallestChange())
			}
			if d.GetSmallestChange() == "" {
				continue
			}
			changes++
			seen[fmt.Sprintf("several %v, grouped %v, members %v", n > 1, grouped, members > 0)]++
			for i, change := range d.GetChanges() {
				if _, err := w.scheduler.SelectDestinations(t.Context(), withChange(req, change)); err != nil {
					t.Fatalf("%d instances of %v do not fit after %q: %v", n, spec, change.GetText(), err)
				}
				if i > 0 && change.GetCost() < d.GetChanges()[i-1].GetCost() {
					t.Fatalf("%v comes before %v", d.GetChanges()[i-1], change)
				}
				if i > 0 {
					several++
				}
				if change.GetInstances() > 0 {
					fewer++
				}
			}
		}
	}
	for changes < want {
		synctest.Test(t, fleet)
	}
	t.Logf("%d refusals, %d with changes, %d further ones, %d of fewer instances: %v", refusals, changes, several, fewer, seen)
	if len(seen) < 6 || several == 0 || fewer == 0 {
		t.Error("the fleets show too little")
	}
}

// An explanation of several instances says at which one the request ends, with select's text and change.
func TestExplain_SeveralInstancesDoNotAllFit_HasTheRefusal(t *testing.T) {
	var hosts []schedule.Host
	for i := range 4 {
		hosts = append(hosts, testHost(i, 1))
	}
	w := start(t, inCells(hosts, 2), nil)
	req := inGroup(ask(5, 3), schedule.Affinity)
	req.GetRequestSpec().GetFlavor().Vcpus = 10
	req.DryRun = true
	refused := w.refused(req, fault.NoValidHost)
	d, _ := refused.Detail.(*cellgatev1.NoValidHost)
	why, err := w.scheduler.ExplainDestinations(context.Background(), req)
	if err != nil || why.GetPassed() != 4 || why.GetSmallestChange() != d.GetSmallestChange() || d.GetSmallestChange() == "" {
		t.Errorf("%v, %v; refused: %v", why, err, d)
	}
	if why.GetRefusal() != refused.Message || !strings.Contains(why.GetRefusal(), "for instance 2 of 3") {
		t.Errorf("the refusal is %q, select's %q", why.GetRefusal(), refused.Message)
	}
	w.choose(withChange(req, d.GetChanges()[0]))
	req.GetRequestSpec().GetFlavor().Vcpus = 5
	if why, err := w.scheduler.ExplainDestinations(context.Background(), req); err != nil || why.GetRefusal() != "" {
		t.Errorf("all fit: %v, %v", why, err)
	}
}
