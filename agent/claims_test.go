package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// claimsOf returns a host's claims and their clock, which the test moves.
func claimsOf(s *agentv1.FullState) (*Claims, *time.Time) {
	at := noon
	c := newClaims(s)
	c.now = func() time.Time { return at }
	return c, &at
}

func instanceClaimOf(id string, n int, v int32) *agentv1.InstanceClaimRequest {
	in := &agentv1.InstanceClaimRequest{ClaimId: id, InstanceUuid: instanceUUID(n)}
	if v > 0 {
		in.Usages = vcpus(v)
	}
	return in
}

func refusedAs(t *testing.T, want fault.Kind, c *agentv1.HostClaim, err error) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != want || c != nil {
		t.Fatalf("%v, %v; want %s", c, err, want)
	}
}

func is(t *testing.T, want agentv1.HostClaim_State, c *agentv1.HostClaim, err error) {
	t.Helper()
	if err != nil || c.GetState() != want {
		t.Fatalf("%v, %v; want %v", c, err, want)
	}
}

// statesOf returns the states of the listed claims.
func statesOf(c *Claims) map[string]agentv1.HostClaim_State {
	all := map[string]agentv1.HostClaim_State{}
	for _, x := range c.List() {
		all[x.GetClaimId()] = x.GetState()
	}
	return all
}

func TestAnOfferedClaimIsTakenUpByItsID(t *testing.T) {
	c, _ := claimsOf(smallHost(4)) // 14, 10 free
	c.offered("r", offerTo("a", 10, 8))
	got, err := c.InstanceClaim(instanceClaimOf("a", 10, 0))
	is(t, agentv1.HostClaim_HELD, got, err)
	if got.GetOperation() != "INSTANCE" || !got.GetOffered() || len(got.GetUsages()) != 1 || got.GetUsages()[0].GetAmount() != 8 {
		t.Errorf("taken up: %v", got)
	}
	got, err = c.InstanceClaim(instanceClaimOf("a", 10, 8)) // repeated
	is(t, agentv1.HostClaim_HELD, got, err)
	got, err = c.InstanceClaim(instanceClaimOf("a", 11, 0))
	refusedAs(t, fault.InvalidRequest, got, err)
	got, err = c.InstanceClaim(instanceClaimOf("a", 10, 7))
	refusedAs(t, fault.InvalidRequest, got, err)
	got, err = c.MoveClaim(&agentv1.MoveClaimRequest{ClaimId: "a", InstanceUuid: instanceUUID(10)})
	refusedAs(t, fault.AlreadyExists, got, err)

	if v := c.offered("r", offerTo("b", 11, 3)); v.GetOutcome() != agentv1.Verdict_REJECTED {
		t.Fatalf("verdict %v", v)
	}
	got, err = c.InstanceClaim(instanceClaimOf("b", 11, 3))
	refusedAs(t, fault.ClaimRejected, got, err)
	if s := statesOf(c); len(s) != 2 || s["b"] != agentv1.HostClaim_REJECTED {
		t.Errorf("listed: %v", s)
	}
	c.ended("b", "RELEASED")
	c.observe(smallHost(4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8)) // instance 10 is running
	got, err = c.InstanceClaim(instanceClaimOf("a", 10, 0))
	is(t, agentv1.HostClaim_RUNNING, got, err)
	if s := statesOf(c); len(s) != 1 {
		t.Errorf("listed: %v", s)
	}
}

