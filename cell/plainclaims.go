package cell

import (
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Less than cell.proto allows of each, but more than usual operations have.
const (
	plainOps         = 256
	plainID          = 64
	plainName        = 255
	plainAllocations = 32
	plainAnswer      = 4 << 10
	// plainOp is more than what an operation of such fields takes, in bytes.
	plainOp = 32 << 10
)

// plainClaims is plain for claims outside groups, of guests without devices or images,
// and for what ends or confirms a claim.
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
		case *cellv1.ClaimOp_Keep:
			ok = plainRef(op.Keep)
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

// plainText: as many bytes, so no more characters.
func plainText(text string, least, most int) bool { return len(text) >= least && len(text) <= most }
