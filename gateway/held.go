package gateway

import (
	"bytes"
	"crypto/sha256"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// held is a live claim that a consumer of the request has already.
type held struct {
	cell   int
	claim  *cellgatev1.Claim
	origin *cellv1.ClaimOrigin
}

func heldIn(cell int, p *cellv1.Proposal) []held {
	var out []held
	for i, c := range p.GetClaims() {
		h := held{cell: cell, claim: c, origin: &cellv1.ClaimOrigin{}}
		if i < len(p.GetClaimOrigins()) {
			h.origin = p.GetClaimOrigins()[i]
		}
		out = append(out, h)
	}
	return out
}

// fingerprintOf names everything of a request but its id.
func fingerprintOf(req *cellgatev1.SelectDestinationsRequest) ([]byte, error) {
	r := proto.CloneOf(req)
	r.RequestId = ""
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the request cannot be marshalled")
	}
	sum := sha256.Sum256(text)
	return sum[:], nil
}

// keep takes over the claims that this very request made before. Any other
// claim of its consumers is an error: of the request id when it was used for
// another request, else of the consumer.
func (s *selecting) keep(claims []held) error {
	for _, h := range claims {
		index, ok := s.indexOf(h.claim.GetConsumerUuid())
		if !ok {
			return fault.New(fault.Internal, "cell %s names a claim of consumer %s, which was not asked for", s.g.cells[h.cell].cfg.Name, h.claim.GetConsumerUuid())
		}
		if s.places[index] != nil {
			continue // claimed in two cells: the first counts, the other's lease ends
		}
		id := s.req.GetRequestId()
		if id == "" || h.claim.GetRequestId() != id {
			return fault.New(fault.AlreadyExists, "instance %s has a claim already: %s in cell %s",
				h.claim.GetConsumerUuid(), h.claim.GetClaimId(), s.g.cells[h.cell].cfg.Name)
		}
		if !bytes.Equal(h.origin.GetFingerprint(), s.fingerprint) {
			return fault.Invalid("request_id", "%q was used before for a different request", id)
		}
		answer := &cellgatev1.Destinations{}
		if err := proto.Unmarshal(h.origin.GetAnswer(), answer); err != nil || answer.GetSelected() == nil {
			return fault.Wrap(fault.Internal, err, "the stored answer of claim %s cannot be read", h.claim.GetClaimId())
		}
		s.places[index] = &place{cell: h.cell, answer: answer, claim: h.claim, kept: true}
		if s.decision == "" {
			s.decision = h.claim.GetDecisionId()
		}
	}
	return nil
}

func (s *selecting) indexOf(consumer string) (int, bool) {
	for i, id := range s.instances {
		if id.String() == consumer {
			return i, true
		}
	}
	return 0, false
}