// An operation may write uuids in capitals. They equal those of the cell and of the reports.
func TestOperationsMayWriteUUIDsInCapitals(t *testing.T) {
	const claim = "dddddddd-0000-4000-8000-00000000000a"
	upper := strings.ToUpper(claim)
	c, _ := claimsOf(smallHost(4)) // 10 free
	c.offered("r", offerTo(claim, 10, 8))
	in := &agentv1.InstanceClaimRequest{ClaimId: upper, InstanceUuid: strings.ToUpper(instanceUUID(10)), Usages: vcpus(8)}
	in.Usages[0].ProviderUuid = strings.ToUpper(rootUUID)
	got, err := c.InstanceClaim(in)
	is(t, agentv1.HostClaim_HELD, got, err)
	if !got.GetOffered() || got.GetClaimId() != claim {
		t.Errorf("taken up: %v", got)
	}
	got, err = c.AbortClaim(upper)
	is(t, agentv1.HostClaim_ABORTED, got, err)

	// A claim made on the host: the report's instance is the same.
	in.ClaimId, in.InstanceUuid = strings.ToUpper("dddddddd-0000-4000-8000-00000000000b"), strings.ToUpper(instanceUUID(1))
	got, err = c.InstanceClaim(in)
	is(t, agentv1.HostClaim_HELD, got, err)
	c.observe(smallHost(4, 8))
	if s := statesOf(c); len(s) != 1 {
		t.Errorf("with the instance there: %v", s)
	}
	got, err = c.ResizeClaim(&agentv1.ResizeClaimRequest{ClaimId: "r", InstanceUuid: instanceUUID(0), MovesClaimId: upper, Usages: vcpus(1)})
	is(t, agentv1.HostClaim_HELD, got, err)
	if got.GetMovesClaimId() != claim {
		t.Errorf("moves %s, want %s", got.GetMovesClaimId(), claim)
	}
}

// A claim made on the host without an offer takes resources at once, so that an offer for the same
// room is rejected. It ends after its time, or when its instance runs.
func TestAClaimMadeOnTheHostTakesOfIt(t *testing.T) {
	c, at := claimsOf(smallHost(4)) // 10 free
	got, err := c.InstanceClaim(instanceClaimOf("a", 10, 0))
	refusedAs(t, fault.InvalidRequest, got, err)
	got, err = c.InstanceClaim(instanceClaimOf("a", 10, 11))
	refusedAs(t, fault.ClaimRejected, got, err)
	in := instanceClaimOf("a", 10, 8)
	in.Ttl = durationpb.New(2 * time.Hour)
	got, err = c.InstanceClaim(in)
	refusedAs(t, fault.InvalidRequest, got, err)
	in.Ttl = durationpb.New(time.Minute)
	got, err = c.InstanceClaim(in)
	is(t, agentv1.HostClaim_HELD, got, err)
	if got.GetOffered() {
		t.Errorf("made: %v", got)
	}
	if v := c.offered("r", offerTo("b", 11, 3)); v.GetReason() != agentv1.Verdict_NO_ROOM {
		t.Errorf("verdict %v", v)
	}
	c.set("r", &agentv1.ClaimSet{}) // the cell's set does not include claims made on the host
	*at = at.Add(time.Minute - 1)
	if s := statesOf(c); len(s) != 1 || s["a"] != agentv1.HostClaim_HELD {
		t.Errorf("listed: %v", s)
	}
	*at = at.Add(1)
	if v := c.offered("r", offerTo("b", 11, 3)); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("verdict %v", v)
	}
	got, err = c.InstanceClaim(instanceClaimOf("d", 12, 7))
	is(t, agentv1.HostClaim_HELD, got, err)
	grown := smallHost(4)
	grown.Instances = append(grown.Instances, &agentv1.Instance{InstanceUuid: instanceUUID(12), Usages: vcpus(7)})
	c.observe(grown)
	if s := statesOf(c); len(s) != 1 || s["b"] != agentv1.HostClaim_HELD {
		t.Errorf("listed: %v", s)
	}
	got, err = c.InstanceClaim(instanceClaimOf("d", 12, 7)) // repeated after the instance runs
	is(t, agentv1.HostClaim_RUNNING, got, err)
	got, err = c.InstanceClaim(instanceClaimOf("e", 12, 1))
	refusedAs(t, fault.ClaimRejected, got, err)
}

