package claims

import (
	"cmp"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// CompareClaims orders two claims of one consumer; the first one takes precedence. That is
// the source of a move until the move is confirmed; else a confirmed claim; else the one made
// later. The order is the same on every gateway, and two claims are never equal.
func CompareClaims(a, b *cellgatev1.Claim) int {
	confirmed := cellgatev1.ClaimState_CONFIRMED
	first := func(isA bool) int {
		if isA {
			return -1
		}
		return 1
	}
	switch {
	case movesFrom(a, b):
		return first(a.GetState() == confirmed)
	case movesFrom(b, a):
		return first(b.GetState() != confirmed)
	case (a.GetState() == confirmed) != (b.GetState() == confirmed):
		return first(a.GetState() == confirmed)
	}
	return cmp.Or(b.GetCreatedAt().AsTime().Compare(a.GetCreatedAt().AsTime()), cmp.Compare(b.GetClaimId(), a.GetClaimId()))
}

// OnCompute reports whether a claim is on a host with a compute service. A claim on any other root, such as a shared
// storage, is no claim of the place where an instance is (docs/adr/0029).
func OnCompute(c *cellgatev1.Claim) bool { return c.GetServiceHost() != "" }

// Pair reports whether one of two claims of a consumer moves the other.
func Pair(a, b *cellgatev1.Claim) bool { return movesFrom(a, b) || movesFrom(b, a) }

// ConfirmedApart reports whether two claims of a consumer are both confirmed and neither
// moves the other. It is false if one is nil.
func ConfirmedApart(a, b *cellgatev1.Claim) bool {
	confirmed := cellgatev1.ClaimState_CONFIRMED
	return a.GetState() == confirmed && b.GetState() == confirmed && !Pair(a, b)
}

// movesFrom reports whether claim to replaces claim from.
func movesFrom(to, from *cellgatev1.Claim) bool {
	return to.GetMovesClaimId() != "" && to.GetMovesClaimId() == from.GetClaimId()
}

// beside reports whether claim c may be confirmed while other is live: c replaces other, or
// other is a pending move of c.
func beside(c, other *cellgatev1.Claim) bool {
	return movesFrom(c, other) || movesFrom(other, c) && other.GetState() == cellgatev1.ClaimState_PENDING
}
