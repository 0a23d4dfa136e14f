package cell

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A query that plain accepts satisfies the schema's rules and the limit of messages.
func TestPlainIsRight(t *testing.T) {
	var sure, unsure int
	rapid.Check(t, func(t *rapid.T) {
		around := func(n int) int { return n + rapid.IntRange(-1, 1).Draw(t, "around") }
		texts := func(limit, length int) []string {
			n := rapid.SampledFrom([]int{0, 1, around(limit)}).Draw(t, "texts")
			list := make([]string, n)
			for i := range list {
				list[i] = strings.Repeat("x", rapid.SampledFrom([]int{0, length}).Draw(t, "length"))
			}
			if n > 0 {
				list[n-1] = strings.Repeat("x", around(length))
			}
			return list
		}
		req := &cellv1.ProposeBatchRequest{}
		for range rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "queries") {
			q := &cellv1.Query{
				Placement: make([]byte, rapid.SampledFrom([]int{0, 1, 100, rpc.MaxMessageBytes / 2, around(rpc.MaxMessageBytes)}).Draw(t, "placement")),
				Seed:      rapid.Uint64().Draw(t, "seed"), Limit: rapid.Int32().Draw(t, "limit"),
				TableVersion:  strings.Repeat("x", rapid.SampledFrom([]int{0, around(64)}).Draw(t, "version")),
				TraceParent:   strings.Repeat("x", rapid.SampledFrom([]int{0, around(256)}).Draw(t, "trace")),
				ConsumerUuids: texts(3, 36),
				Known:         &cellv1.GlobalStats{Passed: rapid.Int64().Draw(t, "passed"), GroupHosts: texts(3, 255), GroupHostsKnown: true},
			}
			q.Known.Bounds = make([]float64, rapid.SampledFrom([]int{0, 20, around(512)}).Draw(t, "bounds"))
			for range rapid.SampledFrom([]int{0, 1, around(1000)}).Draw(t, "takes") {
				q.TentativePlacements = append(q.TentativePlacements, &cellv1.TentativePlacement{HostUuid: hostA, InstanceUuid: hostA})
			}
			if rapid.IntRange(0, 9).Draw(t, "many consumers") == 0 {
				q.ConsumerUuids = make([]string, around(1000))
			}
			if rapid.IntRange(0, 9).Draw(t, "many hosts") == 0 {
				q.Known.GroupHosts = make([]string, around(65536))
			}
			req.Queries = append(req.Queries, q)
		}
		if !plain(req) {
			unsure++
			return
		}
		sure++
		if err := rpc.Validate(req); err != nil {
			t.Fatalf("is sure of a request that breaks a rule: %v", err)
		}
		if n := proto.Size(req); n > rpc.MaxMessageBytes {
			t.Fatalf("is sure of a request of %d bytes", n)
		}
	})
	t.Logf("sure of %d requests, not of %d", sure, unsure)
	if sure == 0 || unsure == 0 {
		t.Error("one side was not tried")
	}
}

// Usual queries are plain. Others are validated.
func TestUsualQueriesArePlain(t *testing.T) {
	usual := &cellv1.ProposeBatchRequest{}
	for i := range 256 {
		usual.Queries = append(usual.Queries, flavor(i))
	}
	if !plain(usual) {
		t.Error("a usual batch is not plain")
	}
	if plain(&cellv1.ClaimBatchRequest{}) || plain(nil) {
		t.Error("something else is plain")
	}
}

// Claims that plain accepts satisfy the schema's rules.
func TestPlainClaimsAreRight(t *testing.T) {
	var sure, unsure int
	rapid.Check(t, func(t *rapid.T) {
		text := func(limit int) string {
			return strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 1, 1, 1, 1, 1, 1, limit, limit + 1}).Draw(t, "length"))
		}
		id := func() string {
			return rapid.SampledFrom([]string{hostA, hostA, hostA, hostA, hostA, hostA, strings.ToUpper(hostA), "", strings.ReplaceAll(hostA, "-", "0"), "g" + hostA[1:], hostA + "0", hostA[1:]}).Draw(t, "uuid")
		}
		ref := func() *cellv1.ClaimRef {
			return &cellv1.ClaimRef{ClaimId: text(64), ConsumerUuid: id(), Attempt: text(64)}
		}
		req := &cellv1.ClaimBatchRequest{}
		for range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 300}).Draw(t, "operations") {
			op := &cellv1.ClaimOp{}
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				op.Op = &cellv1.ClaimOp_Confirm{Confirm: ref()}
			case 1:
				op.Op = &cellv1.ClaimOp_Release{Release: ref()}
			case 2:
				op.Op = &cellv1.ClaimOp_TakeOver{TakeOver: ref()}
			case 3:
				op.Op = &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{}}
			case 4:
			default:
				c := &cellv1.NewClaim{
					ClaimId: text(64), ConsumerUuid: id(), HostUuid: id(), ProjectId: text(1024), RequestId: text(1024),
					DecisionId: text(512), MovesClaimId: text(64), MovesCell: text(255), Attempt: text(64),
					Fingerprint: make([]byte, rapid.SampledFrom([]int{0, 32, 257}).Draw(t, "fingerprint")),
				}
				if rapid.IntRange(0, 5).Draw(t, "ttl") > 0 {
					c.Ttl = durationpb.New(time.Minute)
				}
				for range rapid.SampledFrom([]int{0, 1, 3, 257}).Draw(t, "allocations") {
					c.Allocations = append(c.Allocations, &cellgatev1.Allocation{ProviderUuid: hostA, ResourceClass: "VCPU", Amount: 1})
				}
				if len(c.GetAllocations()) > 0 {
					c.Allocations[0].ResourceClass = text(255)
				}
				if rapid.IntRange(0, 5).Draw(t, "guest") == 0 {
					c.Guest = &cellv1.Guest{FlavorId: text(255)}
				}
				op.Op = &cellv1.ClaimOp_Claim{Claim: c}
			}
			req.Ops = append(req.Ops, op)
		}
		if !plain(req) {
			unsure++
			return
		}
		sure++
		if err := rpc.Validate(req); err != nil {
			t.Fatalf("is sure of a request that breaks a rule: %v", err)
		}
		if n := proto.Size(req); n > rpc.MaxMessageBytes {
			t.Fatalf("is sure of a request of %d bytes", n)
		}
	})
	t.Logf("sure of %d requests, not of %d", sure, unsure)
	if sure == 0 || unsure == 0 {
		t.Error("one side was not tried")
	}
}
