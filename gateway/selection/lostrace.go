package selection

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/schedule"
)

const (
	// maxSpread bounds how many of the best hosts a request picks among after conflicts.
	maxSpread = 32
	// pauseStep is how much the longest pause grows with each lost race, up to maxPause.
	pauseStep = 2 * time.Millisecond
	maxPause  = 50 * time.Millisecond
	// maxRestarts bounds how often a request that was narrowed to a pinned host is planned
	// again without the pin. It also bounds the pause of every restart.
	maxRestarts = 8
)

// spread is how many of the best hosts each pick is chosen among. It is one, as in Nova,
// until a race is lost; then 2, 4, 8 and so on. All losers of a race see the same next best
// host, so without spread one request wins a round and the others meet again. While requests
// of the shape lose races, it is more than one from the start (contention.go).
func (s *selection) spread() int {
	if hardAffinity(s.request) || !s.claims() {
		return 1
	}
	own := 1
	if s.losses > 0 {
		own = min(1<<min(s.losses, 6), maxSpread)
	}
	return max(own, s.width)
}

// widen sets the width of the request's shape for the coming plan.
func (s *selection) widen(key shape) {
	s.shape, s.width = key, 1
	if !s.svc.KeepOrder {
		s.width = s.svc.shapes.width(key, s.svc.Now())
	}
}

// recordContention records how many claims were made, and how many were refused because another
// request's came first.
func (s *selection) recordContention(placed, refused int) {
	s.svc.shapes.recordClaims(s.shape, s.svc.Now(), placed, refused)
	s.svc.Telemetry.Raced(placed, refused)
}

// planAlternates is how many alternates the merge must find.
func (s *selection) planAlternates() int { return max(s.alternates, s.spread()-1) }

// spreadPicks replaces each pick by one of the first n of its cell's list, chosen by the
// request's seed. It keeps as many alternates as the caller asked for. No host is chosen
// twice.
func (s *selection) spreadPicks(m *merged) {
	n := s.spread()
	random := rand.New(rand.NewPCG(s.seed, uint64(s.losses)))
	taken := map[schedule.ID]bool{}
	for _, p := range m.result.Picks {
		taken[p.Candidate.Host] = true
	}
	for i := range m.result.Picks {
		p := &m.result.Picks[i]
		list := append([]schedule.Candidate{p.Candidate}, p.Alternates...)
		if k := random.IntN(min(n, len(list))); k > 0 && !taken[list[k].Host] {
			p.Candidate = list[k]
			list = append(list[:k:k], list[k+1:]...)
			taken[p.Candidate.Host] = true
			s.noteInexact(telemetry.InexactSpread)
			s.svc.Telemetry.Spread()
		} else {
			list = list[1:]
		}
		p.Alternates = list
	}
	// Only now are all picks known: no alternate may be a pick.
	picked := map[schedule.ID]bool{}
	for _, p := range m.result.Picks {
		picked[p.Candidate.Host] = n > 1
	}
	for i := range m.result.Picks {
		p := &m.result.Picks[i]
		free := slices.DeleteFunc(slices.Clone(p.Alternates), func(c schedule.Candidate) bool { return picked[c.Host] })
		p.Alternates = free[:min(s.alternates, len(free))]
	}
}

// backOff waits after a lost race, on average longer the more races were lost.
func (s *selection) backOff(ctx context.Context) error {
	return cellclient.Pause(ctx, rand.N(min(time.Duration(s.losses)*pauseStep, maxPause)))
}

// startOver releases what this call claimed if it found no host for the rest: of several
// requests that each hold a part and wait for the other's, one then gets all. Hosts passed
// for all instances before the call claimed that part, so it may go on until the deadline.
//
// A request without claims that was narrowed to the host of another request's pin is planned
// again up to maxRestarts times: the other request may lose its race there and release the
// pin. If neither holds, startOver reports false.
func (s *selection) startOver(ctx context.Context) (bool, error) {
	own := false
	for _, p := range s.places {
		own = own || p != nil && !p.fromEarlierCall && p.claim != nil
	}
	narrowed := s.request != s.originalRequest && s.restarts < maxRestarts
	if !own && !narrowed {
		return false, nil
	}
	if err := s.undo(ctx); err != nil {
		return false, err
	}
	for i, p := range s.places {
		if p != nil && !p.fromEarlierCall {
			s.places[i] = nil
		}
	}
	if len(s.pending()) == len(s.places) {
		s.decision = ""
	}
	// A claim that was released, and is found nevertheless, is kept by another attempt than the one that released it.
	s.attemptID = ""
	s.restarts++
	s.svc.Telemetry.Restarted()
	s.request = s.originalRequest
	return true, cellclient.Pause(ctx, rand.N(time.Duration(min(s.restarts, maxRestarts))*maxPause))
}

// outOfTime reports whether the request has too little time for another attempt as long as
// the last one. A step may take half of the remaining time (StepBudget), and a cell that this
// cuts off is not at fault.
func (s *selection) outOfTime(ctx context.Context, last time.Duration) bool {
	until, ok := ctx.Deadline()
	return ok && s.losses > 0 && time.Until(until) < 4*last
}

// contended gives the error that hosts pass, but none could be claimed in time; nil if no
// race was lost.
func (s *selection) contended() error {
	if s.losses == 0 {
		return nil
	}
	return fault.New(fault.Contended, "hosts pass, but all %d attempts to claim them in the time there was lost to other requests", s.losses)
}
