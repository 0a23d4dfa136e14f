package sqlshard

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// writes collects the statements of a transaction's write trip.
type writes struct {
	store  *Store
	names  *names
	before *picture
	batch  pgx.Batch
}

func (w *writes) queue(sql string, args ...any) { w.batch.Queue(sql, args...) }

// queueKeys queues a statement on rows with keys, unless there are none. more are the other columns.
func (w *writes) queueKeys(sql string, keys []string, more ...any) {
	if len(keys) > 0 {
		w.queue(sql, append([]any{keys}, more...)...)
	}
}

// column gives one column of rows, as an array parameter.
func column[R, V any](rows []R, value func(R) V) []V {
	list := make([]V, len(rows))
	for i, r := range rows {
		list[i] = value(r)
	}
	return list
}

// entry queues all statements for an entry. Guard rows come first, in one order, so a transaction that waits for one
// of them holds none that comes after it.
func (w *writes) entry(e shard.Entry) error {
	var hosts []encoded[shard.Host]
	var usages []*shard.Usage
	var claims []keyedClaim
	var pins []encoded[shard.Pin]
	var gate []byte
	var namespaces []*shard.Namespace
	var admins []encoded[shard.AdminState]
	var custom []*shard.CustomName
	body := rowcodec.AppendTime(make([]byte, 0, 512*len(e.Changes)), e.At)
	var buf []byte
	for _, ch := range e.Changes {
		longer, field, row, err := rowcodec.Row(buf, ch)
		if err != nil {
			return err
		}
		buf, body = longer, rowcodec.AppendRow(body, field, row)
		switch {
		case ch.Host != nil:
			hosts = append(hosts, encoded[shard.Host]{ch.Host, row})
		case ch.Usage != nil:
			usages = append(usages, ch.Usage)
		case ch.Claim != nil:
			claims = append(claims, keyedClaim{ch.Claim, keyOf(ch.Claim.ClaimID), row})
		case ch.Gate != nil:
			gate = row
		case ch.Namespace != nil:
			namespaces = append(namespaces, ch.Namespace)
		case ch.Name != nil:
			custom = append(custom, ch.Name)
		case ch.AdminState != nil:
			admins = append(admins, encoded[shard.AdminState]{ch.AdminState, row})
		default:
			pins = append(pins, encoded[shard.Pin]{ch.Pin, row})
		}
	}
	slices.SortFunc(hosts, func(a, b encoded[shard.Host]) int { return cmp.Compare(a.row.UUID, b.row.UUID) })
	slices.SortFunc(claims, func(a, b keyedClaim) int { return cmp.Compare(a.key, b.key) })
	slices.SortFunc(pins, func(a, b encoded[shard.Pin]) int { return cmp.Compare(a.row.GroupUUID, b.row.GroupUUID) })

	w.gateRow(gate)
	w.usageRows(hosts, usages, admins)
	if w.store.server.needsGuards() {
		w.guardRows(claims)
	}
	w.pinRows(pins)
	w.customRows(custom)
	w.claimRows(claims)
	w.hostRows(hosts)
	shard.SortNamespaces(namespaces)
	w.namespaceRows(namespaces)
	w.queue(insertEntry, e.Lane.Replica, int64(e.Lane.Incarnation), int64(e.Seq), e.At.UnixNano(), rowcodec.Pack(body))
	return nil
}

// commit sends the write trip, including the COMMIT. unknown: the outcome of the COMMIT is not known; the error says
// why.
func (w *writes) commit(ctx context.Context, c *pgx.Conn) (unknown bool, err error) {
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
		_ = r.Close() // it returns the same error
		// Statements are prepared and encoded before the COMMIT is sent.
		if unsent := (pgx.ErrPreprocessingBatch{}); errors.As(err, &unsent) {
			if state(err) == "" && !c.IsClosed() {
				err = fault.Wrap(fault.Internal, err, "a batch cannot be encoded")
			}
			return false, err
		}
		// A server's error of a statement before the COMMIT ends the transaction. After any other error the outcome
		// is open, unless commitRefused.
		if state(err) != "" && i < n-1 || commitRefused(err) {
			return false, err
		}
		return true, err
	}
	_ = r.Close() // it is committed, whatever happened to the connection since
	return false, nil
}

// keyedClaim is a claim with its key and the value of its body column.
type keyedClaim struct {
	*shard.Claim
	key  string
	body []byte
}

// hostUsage is a row of host_usages.
type hostUsage struct {
	*shard.Usage
	host  int64
	admin encoded[shard.AdminState]
}

