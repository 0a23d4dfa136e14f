package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (w *world) alternate(claim, host string) (*cellgatev1.Claim, error) {
	got, err := w.claims.ClaimAlternate(context.Background(), &cellgatev1.ClaimAlternateRequest{
		ConsumerUuid: testUUID(0x1, 1), ClaimId: claim, HostUuid: host, ClaimTtl: durationpb.New(77e9),
	})
	return got.GetClaim(), err
}

// withAlternates places the instance of ask(1, 1) in cell1.
func withAlternates(w *world) (*cellgatev1.SelectDestinationsRequest, *cellgatev1.Destinations) {
	w.t.Helper()
	req := to(ask(1, 1), "cell1")
	req.RequestId, req.ReturnAlternates = "r1", true
	d := w.choose(req).GetDestinations()[0]
	if len(d.GetAlternates()) != 2 {
		w.t.Fatalf("%d alternates", len(d.GetAlternates()))
	}
	return req, d
}

func threeHosts() []*testCell {
	return []*testCell{newCell(1, testHost(1, 3), testHost(2, 2), testHost(3, 1)), newCell(2, testHost(4, 1))}
}

func TestClaimAlternate(t *testing.T) {
	w := start(t, threeHosts(), nil)
	req, first := withAlternates(w)
	id, next := first.GetSelected().GetClaimId(), first.GetAlternates()[0]
	var c *cellgatev1.Claim
	for range 2 {
		var err error
		if c, err = w.alternate(id, next.GetComputeNodeUuid()); err != nil {
			t.Fatal(err)
		}
	}
	if c.GetClaimId() != id || c.GetState() != cellgatev1.ClaimState_PENDING || c.GetHostUuid() != next.GetComputeNodeUuid() {
		t.Errorf("%v", c)
	}
	for _, a := range c.GetAllocations() {
		if a.GetProviderUuid() != next.GetComputeNodeUuid() {
			t.Errorf("allocation of %s", a.GetProviderUuid())
		}
	}
	if ttl := c.GetExpiresAt().AsTime().Sub(c.GetCreatedAt().AsTime()); ttl < 77e9 || ttl > 200e9 {
		t.Errorf("the lease is %v", ttl)
	}
	again := w.choose(req).GetDestinations()[0]
	s := again.GetSelected()
	if s.GetComputeNodeUuid() != next.GetComputeNodeUuid() || s.GetClaimId() != id || !s.GetClaimed() || s.GetWeight() != next.GetWeight() ||
		s.GetClaimState() != cellgatev1.ClaimState_PENDING || s.GetClaimExpiresAt() == nil {
		t.Errorf("the repeat is answered %v", s)
	}
	if len(again.GetAlternates()) != 1 || again.GetAlternates()[0].GetComputeNodeUuid() != first.GetAlternates()[1].GetComputeNodeUuid() {
		t.Errorf("alternates left: %v", again.GetAlternates())
	}
	if w.liveClaims() != 1 {
		t.Errorf("%d claims", w.liveClaims())
	}
	// Once the claim is confirmed, its instance is on the host, and no alternate can be claimed.
	if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	got, err := w.alternate(id, first.GetAlternates()[1].GetComputeNodeUuid())
	mustFail(t, got, err, fault.AlreadyExists)
}

func TestClaimAlternateRefusals(t *testing.T) {
	w := start(t, threeHosts(), nil)
	_, d := withAlternates(w)
	id, instance := d.GetSelected().GetClaimId(), testUUID(0x1, 1)
	full := d.GetAlternates()[0]
	w.cells[0].takeVCPUs("other", testUUID(0x9, 1), full.GetComputeNodeUuid(), 32)
	for _, tt := range []struct {
		name, claim, host, Cell string
		want                    fault.Kind
		code                    int
		field                   string
	}{
		{"no alternate", id, testUUID(0xa, 4), "", fault.InvalidRequest, http.StatusBadRequest, "host_uuid"},
		{"full", id, full.GetComputeNodeUuid(), "", fault.NoValidHost, http.StatusConflict, ""},
		{"no such claim", "x", full.GetComputeNodeUuid(), "", fault.NotFound, http.StatusNotFound, ""},
		{"another cell", id, full.GetComputeNodeUuid(), "cell2", fault.NotFound, http.StatusNotFound, ""},
		{"no such cell", id, full.GetComputeNodeUuid(), "cell9", fault.InvalidRequest, http.StatusBadRequest, "cell"},
		{"no such host", id, "x", "", fault.NotFound, http.StatusNotFound, ""},
	} {
		got, err := w.claims.ClaimAlternate(context.Background(), &cellgatev1.ClaimAlternateRequest{
			ConsumerUuid: instance, ClaimId: tt.claim, HostUuid: tt.host, Cell: tt.Cell,
		})
		e := mustFail(t, got, err, tt.want)
		if tt.field != "" && (len(e.Fields) != 1 || e.Fields[0].Path != tt.field) {
			t.Errorf("%s: fields %v", tt.name, e.Fields)
		}
		if tt.name == "no alternate" && !strings.Contains(e.Message, d.GetAlternates()[1].GetComputeNodeUuid()) {
			t.Errorf("does not list the alternates: %s", e.Message)
		}
		rec := w.send("POST", "/v1/claims/"+instance+":claim_alternate", fmt.Sprintf(`{"claim_id": %q, "host_uuid": %q, "cell": %q}`, tt.claim, tt.host, tt.Cell))
		if p := problemOf(t, rec); rec.Code != tt.code || p.Reason != tt.want {
			t.Errorf("%s over REST: %d %v", tt.name, rec.Code, p)
		}
	}
	if c := w.getClaim(); c.GetHostUuid() != d.GetSelected().GetComputeNodeUuid() {
		t.Errorf("the claim went to %v", c)
	}
}

