package selection

import (
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// setOperation reads what the request is for. rebuild: Nova's hint says that it
// is a rebuild, which is how Nova's conductor asks for one.
func (s *selection) setOperation(rebuild bool) error {
	s.operation = s.req.GetOperation()
	switch {
	case rebuild && s.operation == cellgatev1.Operation_OPERATION_UNSPECIFIED:
		s.operation = cellgatev1.Operation_REBUILD
	case rebuild && s.operation != cellgatev1.Operation_REBUILD:
		return fault.Invalid("operation", "is %s, but the hint _nova_check_type says rebuild", s.operation)
	case s.operation == cellgatev1.Operation_OPERATION_UNSPECIFIED:
		s.operation = cellgatev1.Operation_BUILD
	}
	if n := len(s.instances); n != 1 && (s.moves() || s.rebuilds()) {
		return fault.Invalid("instance_uuids", "has %d; %s is for exactly one instance", n, s.operation)
	}
	return nil
}

// moves reports whether the instance exists and goes to a host where it is
// claimed besides what it holds already.
func (s *selection) moves() bool {
	switch s.operation {
	case cellgatev1.Operation_MOVE, cellgatev1.Operation_EVACUATE, cellgatev1.Operation_LIVE_MIGRATE:
		return true
	}
	return false
}

// leavesHost reports whether the host that the instance is on is no choice.
func (s *selection) leavesHost() bool {
	return s.operation == cellgatev1.Operation_EVACUATE || s.operation == cellgatev1.Operation_LIVE_MIGRATE
}

// rebuilds reports whether the instance stays where it is.
func (s *selection) rebuilds() bool { return s.operation == cellgatev1.Operation_REBUILD }

// moving is the instance that is being moved, where that bears on the choice of
// host: in a server group. Zero otherwise, so that moves of one shape are alike.
func (s *selection) moving() schedule.ID {
	if !s.moves() || s.request.Group == nil {
		return schedule.ID{}
	}
	return s.instances[0]
}

// claims reports whether what is chosen is claimed.
func (s *selection) claims() bool { return !s.dryRun && !s.rebuilds() }

// asksForClaims reports whether the claims that the instances hold matter: to
// keep them or to be refused, or to move away from them.
func (s *selection) asksForClaims() bool { return s.claims() || s.moves() }
