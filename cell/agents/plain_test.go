package agents

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	"cellgate/internal/testlong"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Messages that skip the schema's rules satisfy them. A state with odd values is refused with the
// same problems either way.
func TestValidate_OddStates_ProblemsAreTheSchemas(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	number := func() int32 { return []int32{-1, 0, 1, 2, 1 << 30, 1<<31 - 1}[rng.IntN(6)] }
	name := func() string {
		return pick("A", "", "CUSTOM_X9", "lower", "A-B", "É", strings.Repeat("A", 255), strings.Repeat("A", 256))
	}
	uuid := func() string { return pick(hostA, "", numaA, strings.ToUpper(numaA), "not-a-uuid", hostA+"0") }
	texts := func() string { return pick("", "p", strings.Repeat("é", 255), strings.Repeat("x", 256)) }
	states, refused, accepted := 500, 0, 0
	if testlong.On() {
		states = 4000
	}
	for range states {
		s := withInstance(stateOf(hostA, "h1"), &agentv1.Usage{ProviderUuid: numaA, ResourceClass: "VGPU", Amount: 1})
		p := s.Providers[rng.IntN(2)]
		in, instance := p.Inventories[rng.IntN(len(p.Inventories))], s.Instances[0]
		for range 1 + rng.IntN(2) {
			switch rng.IntN(14) {
			case 0:
				p.Uuid = uuid()
			case 1:
				p.ParentUuid = uuid()
			case 2:
				p.Name = texts()
			case 3:
				p.Traits = append(p.Traits, name(), name())
			case 4:
				for i := range []int{1, 64, 70, 1023, 1024}[rng.IntN(5)] {
					p.Traits = append(p.Traits, fmt.Sprint("T", i))
				}
			case 5:
				for range []int{1, 64, 65}[rng.IntN(3)] {
					p.Inventories = append(p.Inventories, in)
				}
			case 6:
				in.ResourceClass = name()
			case 7:
				in.Total, in.Reserved = number(), number()
			case 8:
				in.MinUnit, in.MaxUnit, in.StepSize = number(), number(), number()
			case 9:
				in.Unaccounted, in.Filled = number(), number()
			case 10:
				in.AllocationRatio = []float64{0, -1, 0.5, 1.5, 100_000, 100_001}[rng.IntN(6)]
			case 11:
				instance.InstanceUuid, instance.ProjectId, instance.UserId = uuid(), texts(), texts()
			case 12:
				u := instance.Usages[0]
				u.ProviderUuid, u.ResourceClass, u.Amount = uuid(), name(), number()
			case 13:
				s.Providers = s.Providers[:rng.IntN(3)]
			}
			if len(s.Providers) == 0 {
				break
			}
		}
		delta := &agentv1.Delta{BootId: bootA, BaseVersion: 1, Version: 2, Providers: s.Providers, Instances: s.Instances}
		for _, m := range []proto.Message{s, delta} {
			got, want := fmt.Sprint(validate(m)), fmt.Sprint(rpc.Validate(m))
			if got != want {
				t.Fatalf("%v\ngot  %s\nwant %s", m, got, want)
			}
			if want == "<nil>" {
				accepted++
			} else {
				refused++
			}
		}
	}
	if accepted < states/4 || refused < states/4 {
		t.Errorf("%d accepted and %d refused: the states are not odd enough, or too odd", accepted, refused)
	}
}

// A message that skips the schema's rules satisfies them.
func TestIsPlainMessage_OddMessages_PlainOnesKeepTheRules(t *testing.T) {
	plain := 0
	for _, id := range []string{"", hostA, strings.ToUpper(numaA), hostA + "0", "not-a-uuid"} {
		list := []*agentv1.ReportRequest{{Message: &agentv1.ReportRequest_Heartbeat{Heartbeat: &agentv1.Heartbeat{BootId: id, Version: 1}}}}
		for _, outcome := range []agentv1.Verdict_Outcome{0, agentv1.Verdict_OK, agentv1.Verdict_REJECTED, 9} {
			for _, reason := range []agentv1.Verdict_Reason{0, agentv1.Verdict_NO_ROOM, 99} {
				for _, boot := range []string{id, bootA} {
					list = append(list, &agentv1.ReportRequest{Message: &agentv1.ReportRequest_Verdict{Verdict: &agentv1.Verdict{
						ClaimId: id, BootId: boot, Outcome: outcome, Reason: reason,
					}}})
				}
			}
		}
		for _, m := range list {
			if !isPlainMessage(m) {
				continue
			}
			plain++
			if err := rpc.Validate(m); err != nil {
				t.Errorf("%v: %v", m, err)
			}
		}
	}
	if plain == 0 || isPlainMessage(&agentv1.ReportRequest{}) {
		t.Errorf("%d messages are plain", plain)
	}
}
