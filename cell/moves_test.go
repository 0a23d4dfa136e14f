package cell

import (
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// moving is a claim of one VCPU that moves claim "k1" of consumer 1.
func moving(id string, host int) *cellv1.ClaimOp {
	op := newClaim(id, 1, host, 1)
	op.GetClaim().MovesClaimId, op.GetClaim().MovesCell = "k1", "cell1"
	return op
}

// During a move, both the claims and the free resources show the instance on both hosts.
func TestAMoveIsOnBothHostsUntilItIsConfirmed(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.register(plainState(2, 8))
	r.must(newClaim("k1", 1, 1, 8), confirm("k1", 1))
	out := r.must(moving("k2", 2))
	if c := out[0].GetClaim(); c.GetMovesClaimId() != "k1" || out[0].GetClaimOrigin().GetMovesCell() != "cell1" {
		t.Errorf("the claim is %v, %v", c, out[0].GetClaimOrigin())
	}
	q := query(8)
	q.ConsumerUuids = []string{consumerUUID(1)}
	p := r.propose(q)
	if p.GetPassed() != 0 || len(p.GetClaims()) != 2 || len(p.GetClaimOrigins()) != 2 {
		t.Errorf("while it moves: %v", p)
	}
	if o := r.do(moving("k3", 2))[0]; o.GetRefusal().GetReason() != string(fault.AlreadyExists) || o.GetClaim().GetClaimId() != "k2" {
		t.Errorf("a second move: %v", o)
	}
	r.must(confirm("k2", 1))
	if p := r.propose(q); p.GetPassed() != 1 || wiretest.Hosts(p)[0] != hostUUID(1) || len(p.GetClaims()) != 1 {
		t.Errorf("after it moved: %v", p)
	}
	if o := r.do(confirm("k1", 1))[0]; o.GetRefusal().GetReason() != string(fault.ClaimExpired) {
		t.Errorf("the source: %v", o)
	}
}

// groupQuery asks for a VCPU under a policy of group 500.
func groupQuery(policy string, moving int) *cellv1.Query {
	p := &cellv1.Placement{
		Resources: []*cellv1.Amount{{ResourceClass: "VCPU", Amount: 1}}, Consume: &cellv1.Consumption{Vcpus: 1},
		Group: &cellv1.Group{Uuid: hostUUID(500), Policy: policy, MaxServerPerHost: 1},
	}
	if moving > 0 {
		p.MovingInstance = strings.ToUpper(consumerUUID(moving))
	}
	return &cellv1.Query{Limit: 10, Seed: 1, Placement: serialized(p)}
}

// hostsOf are the hosts that passed, sorted.
func hostsOf(p *cellv1.Proposal) []string {
	out := wiretest.Hosts(p)
	slices.Sort(out)
	return out
}

// A moving instance counts as a group member on both hosts for others. For itself, its own hosts
// neither bind it under affinity nor bar it under anti-affinity.
func TestTheTableKnowsAMovedInstanceOnBothHosts(t *testing.T) {
	r := start(t, newStore(t))
	for n := 1; n <= 3; n++ {
		r.register(plainState(n, 8))
	}
	first, move := newClaim("k1", 1, 1, 1), moving("k2", 2)
	group := &cellv1.ClaimGroup{Uuid: hostUUID(500), Policy: "soft-affinity"}
	first.GetClaim().Group, move.GetClaim().Group = group, group
	r.must(first, confirm("k1", 1), move)
	all := []string{hostUUID(1), hostUUID(2), hostUUID(3)}
	check := func(when, policy string, instance int, want ...string) {
		t.Helper()
		if got := hostsOf(r.propose(groupQuery(policy, instance))); !slices.Equal(got, want) {
			t.Errorf("%s, %s of instance %d: %v, want %v", when, policy, instance, got, want)
		}
	}
	check("doubled", "anti-affinity", 0, all[2])
	check("doubled", "affinity", 0, all[0], all[1])
	check("doubled", "anti-affinity", 1, all...)
	check("doubled", "affinity", 1, all...)
	if p := r.propose(groupQuery("affinity", 1)); len(p.GetGroupHosts()) != 0 {
		t.Errorf("its own hosts count as the group's: %v", p.GetGroupHosts())
	}
	r.must(transfer("k1", 1, 50))
	check("transferred", "anti-affinity", 0, all[2])
	check("transferred", "affinity", 1, all...)
	r.must(confirm("k2", 1))
	check("confirmed", "affinity", 0, all[0], all[1])
	r.must(release("k1", 50))
	check("released", "affinity", 0, all[1])
	r.must(release("k2", 1))
	check("gone", "affinity", 0, all...)
}

func TestASwapIsSeenByTheNextProposal(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.register(plainState(2, 8))
	r.must(newClaim("k1", 1, 1, 8), newClaim("k2", 2, 2, 4))
	if o := r.do(swap("k1", 1, 2, 8))[0]; o.GetRefusal().GetReason() != string(fault.NoValidHost) || o.GetRefusal().GetFilter() != "ResourceFilter" {
		t.Errorf("what does not fit: %v", o)
	}
	out := r.must(swap("k1", 1, 2, 4))[0]
	if c := out.GetClaim(); c.GetHostUuid() != hostUUID(2) || c.GetServiceHost() != "host-00002" || c.GetState() != cellgatev1.ClaimState_PENDING ||
		c.GetAllocations()[0].GetAmount() != 4 || string(out.GetClaimOrigin().GetAnswer()) != "the new answer" {
		t.Errorf("the claim is %v, %v", c, out.GetClaimOrigin())
	}
	if got := hostsOf(r.propose(query(1))); !slices.Equal(got, []string{hostUUID(1)}) {
		t.Errorf("free are %v", got)
	}
	r.must(confirm("k1", 1))
	if o := r.do(swap("k1", 1, 1, 1))[0]; o.GetRefusal().GetReason() != string(fault.AlreadyExists) {
		t.Errorf("a confirmed claim: %v", o)
	}
}

func TestATransferredClaimIsAnothers(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	r.must(newClaim("k1", 1, 1, 8))
	c := r.must(transfer("k1", 1, 50))[0].GetClaim()
	if c.GetConsumerUuid() != consumerUUID(50) || c.GetTransferredFrom() != consumerUUID(1) {
		t.Errorf("the claim is %v", c)
	}
	q := query(1)
	for consumer, want := range map[int]int{1: 0, 50: 1} {
		q.ConsumerUuids = []string{consumerUUID(consumer)}
		if p := r.propose(q); len(p.GetClaims()) != want {
			t.Errorf("consumer %d has %v", consumer, p.GetClaims())
		}
	}
	if o := r.do(release("k1", 1))[0]; o.GetRefusal().GetReason() != string(fault.InvalidRequest) {
		t.Errorf("its first consumer's release: %v", o)
	}
	r.must(confirm("k1", 50), release("k1", 50))
}

func TestBadMovesNameTheirFields(t *testing.T) {
	r := start(t, newStore(t))
	r.register(plainState(1, 8))
	nowhere, self := newClaim("k1", 1, 1, 1), newClaim("k1", 1, 1, 1)
	nowhere.GetClaim().MovesCell = "cell2"
	self.GetClaim().MovesClaimId = "k1"
	amount, consumer := swap("k1", 1, 1, 1), transfer("k1", 1, 2)
	amount.GetSwap().Allocations[0].Amount = 0
	consumer.GetTransfer().ToConsumer = "x"
	for field, op := range map[string]*cellv1.ClaimOp{
		"claim.moves_cell": nowhere, "moves_claim_id": self, "swap.allocations[0].amount": amount, "transfer.to_consumer": consumer,
	} {
		if o, err := opOf(op); err == nil && field == "moves_claim_id" {
			if out := r.do(op)[0].GetRefusal(); out.GetReason() != string(fault.InvalidRequest) || !strings.HasPrefix(out.GetMessage(), field) {
				t.Errorf("%s: %v", field, out)
			}
		} else if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v", field, o, err)
		}
	}
}