// usageRows writes the usages and admin states of hosts. A registration writes the row too: it has the host's
// generation, and a transaction that reads as of an earlier moment must fail at it.
func (w *writes) usageRows(hosts []encoded[shard.Host], usages []*shard.Usage, admins []encoded[shard.AdminState]) {
	rows := map[string]*hostUsage{}
	rowOf := func(host string) *hostUsage {
		r := rows[host]
		if r == nil {
			r = &hostUsage{w.before.usages[host], w.before.generations[host], w.before.admins[host]}
			if r.Usage == nil {
				r.Usage = &shard.Usage{HostUUID: host}
			}
			rows[host] = r
		}
		return r
	}
	for _, u := range usages {
		rowOf(u.HostUUID).Usage = u
	}
	for _, h := range hosts {
		rowOf(h.row.UUID).host = h.row.Generation
	}
	for _, a := range admins {
		rowOf(a.row.HostUUID).admin = a
	}
	var made, changed []*hostUsage
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if w.before.usages[id] == nil {
			made = append(made, rows[id])
		} else {
			changed = append(changed, rows[id])
		}
	}
	write := func(sql string, list []*hostUsage) {
		if len(list) == 0 {
			return
		}
		w.queue(sql,
			column(list, func(u *hostUsage) string { return u.HostUUID }),
			column(list, func(u *hostUsage) int64 { return u.host }),
			column(list, func(u *hostUsage) int64 { return u.Generation }),
			column(list, func(u *hostUsage) int64 { return int64(u.Pending) }),
			column(list, func(u *hostUsage) int64 { return int64(u.Confirmed) }),
			column(list, func(u *hostUsage) string { return usedText(u.Used) }),
			column(list, func(u *hostUsage) []byte { return append([]byte{}, u.admin.body...) }),
			column(list, func(u *hostUsage) bool { return u.admin.row != nil && u.admin.row.LeftOut() }))
	}
	write(insertHostUsages, made)
	write(w.store.grammar.putHostUsages(), changed)
}

// guardRows writes the rows that guard a consumer's claims and a group's.
func (w *writes) guardRows(claims []keyedClaim) {
	consumers, groups := map[string]*shard.Claim{}, map[string]*shard.Claim{}
	for _, c := range claims {
		old := w.before.claims[c.ClaimID]
		if old != nil && (!c.State.Live() || old.State.Live() && old.ConsumerUUID == c.ConsumerUUID && old.HostUUID == c.HostUUID) {
			continue
		}
		// The rules only depend on these if the read set names them.
		for _, id := range []string{c.Instance(), c.ConsumerUUID} {
			if has(w.names.consumers, id) {
				consumers[id] = c.Claim
			}
		}
		if c.Group.Hard() && has(w.names.groups, c.Group.UUID) {
			groups[c.Group.UUID] = c.Claim
		}
	}
	for id := range w.names.fill {
		if !w.before.consumers[id] && consumers[id] == nil {
			consumers[id] = &shard.Claim{}
		}
	}
	made, changed := w.split(consumers, w.before.consumers)
	w.queueKeys(insertConsumers, made,
		column(made, func(id string) string { return consumers[id].ProjectID }),
		column(made, func(id string) string { return consumers[id].UserID }))
	w.queueKeys(putConsumers, changed)
	made, changed = w.split(groups, w.before.groups)
	w.queueKeys(insertGroups, made, column(made, func(id string) string { return groups[id].Group.Policy }))
	w.queueKeys(putGroups, changed)
}

// split separates the names with a row from those without, each sorted.
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

func (w *writes) pinRows(pins []encoded[shard.Pin]) {
	var made, changed []encoded[shard.Pin]
	var gone []string
	for _, p := range pins {
		switch {
		case len(p.row.Holders) == 0:
			gone = append(gone, p.row.GroupUUID)
		case w.before.pins[p.row.GroupUUID] == nil:
			made = append(made, p)
		default:
			changed = append(changed, p)
		}
	}
	group := func(p encoded[shard.Pin]) string { return p.row.GroupUUID }
	w.queueKeys(insertPins, column(made, group), column(made, bodyOf))
	w.queueKeys(putPins, column(changed, group), column(changed, bodyOf))
	w.queueKeys(deletePins, gone)
}

// gateRow writes the gate; a nil body means no change.
func (w *writes) gateRow(body []byte) {
	switch {
	case body == nil:
	case w.before.gate != nil:
		w.queue(putGate, body)
	default:
		w.queue(insertGate, body)
	}
}
