package selection

import (
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// setOperation sets the request's operation. rebuild is set if Nova's hint says that it is a
// rebuild, which is how Nova's conductor asks for one.
func (s *selection) setOperation(rebuild bool) error {
	s.operation = s.req.GetOperation()
	switch {
	case rebuild && s.operation == cellgatev1.Operation_OPERATION_UNSPECIFIED:
		s.operation = cellgatev1.Operation_REBUILD
	case rebuild && s.operation != cellgatev1.Operation_REBUILD:
		return fault.Invalid("operation", "is %s, but the hint _nova_check_type is rebuild", s.operation)
	case s.operation == cellgatev1.Operation_OPERATION_UNSPECIFIED:
		s.operation = cellgatev1.Operation_BUILD
	}
	if n := len(s.instances); n != 1 && (s.moves() || s.rebuilds()) {
		return fault.Invalid("instance_uuids", "has %d; %s is for exactly one instance", n, s.operation)
	}
	return nil
}

// moves reports whether the instance exists and gets a claim on another host beside the claim
// that it holds.
func (s *selection) moves() bool {
	switch s.operation {
	case cellgatev1.Operation_MOVE, cellgatev1.Operation_EVACUATE, cellgatev1.Operation_LIVE_MIGRATE:
		return true
	}
	return false
}

// leavesHost reports whether the instance's present host is excluded.
func (s *selection) leavesHost() bool {
	return s.operation == cellgatev1.Operation_EVACUATE || s.operation == cellgatev1.Operation_LIVE_MIGRATE
}

// rebuilds reports whether the instance stays where it is.
func (s *selection) rebuilds() bool { return s.operation == cellgatev1.Operation_REBUILD }

// moving gives the instance that is being moved if that affects the choice of hosts, which it
// does in a server group. It is zero otherwise, so that equal moves have equal shapes.
//
// A BUILD of Nova may be a resize whose migration holds the former claim. Under anti-affinity
// its own host passes, as in Nova; a new instance is on no host.
func (s *selection) moving() schedule.ID {
	g := s.request.Group
	resize := s.req.GetNovaRequestSpec() != nil && len(s.instances) == 1
	if g == nil || !s.moves() && !(resize && g.Policy == schedule.AntiAffinity) {
		return schedule.ID{}
	}
	return s.instances[0]
}

// claims reports whether the request claims its picks.
func (s *selection) claims() bool { return !s.dryRun && !s.rebuilds() }

// asksForClaims reports whether the instances' existing claims matter: to keep them, to
// refuse the request, or to move away from them.
func (s *selection) asksForClaims() bool { return s.claims() || s.moves() }
