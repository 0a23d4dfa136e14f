package reconcile

import (
	"fmt"

	"cellgate/cell/replica"
	"cellgate/shard"
)

// difference names a row that the shard has and the table has not, or the other way
// round. The same difference in two audits is one row that stayed: what is on its way into
// the table, or out of it, is another one the next time.
type difference struct {
	what differing
	// claimID, state and updatedAt (Unix, in ns) are the claim's row that one side lacks.
	claimID   string
	state     shard.ClaimState
	updatedAt int64
}

type differing int

const (
	// hostOther and usageOther are the host's own rows; reportOther is a row that is not
	// what the host's agent reported.
	hostOther differing = iota
	usageOther
	reportOther
	// claimOther is a claim's row that the shard has, claimGone one that the table has.
	claimOther
	claimGone
)

func ofClaim(what differing, c *shard.Claim) difference {
	return difference{what: what, claimID: c.ClaimID, state: c.State, updatedAt: c.UpdatedAt.UnixNano()}
}

// differs is a difference, with what it says to people.
type differs struct {
	difference
	detail string
}

// rowComparison are a host's rows in the table and in the shard: before was read before the
// shard was, after once all that the shard had then has come.
type rowComparison struct {
	host          string
	before, after replica.HostView
	found         *shard.Audited
	// claim is the table's live claim, nil for none.
	claim func(id string) *shard.Claim
}

// differences says what differs. A row that is newer than the shard's is no difference,
// unless it was there before: then the shard lost it.
func (c rowComparison) differences() (list []differs) {
	note := func(d difference, format string, args ...any) {
		list = append(list, differs{difference: d, detail: fmt.Sprintf(format, args...)})
	}
	if c.hostDiffers() {
		note(difference{what: hostOther}, "the row of the host")
	}
	if c.found.Host != nil && c.usageDiffers() {
		note(difference{what: usageOther}, "what is in use on the host")
	}
	was := map[string]*shard.Claim{}
	for _, t := range c.before.Claims {
		was[t.ClaimID] = t
	}
	has := map[string]bool{}
	for _, row := range c.found.Claims {
		has[row.ClaimID] = true
		t := c.claim(row.ClaimID)
		switch {
		case t == nil:
			note(ofClaim(claimOther, row), "claim %s is not in the table", row.ClaimID)
		case t.UpdatedAt.Before(row.UpdatedAt), t.UpdatedAt.Equal(row.UpdatedAt) && was[row.ClaimID] == t && !SameClaim(t, row):
			note(ofClaim(claimOther, row), "claim %s is another in the table", row.ClaimID)
		}
	}
	for _, t := range c.before.Claims {
		if !has[t.ClaimID] && c.claim(t.ClaimID) == t {
			note(ofClaim(claimGone, t), "claim %s is in the table only", t.ClaimID)
		}
	}
	return list
}

func (c rowComparison) hostDiffers() bool {
	h, before, after := c.found.Host, c.before.Row, c.after.Row
	if h == nil {
		return false
	}
	if after == nil || after.Row() == nil {
		return true
	}
	known := after.Row()
	return h.Generation > known.Generation || h.Generation == known.Generation && !shard.SameState(h, known) ||
		before != nil && before.Row() == known && h.Generation < known.Generation
}

// usageDiffers compares what is in use; one that was written anew has come, with a higher
// generation.
func (c rowComparison) usageDiffers() bool {
	u, before, after := c.found.Usage, c.before.Row, c.after.Row
	if after == nil {
		return u != nil
	}
	known := after.Usage
	stayed := before != nil && before.Usage == known
	switch {
	case u == nil:
		return known != nil && stayed
	case known == nil:
		return true
	}
	return u.Generation > known.Generation || u.Generation == known.Generation && !shard.SameUse(u, known) ||
		stayed && u.Generation < known.Generation
}

// SameClaim compares what the rules and the table read of two rows of a claim.
func SameClaim(a, b *shard.Claim) bool {
	return a.ConsumerUUID == b.ConsumerUUID && a.State == b.State && a.HostUUID == b.HostUUID && a.ServiceHost == b.ServiceHost &&
		a.TransferredFrom == b.TransferredFrom && a.Moves == b.Moves && a.Adopted == b.Adopted && a.Seen == b.Seen &&
		a.ExpiresAt.Equal(b.ExpiresAt) && sameAmounts(a.Allocations, b.Allocations)
}
