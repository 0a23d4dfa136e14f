package rpc

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// BenchmarkValidate measures a cell's validation of a gateway's requests: a query with the picks of
// 100 instances, and a claim.
func BenchmarkValidate(b *testing.B) {
	query := &cellv1.Query{
		Placement: []byte("x"), Limit: 10, ConsumerUuids: []string{instance}, TableVersion: "1234",
		Known: &cellv1.GlobalStats{Bounds: make([]float64, 16)},
	}
	for range 100 {
		query.TentativePlacements = append(query.TentativePlacements, &cellv1.TentativePlacement{HostUuid: instance, InstanceUuid: instance})
	}
	claim := &cellv1.NewClaim{
		ClaimId: "c", ConsumerUuid: instance, HostUuid: instance, Ttl: durationpb.New(time.Minute),
		ProjectId: "p", UserId: "u", RequestId: "r", DecisionId: "d", Fingerprint: make([]byte, 32), Answer: make([]byte, 500),
	}
	for range 3 {
		claim.Allocations = append(claim.Allocations, &cellgatev1.Allocation{ProviderUuid: instance, ResourceClass: "VCPU", Amount: 1})
	}
	b.Run("query", func(b *testing.B) {
		for b.Loop() {
			if err := Validate(&cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("claim", func(b *testing.B) {
		for b.Loop() {
			if err := Validate(&cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{{Op: &cellv1.ClaimOp_Claim{Claim: claim}}}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