func TestClaimAlternateWhoseReplyIsLost(t *testing.T) {
	w := start(t, threeHosts(), nil)
	_, d := withAlternates(w)
	host := d.GetAlternates()[0].GetComputeNodeUuid()
	w.cells[0].hook(nil, func(method string, _ any) error {
		if method == "ClaimBatch" {
			return errors.New("lost")
		}
		return nil
	})
	_, err := w.alternate(d.GetSelected().GetClaimId(), host)
	e := mustFail(t, nil, err, fault.OutcomeUnknown)
	if e.Metadata["cell"] != "cell1" || e.Metadata["claim_id"] != d.GetSelected().GetClaimId() {
		t.Errorf("%v", e.Metadata)
	}
	w.cells[0].hook(nil, nil)
	if c, err := w.alternate(d.GetSelected().GetClaimId(), host); err != nil || c.GetHostUuid() != host {
		t.Errorf("%v, %v", c, err)
	}
}

// The only member of a group may move to an alternate, and the group follows. One of several members may not.
func TestI9_ClaimAlternateKeepsAffinity(t *testing.T) {
	affinity := &cellgatev1.InstanceGroup{Uuid: testUUID(0x6, 1), Policy: "affinity"}
	for _, pinned := range []bool{true, false} {
		w := start(t, threeHosts(), nil)
		one := ask(1, 1)
		one.ReturnAlternates = true
		one.GetRequestSpec().InstanceGroup = affinity
		one.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell1"}
		d := w.choose(one).GetDestinations()[0]
		id, alternates := d.GetSelected().GetClaimId(), d.GetAlternates()
		if _, err := w.alternate(id, alternates[0].GetComputeNodeUuid()); err != nil {
			t.Fatal(err)
		}
		two := ask(2, 1)
		two.GetRequestSpec().InstanceGroup = affinity
		if s := w.choose(two).GetDestinations()[0].GetSelected(); s.GetServiceHost() != alternates[0].GetServiceHost() {
			t.Fatalf("the second member is on %s, the first on %s", s.GetServiceHost(), alternates[0].GetServiceHost())
		}
		if !pinned {
			for _, c := range w.cells {
				_, holders := c.pin(affinity.GetUuid())
				for _, claim := range holders {
					c.unpin(affinity.GetUuid(), claim)
				}
			}
		}
		_, err := w.alternate(id, alternates[1].GetComputeNodeUuid())
		mustFail(t, nil, err, fault.NoValidHost)
		w.g.cells.Wait()
		// The pin is still where the members are.
		three := ask(3, 1)
		three.GetRequestSpec().InstanceGroup = affinity
		if s := w.choose(three).GetDestinations()[0].GetSelected(); s.GetServiceHost() != alternates[0].GetServiceHost() {
			t.Errorf("the third member is on %s", s.GetServiceHost())
		}
	}
}

// The pin is where the claim is after an alternate was refused, or its reply was lost. So the next member follows.
func TestI9_ClaimAlternateFails_TheNextMemberFollows(t *testing.T) {
	for _, of := range []struct {
		name string
		fail func(w *world, alternate string)
		kind fault.Kind
		// moved: the claim is on the alternate all the same.
		moved bool
	}{
		{"another cell may have members", func(w *world, _ string) {
			w.cells[1].hook(func(_ context.Context, method string, _ any) error {
				if method == "ProposeBatch" {
					return errors.New("down")
				}
				return nil
			}, nil)
		}, fault.CellUnavailable, false},
		{"the alternate is full", func(w *world, alternate string) {
			for n := range 4 {
				w.cells[0].takeVCPUs(fmt.Sprint("other", n), testUUID(0x9, n), alternate, 16)
			}
		}, fault.NoValidHost, false},
		{"its reply is lost", func(w *world, _ string) {
			w.cells[0].hook(nil, func(_ string, req any) error {
				if len(opsIn(req, (*cellv1.ClaimOp).GetSwap)) > 0 {
					return errors.New("lost")
				}
				return nil
			})
		}, fault.OutcomeUnknown, true},
	} {
		t.Run(of.name, func(t *testing.T) {
			w := start(t, threeHosts(), nil)
			one := askGroup(1, 1, "affinity")
			one.ReturnAlternates, one.GetRequestSpec().RequestedDestination = true, &cellgatev1.Destination{Cell: "cell1"}
			d := w.choose(one).GetDestinations()[0]
			at, alternate := d.GetSelected().GetServiceHost(), d.GetAlternates()[0]
			of.fail(w, alternate.GetComputeNodeUuid())
			got, err := w.alternate(d.GetSelected().GetClaimId(), alternate.GetComputeNodeUuid())
			mustFail(t, got, err, of.kind)
			w.g.cells.Wait()
			for _, c := range w.cells {
				c.hook(nil, nil)
			}
			if of.moved {
				at = alternate.GetServiceHost()
			}
			if to, _ := w.arbiterOf().pin(testUUID(0xe, 1)); to != at {
				t.Fatalf("the group is pinned to %s, its member is on %s", to, at)
			}
			if s := w.choose(askGroup(2, 1, "affinity")).GetDestinations()[0].GetSelected(); s.GetServiceHost() != at {
				t.Errorf("the second member is on %s, the first on %s", s.GetServiceHost(), at)
			}
		})
	}
}

