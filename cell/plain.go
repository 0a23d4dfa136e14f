package cell

import (
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// ServerOptions are those of a server that a cell registers with.
func ServerOptions() []grpc.ServerOption { return []grpc.ServerOption{rpc.Plain(plain)} }

// Limits of cell.proto on queries and decisions, and limits on the total of many.
const (
	plainQueries    = 4096
	plainPlacements = 1000
	plainConsumers  = 1000
	plainUUID       = 36
	plainVersion    = 64
	plainTrace      = 256
	plainBounds     = 256
	plainGroupHosts = 65536
	plainHost       = 255
	plainDecided    = 1000
	plainTerms      = 4096
	plainTerm       = 2048
	plainBody       = 2 << 20
)

// plain reports whether a request certainly keeps the rules of cell.proto and is not too large. If it
// returns false, the request may still be valid.
func plain(req any) bool {
	switch m := req.(type) {
	case *cellv1.ProposeBatchRequest:
		return plainProposals(m)
	case *cellv1.ClaimBatchRequest:
		return plainClaims(m)
	case *cellv1.PutDecisionsRequest:
		return plainDecisions(m)
	}
	return false
}

func plainProposals(m *cellv1.ProposeBatchRequest) bool {
	if len(m.GetQueries()) < 1 || len(m.GetQueries()) > plainQueries {
		return false
	}
	size := 0
	for _, q := range m.GetQueries() {
		k := q.GetKnown()
		if len(q.GetPlacement()) < 1 || len(q.GetTentativePlacements()) > plainPlacements || len(q.GetConsumerUuids()) > plainConsumers ||
			len(q.GetTableVersion()) > plainVersion || len(q.GetTraceParent()) > plainTrace ||
			len(k.GetBounds()) > 2*plainBounds || len(k.GetGroupHosts()) > plainGroupHosts {
			return false
		}
		// An upper bound of all fields of fixed size and all tags and lengths.
		const fixed, item = 512, 16
		size += fixed + len(q.GetPlacement()) + item*len(k.GetBounds())
		for _, t := range q.GetTentativePlacements() {
			size += 4*item + len(t.GetHostUuid()) + len(t.GetInstanceUuid())
		}
		for _, text := range q.GetConsumerUuids() {
			if len(text) > plainUUID {
				return false
			}
			size += item + len(text)
		}
		for _, host := range k.GetGroupHosts() {
			if len(host) > plainHost {
				return false
			}
			size += item + len(host)
		}
	}
	return size <= rpc.MaxMessageBytes
}

// plainDecisions is plain for decisions with fewer terms than cell.proto allows.
func plainDecisions(m *cellv1.PutDecisionsRequest) bool {
	for _, d := range m.GetDecisions() {
		if len(d.GetDecisionId()) > plainName || len(d.GetBody()) > plainBody || len(d.GetTerms()) > plainTerms {
			return false
		}
		for _, term := range d.GetTerms() {
			if len(term) > plainTerm {
				return false
			}
		}
	}
	n := len(m.GetDecisions())
	return n >= 1 && n <= plainDecided && proto.Size(m) <= rpc.MaxMessageBytes
}

// These are lower than the limits of cell.proto, but usual operations stay below them.
const (
	plainOps         = 256
	plainID          = 64
	plainName        = 255
	plainAllocations = 32
	plainAnswer      = 4 << 10
	// plainOp is an upper bound of the size of one such operation, in bytes.
	plainOp = 32 << 10
)

// plainClaims is plain for claims without a group whose guests have no devices or images, and for
// operations that end or confirm a claim.
func plainClaims(m *cellv1.ClaimBatchRequest) bool {
	if n := len(m.GetOps()); n < 1 || n > min(plainOps, rpc.MaxMessageBytes/plainOp) {
		return false
	}
	for _, op := range m.GetOps() {
		ok := false
		switch op := op.GetOp().(type) {
		case *cellv1.ClaimOp_Claim:
			ok = plainClaim(op.Claim)
		case *cellv1.ClaimOp_Confirm:
			ok = plainRef(op.Confirm)
		case *cellv1.ClaimOp_Release:
			ok = plainRef(op.Release)
		case *cellv1.ClaimOp_TakeOver:
			ok = plainRef(op.TakeOver)
		}
		if !ok {
			return false
		}
	}
	return true
}

func plainClaim(c *cellv1.NewClaim) bool {
	if c.GetGroup() != nil || c.GetTtl() == nil || len(c.GetAllocations()) > plainAllocations || !plainGuest(c.GetGuest()) {
		return false
	}
	for _, a := range c.GetAllocations() {
		if len(a.GetProviderUuid()) > plainUUID || len(a.GetResourceClass()) > plainName {
			return false
		}
	}
	return plainText(c.GetClaimId(), 1, plainID) && rpc.IsUUID(c.GetConsumerUuid()) && rpc.IsUUID(c.GetHostUuid()) &&
		plainText(c.GetProjectId(), 0, plainName) && plainText(c.GetUserId(), 0, plainName) && plainText(c.GetRequestId(), 0, plainName) &&
		plainText(c.GetDecisionId(), 0, plainName) && plainText(c.GetMovesClaimId(), 0, plainID) && plainText(c.GetMovesCell(), 0, plainName) &&
		plainText(c.GetAttempt(), 0, plainID) && len(c.GetFingerprint()) <= plainID && len(c.GetAnswer()) <= plainAnswer
}

func plainGuest(g *cellv1.Guest) bool {
	return len(g.GetFlavorId()) <= plainName && g.GetImage() == nil && g.GetNuma() == nil && len(g.GetPciRequests()) == 0 && g.GetNetworks() == nil
}

func plainRef(r *cellv1.ClaimRef) bool {
	return plainText(r.GetClaimId(), 1, plainID) && rpc.IsUUID(r.GetConsumerUuid()) && plainText(r.GetAttempt(), 0, plainID)
}

// plainText checks the number of bytes: there are at most as many characters.
func plainText(text string, least, most int) bool { return len(text) >= least && len(text) <= most }
