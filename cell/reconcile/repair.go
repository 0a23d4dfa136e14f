package reconcile

import (
	"context"
	"strings"
	"time"

	"cellgate/cell/agents"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// kindName is a kind as a metric label.
func kindName(k cellgatev1.Finding_Kind) string { return strings.ToLower(k.String()) }

// goneClaim is a claim to be released because its instance is gone.
type goneClaim struct {
	key   findingKey
	claim *shard.Claim
	since time.Time
}

// repairClaims releases the claims of instances that are gone: the host's agent reported the instance
// to this replica in the same incarnation, and has not reported it for longer than ReconcileRelease.
// The shard releases a claim only if the host has not reported since, and the instance has no other
// claim.
func (r *Reconciler) repairClaims(ctx context.Context, l *round) {
	var ready []goneClaim
	for _, key := range r.openFindings(cellgatev1.Finding_ORPHANED_CLAIM, l.now) {
		c := r.rows.Claim(key.claim)
		if c == nil || l.seen[key] == nil {
			continue
		}
		switch why, since := r.mayRelease(l, key, c); {
		case why != "":
			r.noteRepair(key, time.Time{}, "not released: "+why)
		case len(ready) < maxRepairs:
			ready = append(ready, goneClaim{key, c, since})
		}
	}
	if len(ready) == 0 {
		return
	}
	ops := make([]shard.Op, len(ready))
	for i, g := range ready {
		report := l.compared[g.claim.HostUUID].Registration()
		ops[i] = shard.Op{Release: &shard.ClaimRef{ClaimID: g.claim.ClaimID, ConsumerUUID: g.claim.ConsumerUUID, ReportedGoneBy: &report}}
	}
	answers, err := r.queue.Do(ctx, ops, false)
	for i, g := range ready {
		failed := err
		if failed == nil {
			failed = answers[i].Err
		}
		kind := kindName(g.key.kind)
		switch {
		case failed != nil:
			r.tel.Repaired(kind, "failed")
			r.noteRepair(g.key, time.Time{}, "not released: "+failed.Error())
		case answers[i].Outcome.Refusal != nil:
			r.tel.Repaired(kind, "refused")
			r.noteRepair(g.key, time.Time{}, "not released: "+answers[i].Outcome.Refusal.Message)
		default:
			r.tel.Repaired(kind, "done")
			r.noteRepaired(g.key, l.now, "released")
			r.log.Warn("audit: a claim was released: its instance is gone from its host", "host", g.claim.ServiceHost, "host_uuid", g.claim.HostUUID,
				"claim_id", g.claim.ClaimID, "instance", g.claim.ConsumerUUID, "missing_since", g.since)
		}
	}
}

// mayRelease says why the claim of a missing instance is not released, "" if it may be, and since when
// the instance is missing.
func (r *Reconciler) mayRelease(l *round, key findingKey, c *shard.Claim) (why string, since time.Time) {
	rep := l.compared[key.host]
	switch {
	case r.cfg.ReportOnly:
		return "cell.reconcile_repair is off", since
	case !c.Seen:
		return "no report ever had the instance; it may be on its way", since
	case rep == nil:
		return "its host's agent does not report to this replica", since
	}
	since, gone := rep.Gone[key.instance]
	switch {
	case !gone:
		return "the instance was in no report of this incarnation of the agent to this replica", since
	case l.now.Sub(since) < r.cfg.Release:
		return "the instance is missing for less than cell.reconcile_release", since
	case !rep.Writes:
		return "the host's agent asks another replica to write", since
	case r.vanished(key.host, rep):
		return "more than half of the host's instances went: its agent may not see them", since
	}
	return "", since
}

// few is how many instances of a host may vanish together, however many are left.
const few = 3

// vanished reports whether so many instances of a host vanished that its agent is probably wrong: an
// unmounted file system has no instances.
func (r *Reconciler) vanished(host string, rep *agents.Report) bool {
	_, there := agents.InstancesOf(rep)
	gone, left := 0, 0
	for _, c := range r.rows.ClaimsOn(host) {
		if c.State != shard.Confirmed || !c.Seen || c.TransferredFrom != "" {
			continue
		}
		if _, ok := there[c.Instance()]; ok {
			left++
		} else {
			gone++
		}
	}
	return gone > few && gone > left
}

// repairHosts asks agents to report again, as a new version: then instances without a claim are
// adopted. An agent is asked once in a grace. Where several agents report one host, their streams ask
// them (askForLostState).
func (r *Reconciler) repairHosts(l *round) {
	for _, key := range r.openFindings(cellgatev1.Finding_HOST_DIFFERS, l.now) {
		if at := r.agents.Streams.LastAsked(key.host); !at.IsZero() {
			r.noteRepair(key, at, "the agent of the newest stream was asked to report anew")
		}
	}
	asked, kind := map[string]bool{}, kindName(cellgatev1.Finding_UNCLAIMED_INSTANCE)
	for _, key := range r.openFindings(cellgatev1.Finding_UNCLAIMED_INSTANCE, l.now) {
		rep := l.compared[key.host]
		if rep == nil || !rep.Writes || len(r.rows.ClaimsOfConsumers([]string{key.instance})) > 0 {
			continue
		}
		if r.cfg.ReportOnly {
			r.noteRepair(key, time.Time{}, "the agent was not asked: cell.reconcile_repair is off")
			continue
		}
		r.mu.Lock()
		c := r.open[key]
		soon := c == nil || !c.asked.IsZero() && l.now.Sub(c.asked) < r.cfg.Grace
		r.mu.Unlock()
		if soon {
			continue
		}
		if !asked[key.host] {
			if len(asked) == maxRepairs {
				return
			}
			asked[key.host] = true
			r.agents.Streams.StartOver(key.host, "reconcile: "+kind, 0, r.rows.HostInService(key.host))
			r.log.Warn("audit: a host's agent was asked to report anew", "host_uuid", key.host, "because", kind, "instance", key.instance)
			r.tel.Repaired(kind, "done")
		}
		r.noteRepair(key, l.now, "the agent was asked to report anew")
	}
}
