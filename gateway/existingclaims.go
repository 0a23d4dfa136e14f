package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// existingClaim is a live claim that a consumer of the request has already.
type existingClaim struct {
	cell   int
	claim  *cellgatev1.Claim
	origin *cellv1.ClaimOrigin
}

func existingClaimsIn(cell int, p *cellv1.Proposal) []existingClaim {
	var out []existingClaim
	for i, c := range p.GetClaims() {
		h := existingClaim{cell: cell, claim: c, origin: &cellv1.ClaimOrigin{}}
		if i < len(p.GetClaimOrigins()) {
			h.origin = p.GetClaimOrigins()[i]
		}
		out = append(out, h)
	}
	return out
}

// fingerprintOf names everything of a request but its id. The spelling of the
// instances' and the group's uuids does not count.
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

// spellAlike writes each uuid in the canonical form; other texts stay.
func spellAlike(texts []string) {
	for i, t := range texts {
		texts[i] = cellclient.Canonical(t)
	}
}

// takeOver takes over the claims that this very request made before (takeOverAll). Any other
// claim of its consumers is an error: of the request id when it was used for
// another request, else of the consumer. A move notes its source instead.
//
// Of several claims of one consumer the one that stands is kept (compareHeld); the
// others, when this request made them, are given back once it is.
func (s *selection) takeOver(ctx context.Context, claims []existingClaim) error {
	if s.moves() {
		var err error
		if claims, err = s.takeSource(claims); err != nil {
			return err
		}
	}
	index := make(map[string]int, len(s.instances))
	for i, id := range s.instances {
		index[id.String()] = i
	}
	slices.SortStableFunc(claims, compareHeld)
	first := make(map[int]bool, len(claims))
	var own, more []ownClaim
	for _, h := range claims {
		index, ok := index[h.claim.GetConsumerUuid()]
		if !ok {
			return fault.New(fault.Internal, "cell %s names a claim of consumer %s, which was not asked for", s.g.cells.All[h.cell].Name(), h.claim.GetConsumerUuid())
		}
		id := s.req.GetRequestId()
		if first[index] || s.places[index] != nil {
			more = append(more, ownClaim{existingClaim: h, index: index})
			continue
		}
		first[index] = true
		if id == "" || h.claim.GetRequestId() != id {
			return s.inTheWay(h)
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
		case confirmedApart(kept.claim, k.claim):
			s.g.twoConfirmed(ctx, kept.claim, k.claim)
		default:
			s.giveBack(ctx, k.existingClaim)
		}
	}
	return nil
}

// giveBack releases a second claim that this request made for an instance, in
// the background, unless another attempt keeps it meanwhile; its lease ends anyway. A
// confirmed one is only reported: which of two is right, no gateway knows.
func (s *selection) giveBack(ctx context.Context, h existingClaim) {
	c := s.g.cells.All[h.cell]
	if h.claim.GetState() == cellgatev1.ClaimState_CONFIRMED || h.claim.GetRequestId() != s.req.GetRequestId() {
		s.g.log.WarnContext(ctx, "an instance has claims in two cells", "instance", h.claim.GetConsumerUuid(),
			"claim", h.claim.GetClaimId(), "cell", c.Name(), "state", h.claim.GetState().String())
		return
	}
	g, ref := s.g, &cellv1.ClaimRef{
		ClaimId: h.claim.GetClaimId(), ConsumerUuid: h.claim.GetConsumerUuid(), PendingOnly: true, Attempt: h.origin.GetAttempt(),
	}
	g.cells.Background(ctx, func(ctx context.Context) {
		// Logged there; the lease catches what is left.
		_, _ = g.release(ctx, c, []*cellv1.ClaimRef{ref})
	})
}
