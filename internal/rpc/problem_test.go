package rpc

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestProblemsAreInTheClientsWords(t *testing.T) {
	const uuid = "70eeb1e4-1f66-4e59-9d9b-1b2c9e3f4f01"
	for want, m := range map[string]proto.Message{
		`instance_uuids: is required`:                                                                                    &cellgatev1.SelectDestinationsRequest{},
		`instance_uuids[0]: "x" is not a uuid`:                                                                           &cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{"x"}},
		`instance_uuids[0]: is required`:                                                                                 &cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{""}},
		`consumer_uuid: "` + strings.Repeat("u", 40) + `…" is not a uuid`:                                                &cellgatev1.GetClaimRequest{ConsumerUuid: strings.Repeat("u", 99)},
		`page_size: is -3; it must be at least 0 and at most 1000`:                                                       &cellgatev1.ListClaimsRequest{PageSize: -3},
		`claim_id: has 65 characters; at most 64 are possible`:                                                           &cellgatev1.ReleaseClaimRequest{ConsumerUuid: uuid, ClaimId: strings.Repeat("c", 65)},
		`claim_id: "a b" may have visible ASCII characters only, and no blank`:                                           &cellgatev1.ReleaseClaimRequest{ConsumerUuid: uuid, ClaimId: "a b"},
		`claim_ids: has 257 items; at most 256 are possible`:                                                             &cellv1.ListClaimsRequest{ClaimIds: slices.Repeat([]string{"c"}, 257)},
		`request_spec: one of request_spec, nova_request_spec is needed`:                                                 &cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{uuid}},
		`instance_uuids: has a value twice`:                                                                              &cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{uuid, uuid}},
		`request_spec.strategy: "sprad" is none of spread, pack, balanced, nova; did you mean "spread"?`:                 &cellgatev1.SelectDestinationsRequest{Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{Strategy: "sprad"}}},
		`request_spec.required_traits[0]: "gold" may have A-Z, 0-9 and _ only`:                                           &cellgatev1.SelectDestinationsRequest{Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{RequiredTraits: []string{"gold"}}}},
		`claim_ttl: is -1ns; it must be at least 1s and at most 3600s`:                                                   &cellgatev1.SelectDestinationsRequest{ClaimTtl: durationpb.New(-1)},
		`request_spec.weigh_multiplier: is NaN; it must be finite`:                                                       &cellgatev1.SelectDestinationsRequest{Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{WeighMultiplier: proto.Float64(math.NaN())}}},
		`operation: is 99; the values are OPERATION_UNSPECIFIED, BUILD, MOVE, EVACUATE, UNSHELVE, LIVE_MIGRATE, REBUILD`: &cellgatev1.SelectDestinationsRequest{Operation: 99},
	} {
		var e *fault.Error
		if !errors.As(Validate(m), &e) {
			t.Fatalf("%T: valid", m)
		}
		var texts []string
		for _, f := range e.Fields {
			texts = append(texts, f.Path+": "+f.Problem)
		}
		if !slices.Contains(texts, want) {
			t.Errorf("%T: %q, want %s", m, texts, want)
		}
	}
}
