package sqlshard

import (
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// claimRows writes claims, each to the table of the live or of the ended ones, and the
// tables that list some of them.
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
	w.dropRows(deleteClaims, gone)
	w.claimTable(putEnded, ended)
	w.dropRows(deleteEnded, back)
	w.lists(claims)
}

func (w *writes) dropRows(sql string, keys []string) {
	if len(keys) > 0 {
		w.queue(sql, keys)
	}
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
		column(rows, func(c keyedClaim) []byte { return c.body }))
}

// listed is a row of one of the tables that list some of the claims.
type listed struct {
	// name is a slot, a group or a consumer.
	name     string
	at       int64
	key      string
	consumer string
}

// lists brings the tables that list PENDING, ended, grouped and transferred claims in
// line with the claims.
func (w *writes) lists(claims []keyedClaim) {
	for _, t := range []struct {
		insert, remove string
		// row is the claim's row in the table; ok false for none.
		row func(c *shard.Claim, key string) (r listed, ok bool)
		// timed tables have rows of a slot, a time, the claim and its consumer; the
		// others of a name and the claim.
		timed bool
	}{
		{insertLeases, deleteLeases, func(c *shard.Claim, key string) (listed, bool) {
			return listed{slotOf(key), rowcodec.Nanos(c.ExpiresAt), key, c.ConsumerUUID}, c.State == shard.Pending
		}, true},
		{insertEnds, deleteEnds, func(c *shard.Claim, key string) (listed, bool) {
			return listed{slotOf(key), rowcodec.Nanos(c.UpdatedAt), key, c.ConsumerUUID}, !c.State.Live()
		}, true},
		{insertMembers, deleteMembers, func(c *shard.Claim, key string) (listed, bool) {
			if c.Group == nil {
				return listed{}, false
			}
			return listed{name: c.Group.UUID, key: key}, c.State.Live()
		}, false},
		{insertTransfers, deleteTransfers, func(c *shard.Claim, key string) (listed, bool) {
			return listed{name: c.TransferredFrom, key: key}, c.TransferredFrom != "" && c.State.Live()
		}, false},
	} {
		var add, drop []listed
		for _, c := range claims {
			now, is := t.row(c.Claim, c.key)
			var then listed
			was := false
			if old := w.before.claims[c.ClaimID]; old != nil {
				then, was = t.row(old, c.key)
			}
			if was && is && then == now {
				continue
			}
			if was {
				drop = append(drop, then)
			}
			if is {
				add = append(add, now)
			}
		}
		name := func(l listed) string { return l.name }
		at := func(l listed) int64 { return l.at }
		key := func(l listed) string { return l.key }
		consumer := func(l listed) string { return l.consumer }
		switch {
		case len(drop) > 0 && t.timed:
			w.queue(t.remove, column(drop, name), column(drop, at), column(drop, key))
		case len(drop) > 0:
			w.queue(t.remove, column(drop, name), column(drop, key))
		}
		switch {
		case len(add) > 0 && t.timed:
			w.queue(t.insert, column(add, name), column(add, at), column(add, key), column(add, consumer))
		case len(add) > 0:
			w.queue(t.insert, column(add, name), column(add, key))
		}
	}
}
