package reconcile

import (
	"context"
	"fmt"
	"slices"

	"cellgate/cell/replica"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// auditsEach hosts are audited in one round, auditBatch of them in a transaction.
	auditsEach = 512
	auditBatch = 16
)

// auditor compares hosts' usage in the shard with the sum of their claims. It audits some hosts in each
// round, and all of them one after the other.
type auditor struct {
	*Reconciler
	// next is the uuid of the last host of the round before.
	next string
}

func (a *auditor) audit(ctx context.Context, rows []*replica.HostRow) error {
	for hosts := range slices.Chunk(a.choose(rows), auditBatch) {
		ops := make([]shard.Op, len(hosts))
		for i, host := range hosts {
			ops[i] = shard.Op{Audit: &shard.Audit{HostUUID: host, Repair: !a.cfg.ReportOnly}}
		}
		answers, err := a.queue.Do(ctx, ops, false)
		if err != nil {
			return err
		}
		for i, answer := range answers {
			if answer.Err != nil {
				return answer.Err
			}
			if answer.Outcome.Audited != nil {
				a.noteUsage(hosts[i], answer.Outcome.Audited)
			}
		}
	}
	return nil
}

// choose returns the hosts of this round; rows are sorted by uuid.
func (a *auditor) choose(rows []*replica.HostRow) (list []string) {
	at, _ := slices.BinarySearchFunc(rows, a.next, func(row *replica.HostRow, uuid string) int {
		if row.Host.UUID <= uuid {
			return -1
		}
		return 1
	})
	for n := range min(len(rows), auditsEach) {
		list = append(list, rows[(at+n)%len(rows)].Host.UUID)
	}
	if len(list) > 0 {
		a.next = list[len(list)-1]
	}
	return list
}

// noteUsage records whether a host's stored usage equals the sum of its claims. If repairs are on, the
// shard has already corrected it. Such a finding needs no grace.
func (a *auditor) noteUsage(host string, found *shard.Audited) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kind := cellgatev1.Finding_USAGE_DIFFERS
	key := findingKey{kind: kind, host: host}
	if !found.Differs {
		delete(a.open, key)
		return
	}
	kept := &shard.Usage{}
	if found.Usage != nil {
		kept = found.Usage
	}
	c := a.open[key]
	if c == nil {
		c = &condition{since: a.now(), needsNoGrace: true}
	}
	c.finding = &cellgatev1.Finding{
		Kind: kind, HostUuid: host, ServiceHost: a.rows.ServiceHost(host),
		Detail: fmt.Sprintf("%d pending and %d confirmed claims, in use %q, were kept; the claims are %d and %d, with %q",
			kept.Pending, kept.Confirmed, amountsText(kept.Used), found.Sum.Pending, found.Sum.Confirmed, amountsText(found.Sum.Used)),
	}
	if a.cfg.ReportOnly {
		c.repair = "not written anew: cell.reconcile_repair is off"
		a.open[key] = c
		return
	}
	c.repair = "written anew"
	delete(a.open, key)
	a.rememberLocked(c, a.now())
	a.tel.Repaired(kindName(kind), "done")
	a.log.Warn("audit: the usage of a host was not the sum of its claims, and was written anew", "host_uuid", host, "detail", c.finding.GetDetail())
}
