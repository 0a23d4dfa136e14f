package selection

import (
	"context"
	"sync"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// doubt are claims of unknown outcome in a cell, which are being released. A release that the
// cell accepted is final: a claim that arrives later is refused.
type doubt struct {
	cell int
	// released is closed when the release ends. gone are then the claims that do not exist
	// and cannot arrive any more; err is why a claim may still exist.
	released chan struct{}
	gone     []string
	err      error
}

// doubt starts the release of a cell's claims whose outcome is unknown. If unpin is set,
// their holds of the group's pin end with them, and not before, since a later call may keep a
// claim.
func (s *selection) doubt(ctx context.Context, cell int, refs []*cellv1.ClaimRef, unpin bool) *doubt {
	d := &doubt{cell: cell, released: make(chan struct{})}
	s.svc.Cells.All[cell].Telemetry.Doubted(len(refs))
	s.doubts = append(s.doubts, d)
	svc, group := s.svc, ""
	if unpin {
		group = s.pinnedGroup()
	}
	svc.Cells.Background(ctx, func(ctx context.Context) {
		d.gone, d.err = svc.Claims.Release(ctx, svc.Cells.All[cell], refs)
		close(d.released)
		svc.Claims.UnpinIn(ctx, group, d.gone)
	})
	return d
}

// chance reports whether the request may go on in a cell of which one replica did not answer
// a claim. It may after another replica did the release, so that the claim does not exist and
// cannot arrive any more.
func (s *selection) chance(ctx context.Context, d *doubt) bool {
	if s.cells[d.cell].retriesAfterUnknown+1 >= len(s.svc.Cells.All[d.cell].Replicas) {
		return false
	}
	select {
	case <-d.released:
	case <-ctx.Done():
		return false
	}
	if d.err != nil {
		return false
	}
	for _, id := range d.gone {
		s.endedClaims[id] = true
	}
	s.cells[d.cell].retriesAfterUnknown++
	return true
}

// stillUnknown names the cells that may still hold a claim of this request. It waits for the
// releases until ctx ends.
func (s *selection) stillUnknown(ctx context.Context) []string {
	unknown := map[int]bool{}
	for _, d := range s.doubts {
		select {
		case <-d.released:
			if d.err != nil {
				unknown[d.cell] = true
			}
		case <-ctx.Done():
			unknown[d.cell] = true
		}
	}
	var names []string
	for i, c := range s.svc.Cells.All {
		if unknown[i] {
			names = append(names, c.Name())
		}
	}
	return names
}

// undo releases what the request claimed, except claims that are confirmed, or that a later
// call of the request keeps. The release outlives the request's context, which only bounds
// how long the caller waits for it.
//
// It fails if a cell did not accept the release in time: its claims then end with their
// leases.
func (s *selection) undo(ctx context.Context) error {
	refs := map[int][]*cellv1.ClaimRef{}
	for i, p := range s.places {
		if p == nil || p.fromEarlierCall || p.claim == nil {
			continue
		}
		refs[p.cell] = append(refs[p.cell], &cellv1.ClaimRef{
			ClaimId: p.claim.GetClaimId(), ConsumerUuid: s.instances[i].String(), Attempt: p.attempt,
		})
	}
	if len(refs) == 0 {
		return nil
	}
	// The task may outlive the request, so it must not use s.
	svc, group := s.svc, s.pinnedGroup()
	done := make(chan error, 1)
	svc.Cells.Background(ctx, func(ctx context.Context) {
		var all sync.WaitGroup
		var lock sync.Mutex
		var failed error
		var gone []string
		for cell, refs := range refs {
			all.Go(func() {
				// Release logs a failure; the claims then end with their leases.
				released, err := svc.Claims.Release(ctx, svc.Cells.All[cell], refs)
				lock.Lock()
				defer lock.Unlock()
				gone = append(gone, released...)
				if err != nil {
					failed = fault.Wrap(fault.CellUnavailable, err, "claims of this request could not be given back in %s: %s",
						svc.Cells.All[cell].Name(), cellclient.ReasonOf(err)).With("cells", svc.Cells.All[cell].Name())
				}
			})
		}
		all.Wait()
		defer func() { done <- failed }()
		svc.Claims.UnpinIn(ctx, group, gone)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
