package cell

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

func TestTheNextProposalSeesAClaim(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	out := r.must(newClaim("k1", 1, 1, 6))
	if c := out[0].GetClaim(); c.GetState() != cellgatev1.ClaimState_PENDING || c.GetCell() != "cell1" || c.GetServiceHost() != "host-00001" {
		t.Errorf("the claim is %v", c)
	}
	q := query(3)
	q.ConsumerUuids = []string{consumerUUID(2), consumerUUID(1)}
	p := r.propose(q)
	if p.GetPassed() != 0 {
		t.Errorf("what is claimed was proposed again: %v", p)
	}
	if len(p.GetClaims()) != 1 || p.GetClaims()[0].GetClaimId() != "k1" {
		t.Errorf("the consumer's claims are %v", p.GetClaims())
	}
	r.must(confirm("k1", 1))
	if p := r.propose(q); p.GetClaims()[0].GetState() != cellgatev1.ClaimState_CONFIRMED {
		t.Errorf("confirmed, the claim is %v", p.GetClaims())
	}
	r.must(release("k1", 1))
	if p := r.propose(q); p.GetPassed() != 1 || len(p.GetClaims()) != 0 {
		t.Errorf("released, the proposal is %v", p)
	}
}

func TestARefusalIsAnOutcomeOfItsOperation(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	bad := newClaim("k3", 3, 1, 1)
	bad.GetClaim().Allocations[0].Amount = -1
	late := release("k5", 5)
	out := r.do(
		newClaim("k1", 1, 1, 6),
		newClaim("k2", 2, 1, 6),
		bad,
		newClaim("k4", 1, 1, 1),
		late,
		newClaim("k5", 5, 1, 1),
		confirm("k6", 6),
		newClaim("k7", 7, 99, 1),
		newClaim("k8", 8, 1, 2),
	)
	want := []fault.Kind{
		"", fault.NoValidHost, fault.InvalidRequest, fault.AlreadyExists, "",
		fault.ClaimExpired, fault.NotFound, fault.NotFound, "",
	}
	for i, o := range out {
		if got := fault.Kind(o.GetRefusal().GetReason()); got != want[i] {
			t.Errorf("operation %d: %q (%s), want %q", i, got, o.GetRefusal().GetMessage(), want[i])
		}
	}
	if f := out[1].GetRefusal(); f.GetFilter() != "ResourceFilter" || f.GetDetail() != "VCPU" {
		t.Errorf("what did not fit is not named: %v", f)
	}
	if c := out[3]; c.GetClaim().GetClaimId() != "k1" || c.GetClaimOrigin() == nil {
		t.Errorf("the claim in the way is %v", c)
	}
	r.must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{GroupUuid: hostUUID(7), ServiceHost: "a", ClaimId: "k1", Ttl: durationpb.New(time.Minute)}}})
	pinned := r.do(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{GroupUuid: hostUUID(7), ServiceHost: "b", ClaimId: "k2", Ttl: durationpb.New(time.Minute)}}})
	if pinned[0].GetPinnedServiceHost() != "a" || pinned[0].GetRefusal() == nil {
		t.Errorf("a second pin: %v", pinned[0])
	}
}

// Many callers want the same few hosts at once. Exactly what fits is claimed, and the table shows
// the same.
func TestI1_ConcurrentClaimsNeverTakeAHostOverCapacity(t *testing.T) {
	const hosts, vcpus, callers, each = 3, 16, 32, 20
	r := start(t, newStore(t))
	for n := range hosts {
		r.register(plainState(n, vcpus))
	}
	var mu sync.Mutex
	given := map[string]int{}
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				n := caller*each + i
				id := fmt.Sprintf("k%d", n)
				out, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{
					Ops: []*cellv1.ClaimOp{newClaim(id, n, n%hosts, 1)},
				})
				if err != nil {
					t.Error(err)
					return
				}
				o := out.GetOutcomes()[0]
				if o.GetRefusal() != nil {
					continue
				}
				if n%5 == 0 {
					r.must(release(id, n))
					continue
				}
				mu.Lock()
				given[o.GetClaim().GetHostUuid()]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	list, err := r.cells.ListHosts(context.Background(), &cellv1.ListHostsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list.GetHosts() {
		used := h.GetInventories()[0].GetUsed()
		if used != int32(given[h.GetHostUuid()]) || used > vcpus {
			t.Errorf("%s uses %d, %d were given, capacity %d", h.GetServiceHost(), used, given[h.GetHostUuid()], vcpus)
		}
		if used < vcpus-2 {
			t.Errorf("%s has room left (%d of %d) although many wanted it", h.GetServiceHost(), used, vcpus)
		}
	}
	claims, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{PageSize: 1000})
	if err != nil || len(claims.GetClaims()) != given[hostUUID(0)]+given[hostUUID(1)]+given[hostUUID(2)] {
		t.Errorf("%d claims are listed (%v), given were %v", len(claims.GetClaims()), err, given)
	}
}

func TestALeaseEndsOnceAndGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		a := r.register(plainState(1, 8))
		op := newClaim("k1", 1, 1, 8)
		op.GetClaim().Ttl = durationpb.New(30 * time.Second)
		r.must(op)
		expires := 0
		store.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			for _, op := range ops {
				if op.Expire != nil {
					expires++
				}
			}
			return commit()
		})
		time.Sleep(29 * time.Second)
		a.heartbeat()
		synctest.Wait()
		if p := r.propose(query(1)); p.GetPassed() != 0 {
			t.Error("the lease ended too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p := r.propose(query(8)); p.GetPassed() != 1 {
			t.Errorf("the lease is over and nothing was given back: %v", p)
		}
		time.Sleep(10 * time.Second)
		if expires != 1 {
			t.Errorf("the lease was ended %d times", expires)
		}
		late := r.do(newClaim("k1", 1, 1, 8))
		if late[0].GetRefusal().GetReason() != string(fault.ClaimExpired) {
			t.Errorf("the same claim later: %v", late[0])
		}
	})
}

func TestPinnedVersionsAnswerUnchangedForTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		r.register(plainState(2, 8))
		first := r.propose(query(4))
		pinned := query(4)
		pinned.TableVersion = first.GetTableVersion()
		r.must(newClaim("k1", 1, 1, 8), newClaim("k2", 2, 2, 8))
		if p := r.propose(query(4)); p.GetPassed() != 0 || p.GetTableVersion() == first.GetTableVersion() {
			t.Fatalf("the newest version does not show the claims: %v", p)
		}
		time.Sleep(1900 * time.Millisecond)
		again := r.propose(pinned)
		if again.GetPassed() != 2 || again.GetTableVersion() != first.GetTableVersion() ||
			!proto.Equal(again.GetCandidates(), first.GetCandidates()) {
			t.Errorf("the pinned version changed:\n%v\n%v", first, again)
		}
		// take[] is an overlay of the pinned version.
		pinned.TentativePlacements = []*cellv1.TentativePlacement{
			{HostUuid: hostUUID(1), InstanceUuid: consumerUUID(8)},
			{HostUuid: hostUUID(1), InstanceUuid: consumerUUID(9)},
		}
		if p := r.propose(pinned); p.GetPassed() != 1 || wiretest.Hosts(p)[0] != hostUUID(2) {
			t.Errorf("with two takes on one host: %v", p)
		}
		time.Sleep(2 * time.Second)
		if p := r.propose(pinned); p.GetFailure().GetReason() != string(fault.Gone) {
			t.Errorf("after its time: %v", p)
		}
	})
}

func TestOneBadQueryFailsAlone(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	bad := query(1)
	bad.TentativePlacements = []*cellv1.TentativePlacement{{HostUuid: "x", InstanceUuid: consumerUUID(1)}}
	unknown := query(1)
	unknown.Placement = serialized(&cellv1.Placement{Rules: &cellv1.Rules{Filters: []string{"NoSuchFilter"}}})
	queries := []*cellv1.Query{query(1), bad, query(2), unknown}
	for range 60 {
		queries = append(queries, query(1))
	}
	out, err := r.cells.ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: queries})
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range out.GetProposals() {
		failed := i == 1 || i == 3
		if failed != (p.GetFailure() != nil) || failed == (p.GetPassed() == 1) {
			t.Errorf("proposal %d: %v", i, p)
		}
	}
	if f := out.GetProposals()[1].GetFailure(); f.GetReason() != string(fault.InvalidRequest) || !strings.HasPrefix(f.GetMessage(), "tentative_placements[0].host_uuid") {
		t.Errorf("the failure is %v", f)
	}
}

// A claim is found by its id in every state. The record of a release whose claim never arrived has
// no host.
func TestListClaimsByClaimID(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.must(newClaim("k1", 1, 1, 1), newClaim("k2", 2, 1, 1), release("k2", 2), release("k3", 3))
	for _, tt := range []struct {
		id    string
		state cellgatev1.ClaimState
		host  string
	}{
		{"k1", cellgatev1.ClaimState_PENDING, "host-00001"},
		{"k2", cellgatev1.ClaimState_RELEASED, "host-00001"},
		{"k3", cellgatev1.ClaimState_RELEASED, ""},
	} {
		got, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{ClaimIds: []string{tt.id}})
		if err != nil || len(got.GetClaims()) != 1 {
			t.Fatalf("%s: %v, %v", tt.id, got, err)
		}
		c := got.GetClaims()[0]
		if c.GetClaimId() != tt.id || c.GetState() != tt.state || c.GetServiceHost() != tt.host || (c.GetHostUuid() == "") != (tt.host == "") {
			t.Errorf("%s: %v", tt.id, c)
		}
	}
	if got, err := r.cells.ListClaims(context.Background(), &cellv1.ListClaimsRequest{ClaimIds: []string{"k9"}}); err != nil || len(got.GetClaims()) != 0 {
		t.Errorf("k9: %v, %v", got, err)
	}
}
