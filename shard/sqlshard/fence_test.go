package sqlshard

import (
	"errors"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// If a lane is fenced, both its Tail and its Apply fail, and name the reason.
func TestFencedLane_ReadsAndWrites_NameByWhat(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		s := newStand(t, opts)
		another := openAt(t, opts)
		defer mustClose(t, another)
		if _, _, err := s.Tail(t.Context(), nil, 10); err != nil {
			t.Fatalf("Tail of a lane that is not fenced: %v", err)
		}
		if _, err := another.OpenLane(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		const why = "replica r has begun incarnation 2, which ended incarnation 1"
		_, _, read := s.Tail(t.Context(), nil, 10)
		for what, err := range map[string]error{"Tail": read, "Apply": s.claim(1)} {
			if !errors.Is(err, shard.ErrFenced) || fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.OpenLane(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Tail(t.Context(), nil, 10); err != nil {
			t.Errorf("Tail of the next incarnation: %v", err)
		}
	})
}
