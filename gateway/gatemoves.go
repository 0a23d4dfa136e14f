package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"cellgate/internal/fault"
)

const (
	// maxGateMoves is how many moves of gates a request follows; a cell whose gate moves
	// once more is lost to it.
	maxGateMoves = 8
	// gatePause is the longest pause after the first of them; it grows with each, for
	// the replicas that learn of a move a little later.
	gatePause = 5 * time.Millisecond
)

// errGateMoved says that a merge must begin again, since somebody else answers for a
// cell now.
var errGateMoved = errors.New("the gate of a cell moved")

// loadGateViews takes who answers for each cell. The request goes by it until it finds that the
// gate moved.
func (s *selection) loadGateViews() {
	for i, c := range s.g.cells {
		s.views[i] = c.view()
	}
}

// notNative looks whether a cell refused to answer because its gate is not NATIVE any
// more: then the merge begins again.
func (s *selection) notNative(ctx context.Context, cell int, got proposed) error {
	v := s.views[cell]
	said := got.by != nil && (fault.KindOf(got.err) == fault.CellUnavailable || fault.KindOf(got.err) == fault.StaleGeneration)
	if v.gate == nil || v.standIn || !said {
		return nil
	}
	if err := s.follow(ctx, cell, v.epoch()); err != nil {
		return err
	}
	if s.views[cell].standIn {
		return errGateMoved
	}
	return nil
}

// replanOnMovedGates looks at the gates under which claims were refused, and were planned under
// the epochs named.
func (s *selection) replanOnMovedGates(ctx context.Context, stale map[int]int64) error {
	for cell, epoch := range stale {
		if err := s.follow(ctx, cell, epoch); err != nil {
			return err
		}
	}
	return nil
}

// follow looks who answers for a cell whose gate is not at an epoch any more.
func (s *selection) follow(ctx context.Context, cell int, epoch int64) error {
	s.gateMoves++
	if s.gateMoves > maxGateMoves {
		s.markUnavailable(ctx, cell, fault.New(fault.CellUnavailable, "the cell's gate moved %d times while the request was planned", s.gateMoves))
		return nil
	}
	if w := s.g.cells[cell].gate; w != nil {
		w.tel.Replanned()
		v, err := w.look(ctx, epoch)
		if err != nil {
			return err
		}
		if s.views[cell] = v; v.err != nil {
			s.markUnavailable(ctx, cell, v.err)
			return nil
		}
		if v.epoch() != epoch {
			return nil
		}
	}
	return pause(ctx, rand.N(time.Duration(s.gateMoves)*gatePause))
}
