package simulation

import (
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// said is what a stream of an agent has carried, at the replica's end.
type said struct {
	// epoch is of the newest Resync that was sent; over are the states that came after it
	// and are of an epoch before, by version.
	epoch uint64
	over  map[uint64]bool
	// accepted is when the first state was; told: the agent was told which claims there are.
	accepted time.Time
	told     bool
}

// recordReport takes what an agent says.
func (s *said) recordReport(w *world, r *agentv1.ReportRequest) {
	version, epoch := r.GetFullState().GetVersion(), r.GetFullState().GetEpoch()
	switch {
	case r.GetDelta() != nil:
		version, epoch = r.GetDelta().GetVersion(), r.GetDelta().GetEpoch()
	case r.GetFullState() == nil:
		return
	}
	delete(s.over, version)
	if epoch < s.epoch {
		if s.over == nil {
			s.over = map[uint64]bool{}
		}
		s.over[version] = true
		w.count("a state came of an epoch that is over")
	}
}

// answered takes what a replica says: a state of an epoch that is over is not accepted, and
// an agent is told which claims there are at the moment when its first state is.
func (s *said) answered(w *world, host string, r *agentv1.ReportResponse) {
	s.epoch = max(s.epoch, r.GetResync().GetEpoch())
	if a := r.GetAccepted(); a != nil {
		if s.over[a.GetVersion()] {
			w.wrong("host %s was told to start over, and version %d, from before, is accepted", host, a.GetVersion())
		}
		if s.accepted.IsZero() {
			s.accepted = time.Now()
		}
	}
	if r.GetClaimSet() != nil && !s.told {
		s.told = true
		w.checks.checked()
		if !s.accepted.IsZero() && time.Now().After(s.accepted) {
			w.wrong("host %s is told which claims there are %v after its stream began", host, time.Since(s.accepted))
		}
	}
}
