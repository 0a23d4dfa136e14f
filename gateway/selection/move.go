package selection

import (
	"slices"
	"strings"

	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// hasForeignClaims reports whether cells named a claim that the request does not know of
// yet: any but the source of a move.
func (s *selection) hasForeignClaims(claims []existingClaim) bool {
	return slices.ContainsFunc(claims, func(h existingClaim) bool { return !s.isSource(h) })
}

func (s *selection) isSource(h existingClaim) bool {
	return s.source != nil && h.claim.GetClaimId() == s.source.claim.GetClaimId()
}

// takeSource takes the claim that a move leaves out of the claims its instance
// holds, and gives this request's own ones, which are to be kept. The instance's
// claim by any other request is the source; there is no source when its holder is
// another consumer by now (Nova's migrations), or, of an evacuation, its cell does
// not answer: then no host of that cell can be chosen either.
//
// What cannot be moved from is ALREADY_EXISTS: a claim that is itself a move under
// way, and a second claim besides the source.
func (s *selection) takeSource(existing []existingClaim) (own []existingClaim, err error) {
	var others []existingClaim
	for _, h := range existing {
		if id := s.req.GetRequestId(); id != "" && h.claim.GetRequestId() == id {
			own = append(own, h)
			continue
		}
		others = append(others, h)
	}
	if len(own) > 0 {
		return own, nil
	}
	// One that was known, in a cell that was not asked again, is still there.
	if s.source != nil && !slices.ContainsFunc(others, s.isSource) && !slices.Contains(s.askable(), s.source.cell) {
		others = append(others, *s.source)
	}
	slices.SortStableFunc(others, func(a, b existingClaim) int { return claims.CompareClaims(a.claim, b.claim) })
	for i, h := range others {
		pendingMove := h.claim.GetMovesClaimId() != "" && h.claim.GetState() == cellgatev1.ClaimState_PENDING
		if i > 0 || pendingMove {
			return nil, s.inTheWay(h)
		}
	}
	s.source = &others[0]
	if s.leavesHost() {
		s.leave(s.source.claim.GetServiceHost())
	}
	return nil, nil
}

// sourceVisible refuses to move an instance that shows no claim while a cell that
// may hold it has not answered: the claim would stand beside the new one for ever.
// Where the request names the instance's cell as Nova's conductor does, in
// requested_destination, only that cell must answer. An evacuation goes on: its
// cell may be dead.
func (s *selection) sourceVisible() error {
	if !s.moves() || s.source != nil || s.operation == cellgatev1.Operation_EVACUATE {
		return nil
	}
	own := ""
	if d := s.request.Destination; d != nil {
		own = d.Cell
	}
	var missing []string
	for i, c := range s.svc.cells.All {
		if !s.cells[i].answered && (own == "" || c.UUID() == own) {
			missing = append(missing, c.Name())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fault.New(fault.CellUnavailable, "the claim that instance %s holds may be in cells that do not answer: %s",
		s.instances[0], strings.Join(missing, ", ")).With("cells", strings.Join(missing, ","))
}

// leave makes a host no choice of the request.
func (s *selection) leave(host string) {
	without := func(r *schedule.Request) *schedule.Request {
		out := *r
		if !slices.Contains(out.IgnoreHosts, host) {
			out.IgnoreHosts = append(slices.Clip(out.IgnoreHosts), host)
		}
		return &out
	}
	narrowed := s.request != s.originalRequest
	s.originalRequest = without(s.originalRequest)
	if !narrowed {
		s.request = s.originalRequest
		return
	}
	s.request = without(s.request)
}

// inTheWay is the error of a claim that the request may neither keep nor move. Whoever knows of
// what made the claim can tell by its request id whether that still goes on.
func (s *selection) inTheWay(h existingClaim) error {
	c := s.svc.cells.All[h.cell].Name()
	return fault.New(fault.AlreadyExists, "instance %s has a claim already: %s in cell %s",
		h.claim.GetConsumerUuid(), h.claim.GetClaimId(), c).
		With("consumer_uuid", h.claim.GetConsumerUuid()).With("claim_id", h.claim.GetClaimId()).With("cell", c).
		With("claim_state", h.claim.GetState().String()).With("claim_request_id", h.claim.GetRequestId())
}

// markMove writes into a new claim what it replaces.
func (s *selection) markMove(n *cellv1.NewClaim) {
	if s.source != nil {
		n.MovesClaimId, n.MovesCell = s.source.claim.GetClaimId(), s.svc.cells.All[s.source.cell].Name()
	}
}
