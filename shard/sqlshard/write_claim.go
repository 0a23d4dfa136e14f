package sqlshard

import (
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// claimRows writes claims, each to the table of live or of ended claims, and updates the tables that list grouped and
// transferred claims.
func (w *writes) claimRows(claims []keyedClaim) {
	var made, changed, ended []keyedClaim
	var gone, back []string
	for _, c := range claims {
		old := w.before.claims[c.ClaimID]
		switch live := old != nil && old.State.Live(); {
		case !c.State.Live():
			ended = append(ended, c)
			if live {
				gone = append(gone, c.key)
			}
		case live:
			changed = append(changed, c)
		default:
			made = append(made, c)
			if old != nil {
				back = append(back, c.key)
			}
		}
	}
	w.claimTable(insertClaims, made)
	w.claimTable(putClaims, changed)
	w.queueKeys(deleteClaims, gone)
	w.claimTable(putEnded, ended)
	w.queueKeys(deleteEnded, back)
	w.lists(claims)
}

func (w *writes) claimTable(sql string, rows []keyedClaim) {
	if len(rows) == 0 {
		return
	}
	w.queue(sql,
		column(rows, func(c keyedClaim) string { return c.key }),
		column(rows, func(c keyedClaim) string { return c.ConsumerUUID }),
		column(rows, func(c keyedClaim) string { return c.HostUUID }),
		column(rows, func(c keyedClaim) string { return c.ProjectID }),
		column(rows, func(c keyedClaim) string { return slotOf(c.key) }),
		column(rows, timeOf),
		column(rows, func(c keyedClaim) []byte { return c.body }))
}

// timeOf is the end of a PENDING claim's lease, or the time at which an ended claim ended; 0 for others.
func timeOf(c keyedClaim) int64 {
	switch {
	case c.State == shard.Pending:
		return rowcodec.Nanos(c.ExpiresAt)
	case c.State.Live():
		return 0
	}
	return rowcodec.Nanos(c.UpdatedAt)
}

// lists updates the tables that list grouped and transferred claims.
func (w *writes) lists(claims []keyedClaim) {
	for _, t := range []struct {
		insert, remove string
		// name is the name under which a live claim is listed; "" for not listed.
		name func(c *shard.Claim) string
	}{
		{insertMembers, deleteMembers, func(c *shard.Claim) string {
			if c.Group == nil {
				return ""
			}
			return c.Group.UUID
		}},
		{insertTransfers, deleteTransfers, func(c *shard.Claim) string { return c.TransferredFrom }},
	} {
		var added, dropped struct{ names, keys []string }
		for _, c := range claims {
			var then, now string
			if old := w.before.claims[c.ClaimID]; old != nil && old.State.Live() {
				then = t.name(old)
			}
			if c.State.Live() {
				now = t.name(c.Claim)
			}
			if then == now {
				continue
			}
			if then != "" {
				dropped.names, dropped.keys = append(dropped.names, then), append(dropped.keys, c.key)
			}
			if now != "" {
				added.names, added.keys = append(added.names, now), append(added.keys, c.key)
			}
		}
		w.queueKeys(t.remove, dropped.names, dropped.keys)
		w.queueKeys(t.insert, added.names, added.keys)
	}
}
