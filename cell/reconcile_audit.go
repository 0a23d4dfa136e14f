package cell

import (
	"context"
	"fmt"
	"slices"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// auditsEach hosts are read from the shard in one look, auditBatch in a transaction.
	auditsEach = 512
	auditBatch = 16
)

// auditor reads hosts' rows from the shard, some in each look and all in turn, and
// compares them with the table. What is not the same twice in a row, with the journal
// read to its end in between, is a finding, and the table takes the shard's rows.
type auditor struct {
	*reconciler
	// next is the host to go on after; suspects differed the last time.
	next     string
	suspects map[string]bool
}

// audit reads the next hosts, those first that differed.
func (a *auditor) audit(ctx context.Context, rows []*hostRow) error {
	for batch := range slices.Chunk(a.choose(rows), auditBatch) {
		if err := a.batch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// choose gives the hosts of this look; rows are by uuid.
func (a *auditor) choose(rows []*hostRow) []string {
	var list, rest []string
	for _, row := range rows {
		if a.suspects[row.host.UUID] {
			list = append(list, row.host.UUID)
		}
	}
	at, _ := slices.BinarySearchFunc(rows, a.next, func(row *hostRow, uuid string) int {
		if row.host.UUID <= uuid {
			return -1
		}
		return 1
	})
	for n := range rows {
		if uuid := rows[(at+n)%len(rows)].host.UUID; !a.suspects[uuid] {
			rest = append(rest, uuid)
		}
		if len(list)+len(rest) >= auditsEach {
			break
		}
	}
	if len(rest) > 0 {
		a.next = rest[len(rest)-1]
	}
	return append(list, rest...)
}

// batch audits some hosts.
func (a *auditor) batch(ctx context.Context, hosts []string) error {
	ops := make([]shard.Op, len(hosts))
	before := make([]view, len(hosts))
	for i, host := range hosts {
		before[i] = a.rows.viewOfHost(host, nil)
		ops[i] = shard.Op{Audit: &shard.Audit{HostUUID: host, Repair: !a.cfg.ReconcileReportOnly}}
	}
	answers, err := a.pipeline.do(ctx, ops, false)
	if err != nil {
		return err
	}
	// What the shard had then is in the table once the journal was read since.
	if err := a.follower.readSince(ctx, time.Now()); err != nil {
		return err
	}
	for i, answer := range answers {
		if answer.err != nil {
			return answer.err
		}
		if answer.outcome.Audited != nil {
			a.judge(ctx, hosts[i], before[i], answer.outcome.Audited)
		}
	}
	return nil
}

// judge compares what the shard has of a host with the table before and after.
func (a *auditor) judge(ctx context.Context, host string, before view, found *shard.Audited) {
	a.usage(host, before, found)
	again, what := differs(host, before, a.rows.viewOfHost(host, nil), found, a.rows.claim)
	said := a.reportedOtherwise(host)
	suspect := a.suspects[host]
	delete(a.suspects, host)
	if what != "" || said {
		if a.suspects == nil {
			a.suspects = map[string]bool{}
		}
		a.suspects[host] = true
	}
	a.certain(cellgatev1.Finding_HOST_DIFFERS, host, said && suspect, "the row in the shard is not what the host's agent reported under the same version", "", false)
	switch {
	case what == "":
		a.certain(cellgatev1.Finding_TABLE_DIFFERS, host, false, "", "", false)
	case suspect && a.cfg.ReconcileReportOnly:
		a.certain(cellgatev1.Finding_TABLE_DIFFERS, host, true, what, "not read anew: cell.reconcile_repair is off", false)
	case suspect:
		a.certain(cellgatev1.Finding_TABLE_DIFFERS, host, true, what, "read anew from the shard", true)
		shown := make(chan struct{})
		a.pipeline.show(feed{reread: []reread{again}, shown: func() { close(shown) }})
		select {
		case <-shown:
		case <-ctx.Done():
			return
		}
		a.tel.Repaired(kindName(cellgatev1.Finding_TABLE_DIFFERS), "done")
		a.log.Warn("audit: the table's rows of a host were read anew from the shard", "host_uuid", host, "because", what)
	}
}

// usage notes whether what is kept as in use is the sum of the claims. Repaired, it is
// right by now.
func (a *auditor) usage(host string, before view, found *shard.Audited) {
	kind := cellgatev1.Finding_USAGE_DIFFERS
	if !found.Differs {
		a.certain(kind, host, false, "", "", false)
		return
	}
	kept := &shard.Usage{}
	if found.Usage != nil {
		kept = found.Usage
	}
	detail := fmt.Sprintf("%d pending and %d confirmed claims, in use %q, were kept; the claims are %d and %d, with %q",
		kept.Pending, kept.Confirmed, amountsText(kept.Used), found.Sum.Pending, found.Sum.Confirmed, amountsText(found.Sum.Used))
	if a.cfg.ReconcileReportOnly {
		a.certain(kind, host, true, detail, "not written anew: cell.reconcile_repair is off", false)
		return
	}
	a.certain(kind, host, true, detail, "written anew", true)
	a.certain(kind, host, false, "", "", false)
	a.tel.Repaired(kindName(kind), "done")
	a.log.Warn("audit: the usage of a host was not the sum of its claims, and was written anew", "host_uuid", host, "detail", detail)
}

// certain notes a condition that needs no grace, or that it is not there any more. done:
// repair was made, else it says why it is not.
func (a *auditor) certain(kind cellgatev1.Finding_Kind, host string, is bool, detail, repair string, done bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := findingKey{kind: kind, host: host}
	c := a.open[key]
	switch {
	case is && c == nil:
		c = &condition{since: a.now(), certain: true}
		a.open[key] = c
		fallthrough
	case is:
		c.finding = &cellgatev1.Finding{Kind: kind, HostUuid: host, ServiceHost: a.rows.serviceHost(host), Detail: detail}
		if repair != "" {
			c.repair = repair
		}
		if done {
			c.asked = a.now()
		}
	case c != nil:
		if !c.asked.IsZero() {
			a.rememberLocked(c, a.now())
		}
		delete(a.open, key)
	}
}

// reportedOtherwise reports whether the table's row of a host is of the version that its
// agent reported last, and says something else.
func (a *auditor) reportedOtherwise(host string) bool {
	row := a.rows.host(host)
	rep := a.reported.of(host)
	if row == nil || row.host == nil || row.host.Imported || rep == nil || rep.saidBy() != row.host.Registration() {
		return false
	}
	put, err := putHostOf(rep.state)
	return err == nil && !shard.SameState(&put.Host, row.host)
}

// differs compares the shard's rows of a host with the table's: before was read before
// the shard was, after once all that the shard had then has come. It gives what to take
// from the shard, and says what differs; "" for nothing. A row that is newer than the
// shard's is no difference, unless it was there before: then the shard lost it.
func differs(host string, before, after view, found *shard.Audited, claim func(id string) *shard.Claim) (again reread, what string) {
	again = reread{host: host, seen: after.row, row: found.Host, usage: found.Usage}
	note := func(format string, args ...any) {
		if what == "" {
			what = fmt.Sprintf(format, args...)
		}
	}
	if found.Host != nil && hostDiffers(before.row, after.row, found) {
		again.whole = true
		note("the row of the host, or what is in use on it")
	}
	has := map[string]bool{}
	for _, c := range found.Claims {
		has[c.ClaimID] = true
		switch t := claim(c.ClaimID); {
		case t == nil:
			note("claim %s is not in the table", c.ClaimID)
			again.put = append(again.put, [2]*shard.Claim{c, nil})
		case t.UpdatedAt.Before(c.UpdatedAt), t.UpdatedAt.Equal(c.UpdatedAt) && !sameClaim(t, c):
			note("claim %s is another in the table", c.ClaimID)
			again.put = append(again.put, [2]*shard.Claim{c, t})
		}
	}
	for _, c := range before.claims {
		if !has[c.ClaimID] && claim(c.ClaimID) == c {
			note("claim %s is in the table only", c.ClaimID)
			again.gone = append(again.gone, c)
		}
	}
	return again, what
}

func hostDiffers(before, after *hostRow, found *shard.Audited) bool {
	if after == nil || after.row() == nil {
		return true
	}
	h, known := found.Host, after.row()
	if h.Generation > known.Generation || h.Generation == known.Generation && !shard.SameState(h, known) ||
		before != nil && before.row() == known && h.Generation < known.Generation {
		return true
	}
	// A usage that was written anew has come, with a higher generation.
	u := found.Usage
	switch {
	case u == nil:
		return before != nil && before.usage != nil && after.usage == before.usage
	case after.usage == nil:
		return true
	}
	return u.Generation > after.usage.Generation || u.Generation == after.usage.Generation && !shard.SameUse(u, after.usage) ||
		before != nil && before.usage == after.usage && u.Generation < after.usage.Generation
}

// sameClaim compares what the rules and the table read of two rows of a claim.
func sameClaim(a, b *shard.Claim) bool {
	return a.ConsumerUUID == b.ConsumerUUID && a.State == b.State && a.HostUUID == b.HostUUID && a.ServiceHost == b.ServiceHost &&
		a.TransferredFrom == b.TransferredFrom && a.Moves == b.Moves && a.Adopted == b.Adopted && a.Seen == b.Seen &&
		a.ExpiresAt.Equal(b.ExpiresAt) && sameAmounts(a.Allocations, b.Allocations)
}
