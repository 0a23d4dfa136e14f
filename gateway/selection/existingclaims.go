package selection

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// confirmedVisible refuses to claim for a request of which earlier claims were confirmed,
// while a cell that has one of them does not answer: the new claim could be confirmed too,
// and both would last.
func (s *selection) confirmedVisible() error {
	if !s.claims() {
		return nil
	}
	cells := s.svc.Claims.ConfirmedIn(s.req.GetRequestId(), s.fingerprint)
	var missing cellclient.Missing
	for i, c := range s.svc.Cells.All {
		if !s.cells[i].answered && slices.Contains(cells, c) {
			missing.Add(c, nil)
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	return missing.Fault("request_id %q: claims of this request are confirmed in cells that do not answer", s.req.GetRequestId())
}

// heldElsewhere asks the enabled cells that routing left out for live claims of the
// consumers: a cell that cannot hold the request may hold an earlier claim. A move also asks
// the disabled ones, since instances are moved away from them.
//
// It asks once per request. The function that it returns waits for the answers, returns each
// claim once, and sets m.staleClaims. A cell that does not answer is ignored (docs/adr/0005),
// unless the request may not go on without it (incompleteSearch): then the function returns that
// error.
func (s *selection) heldElsewhere(ctx context.Context, m *merged, pending []int, placement []byte) func() ([]existingClaim, error) {
	if s.askedSkippedCells || !s.asksForClaims() {
		return func() ([]existingClaim, error) { return nil, nil }
	}
	s.askedSkippedCells = true
	instances := make([]schedule.ID, 0, len(pending))
	for _, i := range pending {
		instances = append(instances, s.instances[i])
	}
	query := &cellv1.Query{Placement: placement, Limit: 1, ConsumerUuids: wire.IDTexts(instances), UpToDate: s.upToDate}
	var lock sync.Mutex
	stale := false
	var found []existingClaim
	var answered []int
	var missed error
	var all sync.WaitGroup
	for i, c := range s.svc.Cells.All {
		if s.cells[i].skip == "" || c.Disabled() && !s.moves() {
			continue
		}
		all.Go(func() {
			got := s.askCell(ctx, i, cellclient.StepBudget(ctx, c.ProposeBudget()), query, nil)
			p, err := got.Proposal, got.Err
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				s.svc.Log.DebugContext(ctx, "a cell could not be searched for earlier claims", "cell", c.Name(), "error", err)
				missed = cmp.Or(missed, s.incompleteSearch(i, err))
				return
			}
			answered, stale = append(answered, i), stale || p.GetMayBeStale()
			found = append(found, existingClaimsIn(i, p)...)
		})
	}
	return func() ([]existingClaim, error) {
		all.Wait()
		m.staleClaims = m.staleClaims || stale
		for _, i := range answered {
			s.cells[i].answered = true
		}
		out := found
		found = nil
		return out, missed
	}
}

// existingClaim is a live claim that a consumer of the request has already.
type existingClaim struct {
	cell   int
	claim  *cellgatev1.Claim
	origin *cellv1.ClaimOrigin
}

func existingClaimsIn(cell int, p *cellv1.Proposal) []existingClaim {
	var out []existingClaim
	for i, c := range p.GetClaims() {
		if !claims.OnCompute(c) {
			continue
		}
		h := existingClaim{cell: cell, claim: c, origin: &cellv1.ClaimOrigin{}}
		if i < len(p.GetClaimOrigins()) {
			h.origin = p.GetClaimOrigins()[i]
		}
		out = append(out, h)
	}
	return out
}

// fingerprintOf hashes everything of a request except its id. The spelling of uuids does not
// count, nor whether BUILD is given or implied.
func fingerprintOf(req *cellgatev1.SelectDestinationsRequest) ([]byte, error) {
	r := proto.CloneOf(req)
	r.RequestId = ""
	if r.GetOperation() == cellgatev1.Operation_BUILD {
		r.Operation = cellgatev1.Operation_OPERATION_UNSPECIFIED
	}
	spellAlike(r.GetInstanceUuids())
	spec := r.GetRequestSpec()
	if g := spec.GetInstanceGroup(); g != nil {
		g.Uuid = cellclient.Canonical(g.GetUuid())
	}
	for _, set := range spec.GetMemberOf() {
		spellAlike(set.GetAggregates())
	}
	spellAlike(spec.GetForbiddenAggregates())
	if d := spec.GetRequestedDestination(); d != nil {
		d.Cell = cellclient.Canonical(d.GetCell())
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the request cannot be marshalled")
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// spellAlike rewrites each uuid in canonical form; other texts stay.
func spellAlike(texts []string) {
	for i, t := range texts {
		texts[i] = cellclient.Canonical(t)
	}
}

// takeOver takes over the claims that an earlier call of this request made (takeOverAll). Any
// other claim of its consumers is an error: about the request id if it was used for another
// request, else about the consumer's claim. A move records its source instead.
//
// Of several claims of one consumer, takeOver keeps the first by compareHeld. Once that one
// is kept, it releases the others that this request made.
func (s *selection) takeOver(ctx context.Context, existing []existingClaim) error {
	if s.moves() {
		var err error
		if existing, err = s.takeSource(existing); err != nil {
			return err
		}
	}
	index := make(map[string]int, len(s.instances))
	for i, id := range s.instances {
		index[id.String()] = i
	}
	slices.SortStableFunc(existing, compareHeld)
	first := make(map[int]bool, len(existing))
	var own, more []ownClaim
	for _, h := range existing {
		index, ok := index[h.claim.GetConsumerUuid()]
		if !ok {
			return fault.New(fault.Internal, "cell %s names a claim of consumer %s, which was not asked for", s.svc.Cells.All[h.cell].Name(), h.claim.GetConsumerUuid())
		}
		id := s.req.GetRequestId()
		if first[index] || s.places[index] != nil {
			more = append(more, ownClaim{existingClaim: h, index: index})
			continue
		}
		first[index] = true
		if id == "" || h.claim.GetRequestId() != id {
			return s.claimConflict(h)
		}
		if !bytes.Equal(h.origin.GetFingerprint(), s.fingerprint) {
			return fault.Invalid("request_id", "%q was used before for a different request", id)
		}
		answer := &cellgatev1.Destinations{}
		if err := proto.Unmarshal(h.origin.GetAnswer(), answer); err != nil || answer.GetSelected() == nil {
			return fault.Wrap(fault.Internal, err, "the stored answer of claim %s cannot be read", h.claim.GetClaimId())
		}
		own = append(own, ownClaim{existingClaim: h, index: index, answer: answer})
	}
	if err := s.takeOverAll(ctx, own); err != nil {
		return err
	}
	for _, k := range more {
		kept := s.places[k.index]
		switch {
		case kept == nil:
		case claims.ConfirmedApart(kept.claim, k.claim):
			s.svc.Claims.LogDuplicate(ctx, kept.claim, k.claim)
		default:
			s.giveBack(ctx, k.existingClaim)
		}
	}
	return nil
}

// giveBack releases a second claim that this request made for an instance, in the background,
// unless another attempt keeps it meanwhile; otherwise its lease ends. A confirmed one is
// only logged, since no gateway knows which of two is right.
func (s *selection) giveBack(ctx context.Context, h existingClaim) {
	c := s.svc.Cells.All[h.cell]
	if h.claim.GetState() == cellgatev1.ClaimState_CONFIRMED || h.claim.GetRequestId() != s.req.GetRequestId() {
		s.svc.Log.WarnContext(ctx, "an instance has claims in two cells", "instance", h.claim.GetConsumerUuid(),
			"claim", h.claim.GetClaimId(), "cell", c.Name(), "state", h.claim.GetState().String())
		return
	}
	svc, ref := s.svc, &cellv1.ClaimRef{
		ClaimId: h.claim.GetClaimId(), ConsumerUuid: h.claim.GetConsumerUuid(), PendingOnly: true, Attempt: h.origin.GetAttempt(),
	}
	svc.Cells.Background(ctx, func(ctx context.Context) {
		// Release logs a failure; the claim then ends with its lease.
		_, _ = svc.Claims.Release(ctx, c, []*cellv1.ClaimRef{ref})
	})
}
