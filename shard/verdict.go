package shard

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// RecordVerdict records a host's verdict on a claim that it was offered. A verdict changes nothing if the claim does
// not exist, is on another host, or is not PENDING (except as below). Nor does it if it repeats the recorded verdict of
// the same agent incarnation, or has a lower version.
//
// A claim with a REJECTED verdict keeps its resources and its lease. It cannot be confirmed (CLAIM_REJECTED), unless
// a report of its host has its instance. Swap moves it to another host, without a verdict, and keeps this one in its
// Rejections. With End the claim is REJECTED, which ends it.
//
// A rejection with ReasonAborted also gives back what a PENDING claim takes. The claim holds nothing from then on,
// and no later verdict changes it. If a report of its host still has its instance, it takes the reported allocations.
//
// ReasonAborted ends a CONFIRMED claim as REJECTED if the verdict is of the host's current agent incarnation, that
// agent knows its instances, and no report had this one. It does not if the claim was transferred, or moves another
// claim: that claim has ended, and the instance may still run where it was.
type RecordVerdict struct {
	ClaimID  string
	HostUUID string
	// Verdict is the verdict; Decide sets its At to store time.
	Verdict Verdict
	// End ends a rejected claim that no caller received as an answer.
	End bool
}

// Verdict is how a host judged a claim.
type Verdict struct {
	Outcome VerdictOutcome
	// Reason is one of the agent's protocol; empty for an OK.
	Reason string
	// Detail is for people.
	Detail string
	// BootID and Version identify the state and the agent incarnation that judged.
	BootID  string
	Version uint64
	// At is store time.
	At time.Time
}

// Rejection is the REJECTED verdict of a host that a claim was on before.
type Rejection struct {
	HostUUID    string
	ServiceHost string
	Verdict     Verdict
}

// MaxRejections bounds a claim's Rejections.
const MaxRejections = 8

// VerdictOutcome is OK or REJECTED.
type VerdictOutcome string

// The outcomes.
const (
	VerdictOK       VerdictOutcome = "OK"
	VerdictRejected VerdictOutcome = "REJECTED"
)

// ReasonAborted is the reason of a rejection by which a host gives a claim back: the operation that needed the claim
// was given up on the host.
const ReasonAborted = "ABORTED"

// MaxVerdictDetail bounds the bytes of a verdict's Detail.
const MaxVerdictDetail = 1024

// rejected reports whether the claim's host rejected it.
func (c *Claim) rejected() bool {
	return c.State == Rejected || c.Verdict != nil && c.Verdict.Outcome == VerdictRejected
}

// rejections are the Rejections of the claim after it leaves its host.
func (c *Claim) rejections() []Rejection {
	if !c.rejected() {
		return c.Rejections
	}
	kept := c.Rejections[max(0, len(c.Rejections)+1-MaxRejections):]
	return append(slices.Clone(kept), Rejection{c.HostUUID, c.ServiceHost, *c.Verdict})
}

// GaveBack reports whether the host of a PENDING claim gave back what the claim takes.
func (c *Claim) GaveBack() bool {
	return c.State == Pending && c.Verdict != nil && c.Verdict.aborts()
}

func (v *Verdict) aborts() bool { return v.Outcome == VerdictRejected && v.Reason == ReasonAborted }

// endsConfirmed reports whether a verdict ends a CONFIRMED claim.
func (t *transaction) endsConfirmed(c *Claim, v *Verdict) bool {
	h := t.view.Hosts[c.HostUUID]
	return c.State == Confirmed && v.aborts() && !c.Seen && c.TransferredFrom == "" && c.Moves == "" &&
		h != nil && !h.Imported && !h.InstancesUnknown && h.BootID == v.BootID
}

// rejection refuses an operation because the host rejected the claim.
func rejection(c *Claim) Outcome {
	return Outcome{Claim: c, Refusal: &Refusal{
		Kind:    fault.ClaimRejected,
		Message: fmt.Sprintf("host %s rejected claim %s: %s", c.ServiceHost, c.ClaimID, c.Verdict.text()),
		Filter:  "HostVerdict", Detail: c.Verdict.Reason,
	}}
}

func (v *Verdict) text() string {
	if v.Detail == "" {
		return v.Reason
	}
	return v.Reason + ": " + v.Detail
}

// recordVerdict notes a verdict; see RecordVerdict.
func (t *transaction) recordVerdict(j *RecordVerdict) Outcome {
	c := t.view.Claims[j.ClaimID]
	switch {
	case c == nil:
		return Outcome{}
	case c.HostUUID != j.HostUUID:
		return Outcome{Claim: c}
	}
	v := j.Verdict
	v.At = t.now
	switch {
	case t.endsConfirmed(c, &v):
		n := *c
		n.Verdict = &v
		return Outcome{Claim: t.setState(&n, Rejected)}
	case c.State != Pending, c.GaveBack():
		return Outcome{Claim: c}
	}
	if old := c.Verdict; old != nil && old.BootID == v.BootID {
		same := old.Outcome == v.Outcome && old.Reason == v.Reason && old.Detail == v.Detail
		switch {
		case v.Version < old.Version:
			return Outcome{Claim: c}
		case same && !j.End:
			return Outcome{Claim: c}
		}
	}
	n := *c
	n.Verdict = &v
	if j.End {
		return Outcome{Claim: t.setState(&n, Rejected)}
	}
	n.UpdatedAt = t.nextWriteTime(c)
	if v.aborts() {
		n.Allocations = nil
		t.moveUsage(c.HostUUID, c, &n)
	}
	t.putClaim(&n)
	return Outcome{Claim: &n}
}

// problem says what is wrong with the operation; "" when nothing is.
func (j *RecordVerdict) problem() string {
	v := &j.Verdict
	switch {
	case !slices.Contains([]VerdictOutcome{VerdictOK, VerdictRejected}, v.Outcome):
		return fmt.Sprintf("verdict.outcome: is %q, must be %s or %s", v.Outcome, VerdictOK, VerdictRejected)
	case v.Outcome == VerdictOK && v.Reason != "":
		return "verdict.reason: must be empty for an OK"
	case v.Outcome == VerdictRejected && !isID(v.Reason):
		return "verdict.reason: " + idRule
	case len(v.Detail) > MaxVerdictDetail:
		return fmt.Sprintf("verdict.detail: has %d bytes, may have %d", len(v.Detail), MaxVerdictDetail)
	case v.Version > 1<<63-1:
		return "verdict.version: is too great"
	case j.End && v.Outcome != VerdictRejected:
		return "end: only a REJECTED claim is ended"
	}
	return cmp.Or(idsProblem("claim_id", j.ClaimID, "host_uuid", j.HostUUID, "verdict.boot_id", v.BootID), textProblem("verdict.detail", v.Detail))
}
