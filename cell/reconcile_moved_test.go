package cell

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// unlessReported releases a claim unless its host reports the instance. It returns "" if the claim
// is released.
func (r *testCell) unlessReported(id string, instance int) fault.Kind {
	r.t.Helper()
	op := release(id, instance)
	op.GetRelease().UnlessReported = true
	out := r.do(op)[0]
	want := cellgatev1.ClaimState_CONFIRMED
	if out.GetRefusal() == nil {
		want = cellgatev1.ClaimState_RELEASED
	}
	if s := r.claimNow(id).GetState(); s != want {
		r.t.Errorf("claim %s is %s, answered with %v", id, s, out)
	}
	return fault.Kind(out.GetRefusal().GetReason())
}

// The claim of an instance that moved to another cell is not released while its host reports the
// instance, or may.
func TestAReleaseUnlessTheHostReportsTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, named("r1"))
		m := boot(t, 1, 8, r)
		for n, id := range []string{"k0", "k1", "k2", "k3"} {
			r.must(newClaim(id, n, 1, 1), confirm(id, n))
			m.run(n, 1)
		}
		is := func(when, id string, instance int, want fault.Kind) {
			t.Helper()
			if got := r.unlessReported(id, instance); got != want {
				t.Errorf("%s: refused as %q, want %q", when, got, want)
			}
		}
		is("it is there", "k1", 1, fault.AlreadyExists)
		if got := start(t, store, named("r2")).unlessReported("k1", 1); got != fault.CellUnavailable {
			t.Errorf("a replica to which the agent does not report refuses as %q", got)
		}
		m.run(1, 0)
		is("it is gone", "k1", 1, "")
		is("released before", "k1", 1, "")

		m.stop()
		calm()
		is("the agent is not heard", "k2", 2, fault.CellUnavailable)
		m.resume()
		is("the agent is back", "k2", 2, fault.AlreadyExists)
		m.stop()
		time.Sleep(3 * time.Minute)
		is("the host is down", "k2", 2, "")

		s := proto.CloneOf(m.state())
		s.InstancesUnknown, s.Instances, s.BootId = true, nil, "bbbbbbbb-0000-4000-8000-000000000002"
		r.register(s)
		is("the agent does not know", "k3", 3, "")
		if out := r.do(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: &cellv1.ClaimRef{ClaimId: "none", ConsumerUuid: consumerUUID(9), UnlessReported: true}}})[0]; out.GetRefusal() != nil {
			t.Errorf("one that is not there: %v", out)
		}
	})
}

// An instance's uuid matches whatever its case in the host's report.
func TestAReportedInstanceIsKnownInAnyCase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newStore(t))
		r.register(plainState(1, 8))
		r.must(newClaim("k1", 1, 1, 1), confirm("k1", 1))
		s := proto.CloneOf(plainState(1, 8))
		s.BootId = "bbbbbbbb-0000-4000-8000-000000000002"
		s.Instances = []*agentv1.Instance{{InstanceUuid: strings.ToUpper(consumerUUID(1)), Usages: []*agentv1.Usage{usage(hostUUID(1), "VCPU", 1)}}}
		r.register(s)
		if got := r.unlessReported("k1", 1); got != fault.AlreadyExists {
			t.Errorf("refused as %q", got)
		}
	})
}
