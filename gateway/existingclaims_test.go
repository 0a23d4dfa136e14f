package gateway

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func twoCells() []*testCell {
	return []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)), newCell(2, testHost(3, 1), testHost(4, 1))}
}

// withoutVersions is a copy of an answer without the versions of the tables, which are newer for a repeat.
func withoutVersions(m *cellgatev1.SelectDestinationsResponse) *cellgatev1.SelectDestinationsResponse {
	m = proto.CloneOf(m)
	for _, r := range m.GetCells() {
		r.TableVersion = ""
	}
	return m
}

func TestRepeatGivesTheSameAnswer(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 3)
	req.RequestId, req.ReturnAlternates = "r1", true
	first := w.choose(req)
	again := w.choose(req)
	if !proto.Equal(withoutVersions(first), withoutVersions(again)) {
		// The report counts hosts, which are the same; passed too, as all still fit.
		t.Errorf("first %v\nagain %v", first, again)
	}
	if w.liveClaims() != 3 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestRepeatShowsThePresentState(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	s := w.choose(req).GetDestinations()[0].GetSelected()
	if _, err := w.claims.ConfirmClaim(context.Background(), &cellgatev1.ConfirmClaimRequest{
		ConsumerUuid: testUUID(0x1, 1), ClaimId: s.GetClaimId(),
	}); err != nil {
		t.Fatal(err)
	}
	again := w.choose(req).GetDestinations()[0].GetSelected()
	if again.GetClaimId() != s.GetClaimId() || again.GetClaimState() != cellgatev1.ClaimState_CONFIRMED || again.GetClaimExpiresAt() != nil {
		t.Errorf("%v", again)
	}
}

func TestRepeatWhenTheSystemIsFull(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	req.GetRequestSpec().Flavor.Vcpus = 16
	first := w.choose(req).GetDestinations()
	if again := w.choose(req).GetDestinations(); !proto.Equal(first[0], again[0]) {
		t.Errorf("first %v\nagain %v", first, again)
	}
}

func TestRepeatKeepsSomeAndPlansTheRest(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 3)
	req.RequestId = "r1"
	first := w.choose(req)
	lost := first.GetDestinations()[1]
	if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
		ConsumerUuid: lost.GetInstanceUuid(), ClaimId: lost.GetSelected().GetClaimId(),
	}); err != nil {
		t.Fatal(err)
	}
	again := w.choose(req)
	for i, d := range again.GetDestinations() {
		same := d.GetSelected().GetClaimId() == first.GetDestinations()[i].GetSelected().GetClaimId()
		if same != (i != 1) {
			t.Errorf("instance %d: same claim %v", i, same)
		}
	}
	if w.liveClaims() != 3 || again.GetDecisionId() != first.GetDecisionId() {
		t.Errorf("%d claims, decisions %s, %s", w.liveClaims(), first.GetDecisionId(), again.GetDecisionId())
	}
}

// A repeat that cannot place all instances does not release the claims that it found.
func TestRepeatThatFailsReleasesOnlyItsOwn(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1), testHost(3, 1))}, nil)
	req := ask(1, 3)
	req.RequestId = "r1"
	req.GetRequestSpec().Flavor.Vcpus = 16
	first := w.choose(req)
	for _, i := range []int{1, 2} {
		d := first.GetDestinations()[i]
		if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
			ConsumerUuid: d.GetInstanceUuid(), ClaimId: d.GetSelected().GetClaimId(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	if w.cells[0].fill(int(first.GetDestinations()[1].GetSelected().GetServiceHost()[6]-'0'), 1) == nil {
		t.Fatal("not filled")
	}
	w.refused(req, fault.NoValidHost)
	live := w.cells[0].live()
	kept := 0
	for _, c := range live {
		if c.GetClaimId() == first.GetDestinations()[0].GetSelected().GetClaimId() {
			kept++
		}
	}
	if kept != 1 || len(live) != 2 {
		t.Errorf("%d live claims, %d kept", len(live), kept)
	}
}

func TestOtherRequestsOfAConsumerAreRefused(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	w.choose(req)

	changed := proto.CloneOf(req)
	changed.GetRequestSpec().Flavor.Vcpus = 4
	if e := w.refused(changed, fault.InvalidRequest); len(e.Fields) != 1 || e.Fields[0].Path != "request_id" {
		t.Errorf("other fingerprint: %v", e)
	}
	ttl := proto.CloneOf(req)
	ttl.ClaimTtl = durationpb.New(60e9)
	w.refused(ttl, fault.InvalidRequest)

	other := proto.CloneOf(req)
	other.RequestId = "r2"
	if e := w.refused(other, fault.AlreadyExists); !strings.Contains(e.Message, testUUID(0x1, 1)) {
		t.Errorf("other id: %v", e)
	}
	none := proto.CloneOf(req)
	none.RequestId = ""
	w.refused(none, fault.AlreadyExists)
	if w.liveClaims() != 1 {
		t.Errorf("%d claims", w.liveClaims())
	}
	none.DryRun = true
	w.choose(none)
}

// Two calls of one request at the same time claim each instance once.
func TestRepeatAtTheSameTime(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	type result struct {
		resp *cellgatev1.SelectDestinationsResponse
		err  error
	}
	results := make(chan result, 4)
	for range cap(results) {
		go func() {
			resp, err := w.scheduler.SelectDestinations(context.Background(), req)
			results <- result{resp, err}
		}()
	}
	ids := map[string]bool{}
	for range cap(results) {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		ids[r.resp.GetDestinations()[0].GetSelected().GetClaimId()] = true
	}
	if len(ids) != 1 || w.liveClaims() != 1 {
		t.Errorf("claims %v, %d live", ids, w.liveClaims())
	}
}
