package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// auditsEach hosts are read from the shard in one look, auditBatch in a transaction.
	auditsEach = 512
	auditBatch = 16
)

// auditor reads hosts' rows from the shard, some in each look and all in turn, and
// compares them with the table. A row that is not the same twice in a row, with the
// journal read to its end in between, is a finding, and the table takes the shard's.
type auditor struct {
	*Reconciler
	// next is the host to go on after; suspects are the hosts that differed the last time,
	// with what did.
	next     string
	suspects map[string]map[difference]bool
}

// audit reads the next hosts, those first that differed.
func (a *auditor) audit(ctx context.Context, rows []*replica.HostRow) error {
	for batch := range slices.Chunk(a.choose(rows), auditBatch) {
		if err := a.batch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// choose gives the hosts of this look; rows are by uuid.
func (a *auditor) choose(rows []*replica.HostRow) []string {
	var list, rest []string
	for _, row := range rows {
		if a.suspects[row.Host.UUID] != nil {
			list = append(list, row.Host.UUID)
		}
	}
	at, _ := slices.BinarySearchFunc(rows, a.next, func(row *replica.HostRow, uuid string) int {
		if row.Host.UUID <= uuid {
			return -1
		}
		return 1
	})
	for n := range rows {
		if uuid := rows[(at+n)%len(rows)].Host.UUID; a.suspects[uuid] == nil {
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
	before := make([]replica.HostView, len(hosts))
	for i, host := range hosts {
		before[i] = a.rows.ViewOfHost(host, nil)
		ops[i] = shard.Op{Audit: &shard.Audit{HostUUID: host, Repair: !a.cfg.ReportOnly}}
	}
	answers, err := a.queue.Do(ctx, ops, false)
	if err != nil {
		return err
	}
	// What the shard had then is in the table once the journal was read since.
	if err := a.journal.CatchUp(ctx); err != nil {
		return err
	}
	for i, answer := range answers {
		if answer.Err != nil {
			return answer.Err
		}
		if answer.Outcome.Audited != nil {
			a.judge(hosts[i], before[i], answer.Outcome.Audited)
		}
	}
	return nil
}

// judge compares what the shard has of a host with the table before and after. A table that
// differs twice in the same row is loaded again, once.
func (a *auditor) judge(host string, before replica.HostView, found *shard.Audited) {
	a.auditUsage(host, before, found)
	now := rowComparison{host: host, before: before, after: a.rows.ViewOfHost(host, nil), found: found, claim: a.rows.Claim}.differences()
	said := a.reportedOtherwise(host)
	was := a.suspects[host]
	delete(a.suspects, host)
	if len(now) > 0 || said {
		if a.suspects == nil {
			a.suspects = map[string]map[difference]bool{}
		}
		a.suspects[host] = map[difference]bool{{what: reportOther}: said}
		for _, d := range now {
			a.suspects[host][d.difference] = true
		}
	}
	a.noteCertain(cellgatev1.Finding_HOST_DIFFERS, host, said && was[difference{what: reportOther}], "the row in the shard is not what the host's agent reported under the same version", "", false)
	detail := ""
	for _, d := range now {
		if was[d.difference] {
			detail = cmp.Or(detail, d.detail)
		}
	}
	switch {
	case len(now) == 0:
		a.noteCertain(cellgatev1.Finding_TABLE_DIFFERS, host, false, "", "", false)
	case detail == "":
	case a.cfg.ReportOnly:
		a.noteCertain(cellgatev1.Finding_TABLE_DIFFERS, host, true, detail, "not read anew: cell.reconcile_repair is off", false)
	case a.isOpen(findingKey{kind: cellgatev1.Finding_TABLE_DIFFERS, host: host}):
		a.noteCertain(cellgatev1.Finding_TABLE_DIFFERS, host, true, detail, "read anew from the shard, and it differs still: restart the replica", true)
	default:
		a.journal.Reload()
		a.noteCertain(cellgatev1.Finding_TABLE_DIFFERS, host, true, detail, "read anew from the shard", true)
		a.tel.Repaired(kindName(cellgatev1.Finding_TABLE_DIFFERS), "done")
		a.log.Warn("audit: the table has other rows of a host than the shard, and is read anew", "host_uuid", host, "because", detail)
	}
}

// isOpen reports whether a condition was there at the last look.
func (a *auditor) isOpen(key findingKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[key] != nil
}

// auditUsage notes whether what is kept as in use is the sum of the claims. Repaired, it is
// right by now.
func (a *auditor) auditUsage(host string, before replica.HostView, found *shard.Audited) {
	kind := cellgatev1.Finding_USAGE_DIFFERS
	if !found.Differs {
		a.noteCertain(kind, host, false, "", "", false)
		return
	}
	kept := &shard.Usage{}
	if found.Usage != nil {
		kept = found.Usage
	}
	detail := fmt.Sprintf("%d pending and %d confirmed claims, in use %q, were kept; the claims are %d and %d, with %q",
		kept.Pending, kept.Confirmed, amountsText(kept.Used), found.Sum.Pending, found.Sum.Confirmed, amountsText(found.Sum.Used))
	if a.cfg.ReportOnly {
		a.noteCertain(kind, host, true, detail, "not written anew: cell.reconcile_repair is off", false)
		return
	}
	a.noteCertain(kind, host, true, detail, "written anew", true)
	a.noteCertain(kind, host, false, "", "", false)
	a.tel.Repaired(kindName(kind), "done")
	a.log.Warn("audit: the usage of a host was not the sum of its claims, and was written anew", "host_uuid", host, "detail", detail)
}

// noteCertain notes a condition that needs no grace, or that it is not there any more. done:
// repair was made, else it says why it is not.
func (a *auditor) noteCertain(kind cellgatev1.Finding_Kind, host string, is bool, detail, repair string, done bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := findingKey{kind: kind, host: host}
	c := a.open[key]
	switch {
	case is && c == nil:
		c = &condition{since: a.now(), needsNoGrace: true}
		a.open[key] = c
		fallthrough
	case is:
		c.finding = &cellgatev1.Finding{Kind: kind, HostUuid: host, ServiceHost: a.rows.ServiceHost(host), Detail: detail}
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
	row := a.rows.Host(host)
	rep := a.agents.Reports.Newest(host)
	if row == nil || row.Host == nil || row.Host.Imported || rep == nil || rep.Registration() != row.Host.Registration() {
		return false
	}
	put, _, err := agents.ReadHost(rep.State, a.rows.ReadFacts)
	return err == nil && !shard.SameState(&put.Host, row.Host)
}