// A resize counts in addition to the instance's usage until the instance has its new size.
func TestAResizeOnTheHostStandsBesideTheInstance(t *testing.T) {
	c, _ := claimsOf(smallHost(4)) // 10 free
	resize := func(v int32) (*agentv1.HostClaim, error) {
		return c.ResizeClaim(&agentv1.ResizeClaimRequest{ClaimId: "a", InstanceUuid: instanceUUID(0), Usages: vcpus(v)})
	}
	got, err := resize(11)
	refusedAs(t, fault.ClaimRejected, got, err)
	got, err = resize(10)
	is(t, agentv1.HostClaim_HELD, got, err)
	if v := c.offered("r", offerTo("b", 11, 1)); v.GetReason() != agentv1.Verdict_NO_ROOM {
		t.Errorf("verdict %v", v)
	}
	c.observe(smallHost(10))
	if v := c.offered("r", offerTo("b", 11, 4)); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("verdict %v", v)
	}
}

func TestAbort_ClaimOffered_IsReportedToTheReplicaThatOffered(t *testing.T) {
	c, _ := claimsOf(smallHost(4)) // 10 free
	offer := func(confirmed bool) *agentv1.ClaimOffer {
		o := offerTo("a", 10, 5)
		o.Confirmed, o.WantsVerdict = confirmed, !confirmed
		return o
	}
	aborted := func(when string, got ...*agentv1.Verdict) {
		t.Helper()
		if len(got) != 1 || got[0].GetClaimId() != "a" || got[0].GetOutcome() != agentv1.Verdict_REJECTED || got[0].GetReason() != agentv1.Verdict_ABORTED {
			t.Errorf("%s: %v", when, got)
		}
	}
	nothing := func(by string) {
		t.Helper()
		if verdicts, _ := c.pendingVerdicts(by); len(verdicts) != 0 {
			t.Errorf("%s is sent %v", by, verdicts)
		}
	}
	c.offered("new", offer(false))
	_, woken := c.pendingVerdicts("new")
	got, err := c.AbortClaim("a")
	is(t, agentv1.HostClaim_ABORTED, got, err)
	select {
	case <-woken:
	default:
		t.Error("nobody is woken")
	}
	verdicts, woken := c.pendingVerdicts("new")
	aborted("after it", verdicts...)
	nothing("new")
	got, err = c.AbortClaim("a")
	is(t, agentv1.HostClaim_ABORTED, got, err)
	nothing("new")
	select {
	case <-woken:
		t.Error("sent twice")
	default:
	}
	// A new stream offers the claim again, even if it was confirmed meanwhile or has other amounts.
	aborted("offered again", c.offered("new", offer(false)))
	aborted("offered by another", c.offered("third", offer(true)))
	other := offer(false)
	other.Usages = vcpus(11) // more than the host has
	aborted("offered with other amounts", c.offered("new", other))
	// An instance that runs after all makes the abort void.
	c.observe(smallHost(4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5))
	if v := c.offered("new", offer(false)); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("the instance is there: %v", v)
	}
}

func TestAnAbortedClaimTakesNothing(t *testing.T) {
	c, at := claimsOf(smallHost(4)) // 10 free
	got, err := c.AbortClaim("a")
	refusedAs(t, fault.NotFound, got, err)
	c.offered("r", offerTo("a", 10, 5))
	got, err = c.MoveClaim(&agentv1.MoveClaimRequest{ClaimId: "m", InstanceUuid: instanceUUID(11), Usages: vcpus(5)})
	is(t, agentv1.HostClaim_HELD, got, err)
	for _, id := range []string{"a", "a", "m", "m"} { // each repeated
		got, err = c.AbortClaim(id)
		is(t, agentv1.HostClaim_ABORTED, got, err)
	}
	if v := c.offered("r", offerTo("b", 12, 10)); v.GetOutcome() != agentv1.Verdict_OK {
		t.Errorf("verdict %v", v)
	}
	got, err = c.InstanceClaim(instanceClaimOf("a", 10, 0))
	refusedAs(t, fault.ClaimExpired, got, err)
	*at = at.Add(localClaimFor)
	if s := statesOf(c); len(s) != 2 || s["a"] != agentv1.HostClaim_ABORTED {
		t.Errorf("listed: %v", s)
	}
	c.ended("a", "RELEASED")
	if s := statesOf(c); len(s) != 1 {
		t.Errorf("listed: %v", s)
	}
	c.observe(smallHost(4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10)) // instance 12 is running
	got, err = c.AbortClaim("b")
	refusedAs(t, fault.AlreadyExists, got, err)
}

