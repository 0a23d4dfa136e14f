package agents

import (
	"context"
	"time"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// handleVerdict processes a verdict on a stream. A verdict on a claim that is not on the host is
// ignored.
func (v *verifier) handleVerdict(a *stream, in *agentv1.Verdict) {
	c := v.rows.Claim(in.GetClaimId())
	if c == nil || c.HostUUID != a.host {
		return
	}
	rejected := in.GetOutcome() == agentv1.Verdict_REJECTED
	reason := ""
	if rejected && v.putOff(a, in) {
		return
	}
	if rejected {
		reason = reasonOf(in)
		v.log.Warn("a host rejected a claim", "host", c.ServiceHost, "claim_id", c.ClaimID, "state", c.State,
			"reason", reason, "detail", in.GetDetail(), "mode", v.mode)
	}
	v.tel.Verdict(string(v.mode), rejected, reason)
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.hosts[a.host]; h != nil && h.offers[c.ClaimID] != nil {
		h.offers[c.ClaimID].verdict = in
		if now := v.rows.Claim(c.ClaimID); now != nil && now.HostUUID == a.host {
			v.repeatOffer(h, now)
		}
	}
	in = v.effective(a.host, in)
	if w := v.awaited[placed{c.ClaimID, a.host}]; w != nil {
		select {
		case w <- in:
			return
		default: // a verdict is already there
		}
	}
	if in != nil && (rejected || c.Verdict != nil) {
		v.queueVerdict(judgeOf(a.host, in, false))
	}
}

// counts reports whether a verdict has an effect on its claim. None has one in VerifyShadow. While Nova's tables report
// the host, no agent decides what fits there; it may give claims back. An agent whose allocation ratio is below Nova's
// does not decide whether there is room.
func (v *verifier) counts(host string, in *agentv1.Verdict) bool {
	refuses := in.GetOutcome() == agentv1.Verdict_REJECTED && in.GetReason() != agentv1.Verdict_ABORTED
	h := v.rows.HostInService(host)
	noRoom := in.GetReason() == agentv1.Verdict_NO_ROOM && h != nil && h.Nova.RaisesRatio()
	return v.mode != VerifyShadow && !(refuses && (noRoom || v.rows.Imported(host)))
}

// effective returns a verdict that has an effect on its claim; nil for any other, so that callers wait no longer.
func (v *verifier) effective(host string, in *agentv1.Verdict) *agentv1.Verdict {
	if v.counts(host, in) {
		return in
	}
	return nil
}

// queueVerdict queues a verdict to be written. If too many wait, the claim is offered again instead.
func (v *verifier) queueVerdict(op shard.Op) {
	if len(v.rejected) >= maxVerdicts {
		v.askAgain(op.RecordVerdict)
		return
	}
	v.rejected = append(v.rejected, op)
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// askAgain makes the verifier offer a claim again after a second.
func (v *verifier) askAgain(j *shard.RecordVerdict) {
	if h := v.hosts[j.HostUUID]; h != nil {
		delete(h.offers, j.ClaimID)
		v.schedule(j.HostUUID, v.now().Add(time.Second))
	}
}

// write writes queued verdicts to the shard until ctx ends, all that wait at once.
func (v *verifier) write(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.wake:
		}
		v.mu.Lock()
		ops := v.rejected
		v.rejected = nil
		v.mu.Unlock()
		answers, err := v.queue.Do(ctx, ops, false)
		if ctx.Err() != nil {
			return nil
		}
		v.mu.Lock()
		for i, op := range ops {
			failed := err
			if failed == nil {
				failed = answers[i].Failure()
			}
			if failed != nil {
				v.log.Warn("a host's verdict could not be written; it is asked for again", "claim_id", op.RecordVerdict.ClaimID, "err", failed)
				v.askAgain(op.RecordVerdict)
			}
		}
		v.mu.Unlock()
	}
}

// VerdictWait has the claims of a call's operations, and for each the channel that receives its
// verdict; a nil channel for none. A nil VerdictWait waits for nothing.
type VerdictWait struct {
	claims   []placed
	received []chan *agentv1.Verdict
}

// Awaits reports whether claims on some host are answered only after the host's verdict.
func (v *verifier) Awaits() bool {
	if v.mode != VerifySync {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.hosts) > 0
}

// Expect registers waits for the verdicts on the claims of operations, before the operations are
// committed.
func (v *verifier) Expect(ops []shard.Op) *VerdictWait {
	if v.mode != VerifySync {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hosts) == 0 {
		return nil
	}
	w := &VerdictWait{claims: make([]placed, len(ops)), received: make([]chan *agentv1.Verdict, len(ops))}
	for i, op := range ops {
		at := claimedBy(op)
		h := v.hosts[at.host]
		if h == nil || v.rows.Imported(at.host) {
			continue
		}
		w.claims[i] = at
		if v.awaited[at] == nil {
			// If two calls make the same claim on the same host, the first one waits for its verdict.
			w.received[i] = make(chan *agentv1.Verdict, 1)
			v.awaited[at] = w.received[i]
		}
		if o := h.offers[at.claim]; o != nil && o.verdict != nil && w.received[i] != nil {
			w.received[i] <- v.effective(at.host, o.verdict) // the offer is sent again, its verdict known
		}
	}
	return w
}

