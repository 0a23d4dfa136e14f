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
	// maxSpread is among how many of the best hosts a request chooses at most,
	// to get out of others' way.
	maxSpread = 32
	// pauseStep is how much the longest pause grows with each lost race, up to
	// maxPause.
	pauseStep = 2 * time.Millisecond
	maxPause  = 50 * time.Millisecond
	// maxRestarts is how often a request that was narrowed to a pinned host is
	// planned again without, and bounds the pauses of all that start over.
	maxRestarts = 8
)

// spread is among how many of the best hosts each pick is chosen: one, as Nova
// does, until a race is lost; then 2, 4, 8 and so on. Everybody who lost the
// same race sees the same next best host, so without it one request wins a round
// and all the others meet again. While requests of the shape lose races, it is more
// from the start (contention.go).
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

// widen takes the width of the request's shape, for the plan that is made now.
func (s *selection) widen(key shape) {
	s.shape, s.width = key, 1
	if !s.svc.cfg.KeepOrder {
		s.width = s.svc.shapes.width(key, s.svc.now())
	}
}

// recordContention tells what became of claims: those made, and those whose host another request
// was given first.
func (s *selection) recordContention(placed, refused int) {
	s.svc.shapes.recordClaims(s.shape, s.svc.now(), placed, refused)
	s.svc.tel.Raced(placed, refused)
}

// planAlternates is how many alternates the merge is to find.
func (s *selection) planAlternates() int { return max(s.alternates, s.spread()-1) }

// spreadPicks replaces each pick by one of the first n of its cell's list, chosen by
// the request's seed, and leaves the alternates that the caller asked for. A host
// is not chosen twice.
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
			s.svc.tel.Spread()
		} else {
			list = list[1:]
		}
		p.Alternates = list
	}
	// Only now is it known what every instance got: no alternate is a pick.
	for i := range m.result.Picks {
		p := &m.result.Picks[i]
		free := slices.DeleteFunc(slices.Clone(p.Alternates), func(c schedule.Candidate) bool { return taken[c.Host] && n > 1 })
		p.Alternates = free[:min(s.alternates, len(free))]
	}
}

// backOff waits a little after a lost race, longer the more were lost.
func (s *selection) backOff(ctx context.Context) error {
	return cellclient.Pause(ctx, rand.N(min(time.Duration(s.losses)*pauseStep, maxPause)))
}

// startOver gives back what this call claimed, when it found no host for the
// rest: of several requests that hold a part each and wait for the other's, one
// then gets all. Hosts passed for everything before it claimed that part, so it
// may go on until the deadline. A request that holds nothing but was narrowed to
// the host that another one pinned is planned again some times: the other may
// lose its race there and let go. It reports false when neither is so.
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
	// What is found of it after all is kept by another attempt than gave it back.
	s.attemptID = ""
	s.restarts++
	s.svc.tel.Restarted()
	s.request = s.originalRequest
	return true, cellclient.Pause(ctx, rand.N(time.Duration(min(s.restarts, maxRestarts))*maxPause))
}

// outOfTime reports whether what is left of the request's time is too little for
// another attempt that takes as long as the last one did: a step may take half
// of the time left (share), and a cell that is cut off by that is not at fault.
func (s *selection) outOfTime(ctx context.Context, last time.Duration) bool {
	until, ok := ctx.Deadline()
	return ok && s.losses > 0 && time.Until(until) < 4*last
}

// contended says that hosts pass but the time was over before one could be
// claimed; nil when no race was lost.
func (s *selection) contended() error {
	if s.losses == 0 {
		return nil
	}
	return fault.New(fault.Contended, "hosts pass, but all %d attempts to claim them in the time there was lost to other requests", s.losses)
}