// An abort does not leave an instance on the host without its claim, whatever its size. Nor does it
// abort the only claim that the cell has of an instance elsewhere.
func TestWhatAnInstanceHasAloneIsNotAborted(t *testing.T) {
	offer := func(id string, n int, moves string, confirmed bool) *agentv1.ClaimOffer {
		o := offerTo(id, n, 5)
		o.MovesClaimId, o.Confirmed, o.WantsVerdict = moves, confirmed, !confirmed
		return o
	}
	resize := func(c *Claims, id string, n int) {
		t.Helper()
		got, err := c.ResizeClaim(&agentv1.ResizeClaimRequest{ClaimId: id, InstanceUuid: instanceUUID(n)})
		is(t, agentv1.HostClaim_HELD, got, err)
	}
	t.Run("resized, its source ended", func(t *testing.T) {
		c, _ := claimsOf(smallHost(4)) // instance 0 has 4
		c.offered("r", offer("old", 0, "", true))
		c.offered("r", offer("new", 0, "old", false))
		resize(c, "new", 0)
		c.ended("old", "RELEASED")
		got, err := c.AbortClaim("new")
		refusedAs(t, fault.AlreadyExists, got, err)
	})
	t.Run("confirmed", func(t *testing.T) {
		c, _ := claimsOf(smallHost(4))
		for id, n := range map[string]int{"here": 0, "elsewhere": 10} {
			c.offered("r", offer(id, n, "old", true))
			got, err := c.AbortClaim(id)
			refusedAs(t, fault.AlreadyExists, got, err)
		}
	})
	t.Run("while its source is there", func(t *testing.T) {
		c, _ := claimsOf(smallHost(4))
		c.offered("r", offer("old", 0, "", true))
		c.offered("r", offer("new", 0, "old", false))
		resize(c, "new", 0)
		got, err := c.AbortClaim("new")
		is(t, agentv1.HostClaim_ABORTED, got, err)
		c.ended("old", "RELEASED")
		if s := statesOf(c); s["new"] != agentv1.HostClaim_RUNNING {
			t.Errorf("listed: %v", s)
		}
	})
	for name, abort := range map[string]func(*Claims){
		"offered": func(c *Claims) { c.offered("r", offer("a", 10, "old", true)) },
		"in a set": func(c *Claims) {
			c.set("r", &agentv1.ClaimSet{ClaimIds: []string{"a"}, ConfirmedClaimIds: []string{"a"}})
		},
		"other amounts": func(c *Claims) { o := offer("a", 10, "old", true); o.Usages = vcpus(6); c.offered("r", o) },
	} {
		t.Run("aborted before it was known to be confirmed: "+name, func(t *testing.T) {
			c, _ := claimsOf(smallHost(4)) // 10 free
			c.offered("r", offer("a", 10, "old", false))
			got, err := c.AbortClaim("a")
			is(t, agentv1.HostClaim_ABORTED, got, err)
			abort(c)
			if s := statesOf(c); s["a"] != agentv1.HostClaim_HELD {
				t.Errorf("listed: %v", s)
			}
			if v := c.offered("r", offerTo("b", 11, 6)); v.GetReason() != agentv1.Verdict_NO_ROOM {
				t.Errorf("its room is promised: %v", v)
			}
		})
	}
}

func TestAnAbortedClaimWhoseInstanceCameRuns(t *testing.T) {
	c, _ := claimsOf(smallHost(4))
	c.offered("r", offerTo("a", 10, 5))
	got, err := c.AbortClaim("a")
	is(t, agentv1.HostClaim_ABORTED, got, err)
	c.observe(smallHost(4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5)) // instance 10 is running
	if s := statesOf(c); s["a"] != agentv1.HostClaim_RUNNING {
		t.Errorf("listed: %v", s)
	}
}
