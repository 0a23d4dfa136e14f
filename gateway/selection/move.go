package selection

import (
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// hasForeignClaims reports whether cells named a claim other than the known source of a move.
func (s *selection) hasForeignClaims(claims []existingClaim) bool {
	return slices.ContainsFunc(claims, func(h existingClaim) bool { return !s.isSource(h) })
}

func (s *selection) isSource(h existingClaim) bool {
	return s.source != nil && h.claim.GetClaimId() == s.source.claim.GetClaimId()
}

// takeSource separates the source of a move from the claims that its instance holds, and
// returns the claims that this request made before, which are to be kept. A dry run keeps
// none. The instance's claim by any other request is the source. There is no source if the
// claim now belongs to another consumer (Nova's migrations). Nor is there one for an
// evacuation whose cell does not answer: then no host of that cell can be chosen either.
//
// ALREADY_EXISTS is the error for a claim that is itself a pending move, and for a second
// claim besides the source.
func (s *selection) takeSource(existing []existingClaim) (own []existingClaim, err error) {
	var others []existingClaim
	for _, h := range existing {
		if id := s.req.GetRequestId(); s.claims() && id != "" && h.claim.GetRequestId() == id {
			own = append(own, h)
			continue
		}
		others = append(others, h)
	}
	if len(own) > 0 {
		// If the own claim's cell does not keep it, the request goes on without that cell.
		if i := slices.IndexFunc(others, func(h existingClaim) bool { return h.claim.GetClaimId() == own[0].claim.GetMovesClaimId() }); i >= 0 {
			s.setSource(others[i])
		}
		return own, nil
	}
	// A known source in a cell that is not asked again is still there.
	if s.source != nil && !slices.ContainsFunc(others, s.isSource) && !slices.Contains(s.askable(), s.source.cell) {
		others = append(others, *s.source)
	}
	slices.SortStableFunc(others, func(a, b existingClaim) int { return claims.CompareClaims(a.claim, b.claim) })
	for i, h := range others {
		pendingMove := h.claim.GetMovesClaimId() != "" && h.claim.GetState() == cellgatev1.ClaimState_PENDING
		if i > 0 || pendingMove {
			return nil, s.claimConflict(h)
		}
	}
	s.setSource(others[0])
	return nil, nil
}

// setSource records the source of a move, and excludes its host if the instance must leave it.
func (s *selection) setSource(h existingClaim) {
	s.source = &h
	if s.leavesHost() {
		s.excludeHost(h.claim.GetServiceHost())
	}
}

// sourceVisible refuses to move an instance without a known claim while a cell that may hold
// it has not answered: that claim would stay beside the new one. If the request names the
// instance's cell in requested_destination, as Nova's conductor does, only that cell must
// answer. An evacuation goes on, since its cell may be dead.
func (s *selection) sourceVisible() error {
	if !s.moves() || s.source != nil || s.operation == cellgatev1.Operation_EVACUATE {
		return nil
	}
	own := ""
	if d := s.request.Destination; d != nil {
		own = d.Cell
	}
	var missing cellclient.Missing
	for i, c := range s.svc.Cells.All {
		if !s.cells[i].answered && (own == "" || c.UUID() == own) {
			missing.Add(c, nil)
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	return missing.Fault("the claim that instance %s holds may be in cells that do not answer", s.instances[0])
}

// excludeHost excludes a host from the request.
func (s *selection) excludeHost(host string) {
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

// claimConflict gives the error of a claim that the request may neither keep nor move. Its
// claim_request_id lets the caller find out whether the request that made the claim still runs.
func (s *selection) claimConflict(h existingClaim) error {
	c := s.svc.Cells.All[h.cell].Name()
	return fault.New(fault.AlreadyExists, "instance %s has a claim already: %s in cell %s",
		h.claim.GetConsumerUuid(), h.claim.GetClaimId(), c).
		With("consumer_uuid", h.claim.GetConsumerUuid()).With("claim_id", h.claim.GetClaimId()).With("cell", c).
		With("claim_state", h.claim.GetState().String()).With("claim_request_id", h.claim.GetRequestId())
}

// markMove sets which claim a new claim replaces.
func (s *selection) markMove(n *cellv1.NewClaim) {
	if s.source != nil {
		n.MovesClaimId, n.MovesCell = s.source.claim.GetClaimId(), s.svc.Cells.All[s.source.cell].Name()
	}
}
