package gateway

import (
	"context"
	"fmt"
	"testing"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (w *world) releaseRef(s *cellgatev1.Selection, consumer, cell string) error {
	_, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{
		ConsumerUuid: consumer, ClaimId: s.GetClaimId(), Cell: cell,
	})
	return err
}

// A release that names the wrong cell releases the claim where it is.
func TestReleaseThatNamesTheWrongCell(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		w := start(t, twoCells(), nil)
		s := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		if confirmed {
			if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.releaseRef(s, testUUID(0x1, 1), "cell2"); err != nil {
			t.Fatal(err)
		}
		if w.liveClaims() != 0 || w.cells[1].claim(s.GetClaimId()) != nil {
			t.Errorf("confirmed %v: %d live claims; cell2 has %v", confirmed, w.liveClaims(), w.cells[1].claim(s.GetClaimId()))
		}
	}
}

// A release that names the wrong cell fails while the cell that has the claim does not answer.
func TestReleaseThatNamesTheWrongCellWhileTheOtherIsAway(t *testing.T) {
	// The breaker stays closed, so that the last call reaches the cell.
	w := start(t, twoCells(), func(c *Config) { c.Breaker.Failures = 1000 })
	s := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	w.cells[0].hook(down, nil)
	mustFail(t, nil, w.releaseRef(s, testUUID(0x1, 1), "cell2"), fault.CellUnavailable)
	w.cells[0].hook(nil, nil)
	// Whatever the failed release left in cell2 does not prevent a later release.
	if err := w.releaseRef(s, testUUID(0x1, 1), "cell2"); err != nil || w.liveClaims() != 0 {
		t.Errorf("%v, %d live claims", err, w.liveClaims())
	}
}

// A release that names the right cell asks no other.
func TestReleaseAsksTheNamedCellAlone(t *testing.T) {
	w := start(t, twoCells(), nil)
	s := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	w.cells[1].hook(down, nil)
	for range 2 {
		if err := w.releaseRef(s, testUUID(0x1, 1), "cell1"); err != nil {
			t.Error(err)
		}
	}
}

// A release by the wrong consumer changes nothing in any cell, and says which field
// is wrong.
func TestReleaseByTheWrongConsumer(t *testing.T) {
	for _, named := range []string{"", "cell1", "cell2"} {
		w := start(t, twoCells(), nil)
		s := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		e := mustFail(t, nil, w.releaseRef(s, testUUID(0x1, 2), named), fault.InvalidRequest)
		if len(e.Fields) != 1 || e.Fields[0].Path != "consumer_uuid" {
			t.Errorf("cell %q: fields %v", named, e.Fields)
		}
		if w.liveClaims() != 1 || w.cells[1].claim(s.GetClaimId()) != nil {
			t.Errorf("cell %q: cell2 has %v", named, w.cells[1].claim(s.GetClaimId()))
		}
		mustFail(t, nil, w.confirm(s, testUUID(0x1, 2)), fault.NotFound)
		if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
			t.Errorf("the right one cannot confirm: %v", err)
		}
	}
}

// If the gateway's lookup fails, the cell's own refusal names the field.
func TestRefusalOfACellNamesTheField(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
	s := w.choose(ask(1, 1)).GetDestinations()[0].GetSelected()
	w.cells[0].hook(func(_ context.Context, method string, _ any) error {
		if method == "ListClaims" {
			return fault.New(fault.CellUnavailable, "no")
		}
		return nil
	}, nil)
	e := mustFail(t, nil, w.releaseRef(s, testUUID(0x1, 2), ""), fault.InvalidRequest)
	if fmt.Sprint(e.Fields) != "[{consumer_uuid claim "+s.GetClaimId()+" is of another consumer}]" || e.Metadata["cell"] != "cell1" {
		t.Errorf("%q: fields %v of %v", e.Message, e.Fields, e.Metadata)
	}
}

func TestFieldThatAMessageBeginsWith(t *testing.T) {
	for _, tt := range []struct{ reason, message, want string }{
		{"INVALID_REQUEST", "consumer_uuid: must be a uuid", "[{consumer_uuid must be a uuid}]"},
		{"INVALID_REQUEST", "swap.allocations[2].amount: must be at least 1", "[{swap.allocations[2].amount must be at least 1}]"},
		{"INVALID_REQUEST", "2 fields are invalid; the first: a: b", "[]"},
		{"INVALID_REQUEST", "cell cell2: no", "[]"},
		{"INVALID_REQUEST", "no", "[]"},
		{"NOT_FOUND", "host: there is none", "[]"},
	} {
		e := cellclient.RefusalError(tt.reason, tt.message)
		if e.Message != tt.message || fmt.Sprint(e.Fields) != tt.want {
			t.Errorf("%s %q: %q, fields %v", tt.reason, tt.message, e.Message, e.Fields)
		}
	}
}

// A tombstone in one cell does not settle a confirm while another cell, which may have the claim, does not answer.
func TestConfirmBesideATombstone(t *testing.T) {
	w := start(t, twoCells(), func(c *Config) { c.Breaker.Failures = 1000 })
	s := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	w.cells[0].hook(down, nil)
	mustFail(t, nil, w.releaseRef(s, testUUID(0x1, 1), ""), fault.CellUnavailable)
	mustFail(t, nil, w.confirm(s, testUUID(0x1, 1)), fault.CellUnavailable)
	w.cells[0].hook(nil, nil)
	if err := w.confirm(s, testUUID(0x1, 1)); err != nil {
		t.Errorf("the claim lives in cell1: %v", err)
	}
}