// claimedBy returns the claim that an operation places, and its host.
func claimedBy(op shard.Op) placed {
	switch {
	case op.Claim != nil:
		return placed{op.Claim.ClaimID, op.Claim.HostUUID}
	case op.Swap != nil:
		return placed{op.Swap.ClaimID, op.Swap.HostUUID}
	}
	return placed{}
}

// ForgetWaits ends the waits of a call. A verdict that arrived too late is handled as in VerifyAsync.
func (v *verifier) ForgetWaits(w *VerdictWait) {
	if w == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, at := range w.claims {
		if w.received[i] == nil {
			continue
		}
		delete(v.awaited, at)
		select {
		case in := <-w.received[i]:
			if in.GetOutcome() == agentv1.Verdict_REJECTED && v.rows.Claim(at.claim) != nil {
				v.queueVerdict(judgeOf(at.host, in, false))
			}
		default:
		}
	}
}

// Await waits for the verdicts on the claims made, and refuses rejected ones: a new claim is ended; a
// swapped claim stays as it was and records the verdict.
func (v *verifier) Await(ctx context.Context, w *VerdictWait, ops []shard.Op, answers []replica.Answer) {
	if w == nil {
		return
	}
	defer v.ForgetWaits(w)
	limit := v.wait
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2) // the rest is for the answer
	}
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var judges []shard.Op
	var of []int
	over := false
	for i := range ops {
		if w.received[i] == nil || !pending(answers[i]) {
			continue
		}
		var in *agentv1.Verdict
		if over {
			select {
			case in = <-w.received[i]:
			default:
			}
		} else {
			select {
			case in = <-w.received[i]:
			case <-timer.C:
				over = true
			case <-ctx.Done():
				over = true
			}
		}
		v.tel.VerdictWaited(time.Since(began), in != nil)
		if in.GetOutcome() == agentv1.Verdict_REJECTED {
			judges, of = append(judges, judgeOf(w.claims[i].host, in, ops[i].Claim != nil)), append(of, i)
		}
	}
	if len(judges) == 0 {
		return
	}
	done, err := v.queue.Do(ctx, judges, true)
	for n, i := range of {
		failed := err
		if failed == nil {
			failed = done[n].Err
		}
		if failed != nil {
			// The caller is answered with the claim, and the verdict is recorded as in VerifyAsync. The
			// answer is an error if the claim may have ended.
			if judges[n].RecordVerdict.End && fault.KindOf(failed) == fault.OutcomeUnknown {
				answers[i] = replica.Answer{Err: failed}
			}
			v.log.Warn("a rejected claim could not be ended", "claim_id", judges[n].RecordVerdict.ClaimID, "err", failed)
			v.mu.Lock()
			judges[n].RecordVerdict.End = false
			v.queueVerdict(judges[n])
			v.mu.Unlock()
			continue
		}
		if r := rejectedBy(done[n].Outcome.Claim); r != nil {
			answers[i].Outcome = shard.Outcome{Refusal: r}
		}
	}
}

// pending reports whether an answer is a new claim that is still pending.
func pending(a replica.Answer) bool {
	return a.Err == nil && a.Outcome.Refusal == nil && a.Outcome.Claim != nil && a.Outcome.Claim.State == shard.Pending
}

// rejectedBy returns the refusal for a claim that its host rejected. It returns nil for any other
// claim, such as one that was confirmed meanwhile.
func rejectedBy(c *shard.Claim) *shard.Refusal {
	if c == nil || c.Verdict == nil || c.Verdict.Outcome != shard.VerdictRejected || c.State != shard.Pending && c.State != shard.Rejected {
		return nil
	}
	return &shard.Refusal{
		Kind: fault.ClaimRejected, Message: "host " + c.ServiceHost + " rejected the claim: " + c.Verdict.Reason + ": " + c.Verdict.Detail,
		Filter: "HostVerdict", Detail: c.Verdict.Reason,
	}
}

// judgeOf is the operation that records a verdict.
func judgeOf(host string, in *agentv1.Verdict, end bool) shard.Op {
	v := shard.Verdict{Outcome: shard.VerdictOK, Detail: in.GetDetail(), BootID: in.GetBootId(), Version: in.GetVersion()}
	if in.GetOutcome() == agentv1.Verdict_REJECTED {
		v.Outcome, v.Reason = shard.VerdictRejected, reasonOf(in)
	}
	return shard.Op{RecordVerdict: &shard.RecordVerdict{ClaimID: in.GetClaimId(), HostUUID: host, Verdict: v, End: end}}
}

// reasonOf is the reason of a rejection, as callers see it.
func reasonOf(in *agentv1.Verdict) string {
	if in.GetReason() == agentv1.Verdict_REASON_UNSPECIFIED {
		return "UNSPECIFIED"
	}
	return in.GetReason().String()
}
