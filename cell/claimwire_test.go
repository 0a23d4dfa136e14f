package cell

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const consumerA = "cccccccc-0000-4000-8000-000000000001"

func TestOperationsAreReadWhole(t *testing.T) {
	group := "dddddddd-0000-4000-8000-000000000001"
	ref := &cellv1.ClaimRef{ClaimId: "k1", ConsumerUuid: strings.ToUpper(consumerA), Attempt: "t"}
	then := time.Unix(1, 234_567_000).UTC()
	wantRef := &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerA, Attempt: "t"}
	cases := []struct {
		in   *cellv1.ClaimOp
		want shard.Op
	}{
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: &cellv1.NewClaim{
			ClaimId: "k1", ConsumerUuid: strings.ToUpper(consumerA), HostUuid: strings.ToUpper(hostA),
			Allocations: []*cellgatev1.Allocation{{ProviderUuid: strings.ToUpper(hostA), ResourceClass: "VCPU", Amount: 2}},
			Ttl:         durationpb.New(5 * time.Minute), ProjectId: "p", UserId: "u", RequestId: "r", Fingerprint: []byte{1},
			DecisionId: "d", InstanceIndex: 3, Answer: []byte{2}, Attempt: "t",
			Group: &cellv1.ClaimGroup{Uuid: group, Policy: "anti-affinity", MaxServerPerHost: 2, Members: []string{strings.ToUpper(consumerA)}},
		}}}, shard.Op{Claim: &shard.NewClaim{
			ClaimID: "k1", ConsumerUUID: consumerA, HostUUID: hostA,
			Allocations: []shard.Used{{ProviderUUID: hostA, ResourceClass: "VCPU", Amount: 2}},
			TTL:         5 * time.Minute, ProjectID: "p", UserID: "u", RequestID: "r", Fingerprint: []byte{1},
			DecisionID: "d", InstanceIndex: 3, Answer: []byte{2}, Attempt: "t",
			Group: &shard.Group{UUID: group, Policy: "anti-affinity", MaxPerHost: 2, Members: []string{consumerA}},
		}}},
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: ref}}, shard.Op{Confirm: wantRef}},
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}}, shard.Op{Release: wantRef}},
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_TakeOver{TakeOver: ref}}, shard.Op{TakeOver: wantRef}},
		{
			&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: "k1", ConsumerUuid: consumerA, UnchangedSince: timestamppb.New(then)}}},
			shard.Op{Release: &shard.ClaimRef{ClaimID: "k1", ConsumerUUID: consumerA, Unchanged: &then}},
		},
		{
			&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{GroupUuid: group, ServiceHost: "h", ClaimId: "k1", Ttl: durationpb.New(time.Second)}}},
			shard.Op{Pin: &shard.NewPin{GroupUUID: group, ServiceHost: "h", ClaimID: "k1", TTL: time.Second}},
		},
		{
			&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: "k1"}}},
			shard.Op{Unpin: &shard.Unpin{GroupUUID: group, ClaimID: "k1"}},
		},
	}
	for _, c := range cases {
		got, err := opOf(c.in)
		if err != nil {
			t.Errorf("%v: %v", c.in, err)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}

func TestBadOperationsNameTheirFields(t *testing.T) {
	good := func() *cellv1.NewClaim {
		return &cellv1.NewClaim{
			ClaimId: "k", ConsumerUuid: consumerA, HostUuid: hostA, Ttl: durationpb.New(time.Minute),
			Allocations: []*cellgatev1.Allocation{{ProviderUuid: hostA, ResourceClass: "VCPU", Amount: 1}},
		}
	}
	cases := map[string]func(*cellv1.NewClaim){
		"claim.allocations":                   func(c *cellv1.NewClaim) { c.Allocations = nil },
		"claim.allocations[0].amount":         func(c *cellv1.NewClaim) { c.Allocations[0].Amount = 0 },
		"claim.allocations[0].resource_class": func(c *cellv1.NewClaim) { c.Allocations[0].ResourceClass = "" },
		"claim.allocations[0].provider_uuid":  func(c *cellv1.NewClaim) { c.Allocations[0].ProviderUuid = "x" },
		"claim.allocations[1]":                func(c *cellv1.NewClaim) { c.Allocations = append(c.Allocations, c.Allocations[0]) },
		"claim.ttl":                           func(c *cellv1.NewClaim) { c.Ttl = durationpb.New(2 * time.Hour) },
		"claim.group.policy":                  func(c *cellv1.NewClaim) { c.Group = &cellv1.ClaimGroup{Uuid: hostA, Policy: "x"} },
		"claim.group.uuid":                    func(c *cellv1.NewClaim) { c.Group = &cellv1.ClaimGroup{Uuid: "x", Policy: "affinity"} },
	}
	for path, spoil := range cases {
		in := good()
		spoil(in)
		_, err := opOf(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Claim{Claim: in}})
		var f *fault.Error
		if !errors.As(err, &f) || len(f.Fields) != 1 || f.Fields[0].Path != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
	var f *fault.Error
	if _, err := opOf(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_TakeOver{TakeOver: &cellv1.ClaimRef{ClaimId: "k", ConsumerUuid: consumerA}}}); !errors.As(err, &f) || f.Fields[0].Path != "take_over.attempt" {
		t.Errorf("take_over without an attempt: %v", err)
	}
	if _, err := opOf(&cellv1.ClaimOp{}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("no operation: %v", err)
	}
}

func TestClaimIsShownWhole(t *testing.T) {
	c := &shard.Claim{
		ClaimID: "k1", ConsumerUUID: consumerA, State: shard.Pending, HostUUID: hostA, ServiceHost: "h",
		Allocations: []shard.Used{{ProviderUUID: hostA, ResourceClass: "VCPU", Amount: 2}},
		Group:       &shard.Group{UUID: hostB}, ProjectID: "p", UserID: "u", RequestID: "r", DecisionID: "d",
		Fingerprint: []byte{1}, Answer: []byte{2}, InstanceIndex: 4, Adopted: true, Attempt: "t",
		ExpiresAt: at(3), CreatedAt: at(1), UpdatedAt: at(2),
	}
	want := &cellgatev1.Claim{
		ClaimId: "k1", ConsumerUuid: consumerA, State: cellgatev1.ClaimState_PENDING, Cell: "cell1", HostUuid: hostA,
		ServiceHost: "h", Allocations: []*cellgatev1.Allocation{{ProviderUuid: hostA, ResourceClass: "VCPU", Amount: 2}},
		ProjectId: "p", UserId: "u", RequestId: "r", DecisionId: "d", GroupUuid: hostB, Adopted: true,
		ExpiresAt: timestamppb.New(at(3)), CreatedAt: timestamppb.New(at(1)), UpdatedAt: timestamppb.New(at(2)),
	}
	if got := claimOf("cell1", c); !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	c.State, c.ExpiresAt = shard.Confirmed, time.Time{}
	if got := claimOf("cell1", c); got.GetExpiresAt() != nil || got.GetState() != cellgatev1.ClaimState_CONFIRMED {
		t.Errorf("confirmed: %v", got)
	}
	origin := &cellv1.ClaimOrigin{Fingerprint: []byte{1}, Answer: []byte{2}, InstanceIndex: 4, Attempt: "t"}
	if got := originOf(c); !proto.Equal(got, origin) {
		t.Errorf("origin is %v", got)
	}
}