func TestTransferClaim(t *testing.T) {
	w := start(t, twoCells(), nil)
	s := w.built("cell1")
	from, to := testUUID(0x1, 1), testUUID(0x2, 1)
	transfer := func(from, to, claim, cell string) (*cellgatev1.Claim, error) {
		got, err := w.claims.TransferClaim(context.Background(), &cellgatev1.TransferClaimRequest{
			ConsumerUuid: from, ClaimId: claim, ToConsumer: to, Cell: cell,
		})
		return got.GetClaim(), err
	}
	for range 2 {
		c, err := transfer(from, strings.ToUpper(to), s.GetClaimId(), "")
		if err != nil || c.GetConsumerUuid() != to || c.GetTransferredFrom() != from || c.GetState() != cellgatev1.ClaimState_CONFIRMED {
			t.Fatalf("%v, %v", c, err)
		}
	}
	other := w.choose(ask(3, 1)).GetDestinations()[0].GetSelected()
	for _, tt := range []struct {
		name, from, to, claim, Cell string
		want                        fault.Kind
		code                        int
		field                       string
	}{
		{"to itself", from, from, s.GetClaimId(), "", fault.InvalidRequest, http.StatusBadRequest, "to_consumer"},
		{"no uuid", from, "x", s.GetClaimId(), "", fault.InvalidRequest, http.StatusBadRequest, "to_consumer"},
		{"no such claim", from, testUUID(0x2, 9), "x", "", fault.NotFound, http.StatusNotFound, ""},
		{"has one", to, testUUID(0x1, 3), s.GetClaimId(), "", fault.AlreadyExists, http.StatusConflict, ""},
		{"another cell", to, testUUID(0x2, 9), s.GetClaimId(), "cell2", fault.NotFound, http.StatusNotFound, ""},
		{"no such cell", to, testUUID(0x2, 9), s.GetClaimId(), "cell9", fault.InvalidRequest, http.StatusBadRequest, "cell"},
	} {
		_, err := transfer(tt.from, tt.to, tt.claim, tt.Cell)
		e := mustFail(t, nil, err, tt.want)
		if tt.field != "" && (len(e.Fields) != 1 || e.Fields[0].Path != tt.field) {
			t.Errorf("%s: fields %v", tt.name, e.Fields)
		}
		if tt.want == fault.AlreadyExists && e.Metadata["claim_id"] != other.GetClaimId() {
			t.Errorf("%s: %v", tt.name, e.Metadata)
		}
		rec := w.send("POST", "/v1/claims/"+tt.from+":transfer", fmt.Sprintf(`{"claim_id": %q, "to_consumer": %q, "cell": %q}`, tt.claim, tt.to, tt.Cell))
		if p := problemOf(t, rec); rec.Code != tt.code || p.Reason != tt.want {
			t.Errorf("%s over REST: %d %v", tt.name, rec.Code, p)
		}
	}
	// Nova's cold migration: the migration holds the source, the instance moves.
	moved := w.choose(move(cellgatev1.Operation_MOVE, "m1")).GetDestinations()[0].GetSelected()
	if err := w.confirm(moved, from); err != nil {
		t.Fatal(err)
	}
	if w.liveClaims() != 3 {
		t.Errorf("%d claims", w.liveClaims())
	}
}

func TestTransferClaimWhoseReplyIsLost(t *testing.T) {
	w := start(t, twoCells(), nil)
	s := w.built("cell1")
	req := &cellgatev1.TransferClaimRequest{ConsumerUuid: testUUID(0x1, 1), ClaimId: s.GetClaimId(), ToConsumer: testUUID(0x2, 1)}
	w.cells[0].hook(nil, func(method string, req any) error {
		if method == "ClaimBatch" && slices.ContainsFunc(req.(*cellv1.ClaimBatchRequest).GetOps(), func(op *cellv1.ClaimOp) bool { return op.GetTransfer() != nil }) {
			return errors.New("lost")
		}
		return nil
	})
	got, err := w.claims.TransferClaim(context.Background(), req)
	mustFail(t, got, err, fault.OutcomeUnknown)
	got, err = w.claims.TransferClaim(context.Background(), req)
	if err != nil || got.GetClaim().GetConsumerUuid() != testUUID(0x2, 1) {
		t.Errorf("%v, %v", got, err)
	}
}
