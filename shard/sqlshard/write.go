package sqlshard

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// writes is the write trip of a transaction.
type writes struct {
	store  *Store
	names  *names
	before *picture
	batch  pgx.Batch
}

func (w *writes) queue(sql string, args ...any) { w.batch.Queue(sql, args...) }

// column gives one column of rows, as the array that a statement takes.
func column[R, V any](rows []R, value func(R) V) []V {
	list := make([]V, len(rows))
	for i, r := range rows {
		list[i] = value(r)
	}
	return list
}

// entry queues all that an entry comes to. Rows that stand for others come first, in
// one order: who waits for one of them holds none that comes after it.
func (w *writes) entry(e shard.Entry) error {
	var hosts []*shard.Host
	var usages []*shard.Usage
	var claims []*shard.Claim
	var pins []*shard.Pin
	body := rowcodec.AppendTime(nil, e.At)
	for _, ch := range e.Changes {
		field, row, err := rowcodec.Row(ch)
		if err != nil {
			return err
		}
		body = rowcodec.AppendRow(body, field, row)
		switch {
		case ch.Host != nil:
			hosts = append(hosts, ch.Host)
		case ch.Usage != nil:
			usages = append(usages, ch.Usage)
		case ch.Claim != nil:
			claims = append(claims, ch.Claim)
		default:
			pins = append(pins, ch.Pin)
		}
	}
	slices.SortFunc(hosts, func(a, b *shard.Host) int { return cmp.Compare(a.UUID, b.UUID) })
	slices.SortFunc(usages, func(a, b *shard.Usage) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	slices.SortFunc(claims, func(a, b *shard.Claim) int { return cmp.Compare(keyOf(a.ClaimID), keyOf(b.ClaimID)) })
	slices.SortFunc(pins, func(a, b *shard.Pin) int { return cmp.Compare(a.GroupUUID, b.GroupUUID) })

	w.usageRows(hosts, usages)
	w.guardRows(claims)
	w.pinRows(pins)
	w.claimRows(claims)
	w.hostRows(hosts)
	w.queue(insertEntry, e.Lane.Replica, int64(e.Lane.Life), int64(e.Seq), e.At.UnixNano(), rowcodec.Pack(body))
	w.queue(putLane, e.Lane.Replica, int64(e.Lane.Life), int64(e.Seq))
	return nil
}

// commit sends the write trip, the COMMIT with it. unheard: whether it was done is
// not known; the error says why.
func (w *writes) commit(ctx context.Context, c *pgx.Conn) (unheard bool, err error) {
	w.queue("COMMIT")
	n := w.batch.Len()
	r := c.SendBatch(ctx, &w.batch)
	for i := range n {
		tag, err := r.Exec()
		switch {
		case err == nil && i == n-1 && tag.String() != "COMMIT":
			err = damaged("the server answered a commit with %s", tag.String())
		case err == nil:
			continue
		}
		_ = r.Close() // it has the same error
		// An error that the server sends of a statement before the COMMIT ends the
		// transaction. Any other one leaves it open, unless it says.
		if state(err) != "" && i < n-1 || commitRefused(err) {
			return false, err
		}
		return true, err
	}
	_ = r.Close() // it is committed, whatever became of the connection since
	return false, nil
}

// usageRows writes what is in use, and the rows to lock of new hosts.
func (w *writes) usageRows(hosts []*shard.Host, usages []*shard.Usage) {
	var made, changed []*shard.Usage
	for _, u := range usages {
		if w.before.usages[u.HostUUID] == nil {
			made = append(made, u)
		} else {
			changed = append(changed, u)
		}
	}
	// A registration writes the row to lock too: a transaction that reads as of an
	// earlier moment must fail at it.
	for _, h := range hosts {
		if slices.ContainsFunc(usages, func(u *shard.Usage) bool { return u.HostUUID == h.UUID }) {
			continue
		}
		if u := w.before.usages[h.UUID]; u != nil {
			changed = append(changed, u)
		} else {
			made = append(made, &shard.Usage{HostUUID: h.UUID})
		}
	}
	slices.SortFunc(changed, func(a, b *shard.Usage) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	slices.SortFunc(made, func(a, b *shard.Usage) int { return cmp.Compare(a.HostUUID, b.HostUUID) })
	for i, rows := range [][]*shard.Usage{made, changed} {
		if len(rows) > 0 {
			w.queue([]string{insertHostUsages, putHostUsages}[i],
				column(rows, func(u *shard.Usage) string { return u.HostUUID }),
				column(rows, func(u *shard.Usage) int64 { return u.Generation }),
				column(rows, func(u *shard.Usage) int64 { return int64(u.Pending) }),
				column(rows, func(u *shard.Usage) int64 { return int64(u.Confirmed) }))
		}
	}
	w.amounts(usages)
}

// inUse is a row of usages.
type inUse struct {
	host string
	shard.Used
}

// amounts writes what changed of what is in use. Both lists are in order.
func (w *writes) amounts(usages []*shard.Usage) {
	var put, gone []inUse
	for _, u := range usages {
		var old []shard.Used
		if b := w.before.usages[u.HostUUID]; b != nil {
			old = b.Used
		}
		for _, a := range u.Used {
			if !slices.Contains(old, a) {
				put = append(put, inUse{u.HostUUID, a})
			}
		}
		for _, a := range old {
			if u.Of(a.ProviderUUID, a.ResourceClass) == 0 {
				gone = append(gone, inUse{u.HostUUID, a})
			}
		}
	}
	host := func(u inUse) string { return u.host }
	provider := func(u inUse) string { return u.ProviderUUID }
	class := func(u inUse) string { return u.ResourceClass }
	if len(put) > 0 {
		w.queue(putUsages, column(put, host), column(put, provider), column(put, class), column(put, func(u inUse) int64 { return u.Amount }))
	}
	if len(gone) > 0 {
		w.queue(deleteUsages, column(gone, host), column(gone, provider), column(gone, class))
	}
}

// guardRows writes the rows that stand for a consumer's claims and a group's.
func (w *writes) guardRows(claims []*shard.Claim) {
	consumers, groups := map[string]*shard.Claim{}, map[string]*shard.Claim{}
	for _, c := range claims {
		old := w.before.claims[c.ClaimID]
		if !c.State.Live() || old != nil && old.State.Live() && old.ConsumerUUID == c.ConsumerUUID && old.HostUUID == c.HostUUID {
			continue
		}
		// The rules look at these only where the footprint names them.
		for _, id := range []string{c.Instance(), c.ConsumerUUID} {
			if has(w.names.consumers, id) {
				consumers[id] = c
			}
		}
		if c.Group.Hard() && has(w.names.groups, c.Group.UUID) {
			groups[c.Group.UUID] = c
		}
	}
	for id := range w.names.fill {
		if !w.before.consumers[id] && consumers[id] == nil {
			consumers[id] = &shard.Claim{}
		}
	}
	made, changed := w.split(consumers, w.before.consumers)
	if len(made) > 0 {
		w.queue(insertConsumers, made,
			column(made, func(id string) string { return consumers[id].ProjectID }),
			column(made, func(id string) string { return consumers[id].UserID }))
	}
	if len(changed) > 0 {
		w.queue(putConsumers, changed)
	}
	made, changed = w.split(groups, w.before.groups)
	if len(made) > 0 {
		w.queue(insertGroups, made, column(made, func(id string) string { return groups[id].Group.Policy }))
	}
	if len(changed) > 0 {
		w.queue(putGroups, changed)
	}
}

// split tells the names that have a row from those that do not, each in order.
func (w *writes) split(names map[string]*shard.Claim, there map[string]bool) (made, changed []string) {
	for id := range names {
		if there[id] {
			changed = append(changed, id)
		} else {
			made = append(made, id)
		}
	}
	slices.Sort(made)
	slices.Sort(changed)
	return made, changed
}

func (w *writes) pinRows(pins []*shard.Pin) {
	var made, changed []*shard.Pin
	var gone []string
	for _, p := range pins {
		switch {
		case len(p.Holders) == 0:
			gone = append(gone, p.GroupUUID)
		case w.before.pins[p.GroupUUID] == nil:
			made = append(made, p)
		default:
			changed = append(changed, p)
		}
	}
	for i, rows := range [][]*shard.Pin{made, changed} {
		if len(rows) > 0 {
			w.queue([]string{insertPins, putPins}[i],
				column(rows, func(p *shard.Pin) string { return p.GroupUUID }),
				column(rows, func(p *shard.Pin) string { return p.ServiceHost }),
				column(rows, holdersText))
		}
	}
	if len(gone) > 0 {
		w.queue(deletePins, gone)
	}
}
