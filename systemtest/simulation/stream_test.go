package simulation

import (
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// carried is what an agent's stream has carried, as seen by the replica.
type carried struct {
	// epoch is the epoch of the newest Resync that was sent. over are the versions that arrived
	// afterwards with an earlier epoch.
	epoch uint64
	over  map[uint64]bool
	// accepted is when the first state was accepted. told: the agent has got the set of its claims.
	accepted  time.Time
	delivered bool
}

// recordReport records a message of the agent.
func (s *carried) recordReport(w *world, r *agentv1.ReportRequest) {
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

// answered checks a message of the replica. A state of an earlier epoch must not be accepted. The
// agent must get its set of claims at the moment when its first state is accepted.
func (s *carried) answered(w *world, host string, r *agentv1.ReportResponse) {
	s.epoch = max(s.epoch, r.GetResync().GetEpoch())
	if a := r.GetAccepted(); a != nil {
		if s.over[a.GetVersion()] {
			w.wrong("host %s was told to start over, and version %d, from before, is accepted", host, a.GetVersion())
		}
		if s.accepted.IsZero() {
			s.accepted = time.Now()
		}
	}
	if r.GetClaimSet() != nil && !s.delivered {
		s.delivered = true
		w.checks.checked()
		if !s.accepted.IsZero() && time.Now().After(s.accepted) {
			w.wrong("host %s is told which claims there are %v after its stream began", host, time.Since(s.accepted))
		}
	}
}
