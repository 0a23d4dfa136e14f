package gateway

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// What plain is sure about, the schema's rules and the limit of messages allow.
func TestPlainIsRight(t *testing.T) {
	const id = "6f70656e-0000-4000-8000-000000000001"
	var sure, unsure int
	check := func(t *rapid.T) {
		// Mostly what is right, or few requests would be.
		often := func(name string, usual, odd any) any {
			if rapid.IntRange(0, 19).Draw(t, name) > 0 {
				return usual
			}
			return odd
		}
		text := func(name string, limit int) string {
			n := rapid.SampledFrom([]int{0, 1, 1, limit, limit}).Draw(t, name)
			return strings.Repeat("x", n+often(name+" too long", 0, 1).(int))
		}
		uuid := func(name string) string {
			odd := rapid.SampledFrom([]string{"", strings.ToUpper(id), strings.ReplaceAll(id, "-", "0"), "g" + id[1:], id + "0", id[1:], "{" + id + "}"}).Draw(t, name)
			return often(name+" odd", id, odd).(string)
		}
		words := func(name string) []string {
			list := make([]string, rapid.SampledFrom([]int{0, 1, 2, 65}).Draw(t, name))
			for i := range list {
				odd := rapid.SampledFrom([]string{"", "a", "Ä", "A B", "A-B", "\n", "A\n", strings.Repeat("A", 255), strings.Repeat("A", 256)}).Draw(t, name+" odd word")
				list[i] = often(name+" word", "HW_CPU_X86_AVX2", odd).(string)
			}
			return list
		}
		number := func(name string) int32 {
			return often(name, rapid.Int32Range(0, 1<<30).Draw(t, name+" usual"), rapid.Int32().Draw(t, name+" odd")).(int32)
		}
		pairs := func(name string) map[string]string {
			return map[string]string{text(name+" key", 255): text(name+" value", 4096)}
		}
		spec := &cellgatev1.RequestSpec{
			RequiredTraits: words("required"), ForbiddenTraits: words("forbidden"),
			AvailabilityZone: text("zone", 255), ProjectId: text("project", 255), UserId: text("user", 255),
			Strategy: often("strategy", "pack", "mine").(string),
		}
		if rapid.Bool().Draw(t, "flavor") {
			spec.Flavor = &cellgatev1.Flavor{
				Name: text("flavor name", 255), Vcpus: number("vcpus"), MemoryMb: number("memory"), RootGb: number("root"),
				EphemeralGb: number("ephemeral"), SwapMb: number("swap"), ExtraSpecs: pairs("extra specs"),
			}
		}
		if rapid.Bool().Draw(t, "image") {
			spec.Image = &cellgatev1.Image{Id: text("image", 64), Properties: pairs("properties"), DiskFormat: text("format", 64)}
		}
		if list := words("classes"); len(list) == 1 {
			spec.Resources = map[string]int32{list[0]: number("amount")}
		}
		if rapid.Bool().Draw(t, "group") {
			spec.InstanceGroup = &cellgatev1.InstanceGroup{
				Uuid: uuid("group uuid"), Policy: often("policy", "affinity", "").(string), MaxServerPerHost: number("a host"), Members: []string{uuid("member")},
			}
		}
		switch rapid.IntRange(0, 40).Draw(t, "something else") {
		case 0:
			spec.IgnoreHosts = []string{""}
		case 1:
			spec.AnyTraits = []*cellgatev1.TraitSet{{}}
		case 2:
			spec.MemberOf = []*cellgatev1.AggregateSet{{}}
		case 3:
			spec.ForbiddenAggregates = []string{""}
		case 4:
			spec.ForceNodes = []string{""}
		case 5:
			spec.SchedulerHints = map[string]*cellgatev1.StringList{text("hint", 255): {}}
		case 6:
			spec.RequestedDestination = &cellgatev1.Destination{Host: text("host", 255)}
		}
		req := &cellgatev1.SelectDestinationsRequest{
			RequestId: text("request", 255), MaxAlternates: often("alternates", int32(32), rapid.SampledFrom([]int32{-1, 33}).Draw(t, "odd alternates")).(int32),
			Operation: cellgatev1.Operation(often("operation", int32(2), rapid.Int32Range(-1, 9).Draw(t, "odd operation")).(int32)),
		}
		for i := range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 9}).Draw(t, "instances") {
			one := uuid("instance")
			if i > 0 && len(one) == len(id) && rapid.IntRange(0, 9).Draw(t, "same instance") > 0 {
				one = one[:len(one)-1] + string("abcdef0123"[i])
			}
			req.InstanceUuids = append(req.InstanceUuids, one)
		}
		if rapid.Bool().Draw(t, "ttl") {
			req.ClaimTtl = &durationpb.Duration{
				Seconds: rapid.SampledFrom([]int64{0, 1, 300, 3599, 3600, 3601}).Draw(t, "seconds"),
				Nanos:   rapid.SampledFrom([]int32{0, 0, 1, -1, 999_999_999, 1_000_000_000}).Draw(t, "nanos"),
			}
		}
		switch rapid.IntRange(0, 9).Draw(t, "form") {
		case 0:
		case 1:
			value := structpb.NewStringValue(strings.Repeat("x", rapid.SampledFrom([]int{1, rpc.MaxMessageBytes}).Draw(t, "value")))
			req.Spec = &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: &structpb.Struct{Fields: map[string]*structpb.Value{"a": value}}}
		default:
			req.Spec = &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec}
		}
		if !keepsSchema(req) {
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
	}
	// One time in some sixty all requests of a round are of one side.
	for range 20 {
		if rapid.Check(t, check); sure > 0 && unsure > 0 {
			break
		}
	}
	t.Logf("sure of %d requests, not of %d", sure, unsure)
	if sure == 0 || unsure == 0 {
		t.Error("one side was not tried")
	}
}

// Usual requests are plain; other messages are looked at.
func TestUsualRequestsArePlain(t *testing.T) {
	if !keepsSchema(ask(1, 3)) {
		t.Error("a usual request is not plain")
	}
	if keepsSchema(&cellgatev1.GetClaimRequest{}) || keepsSchema(&cellgatev1.SelectDestinationsRequest{}) || keepsSchema(nil) {
		t.Error("something else is plain")
	}
}
