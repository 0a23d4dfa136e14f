package shard

import (
	"fmt"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// RecordVerdict notes a host's verdict on a claim that it was offered. A late verdict changes
// nothing: on a claim that is not PENDING, is not there or is on another host, or of a lower
// version than the noted one of the same agent incarnation. Neither does the same verdict again.
//
// A REJECTED claim keeps its resources and its lease; it cannot be confirmed
// (CLAIM_REJECTED), unless a report of its host has its instance. Swap puts it on another
// host, without a verdict, and keeps this one in its Rejections. With End the claim is REJECTED, which
// ends it.
//
// A rejection with ReasonAborted gives back what a PENDING claim takes: it is rejected as
// any, holds nothing from then on, and no later verdict changes it. If a report of its host
// has its instance all the same, it takes what the report has. A CONFIRMED claim is REJECTED by
// it, which ends it, where the incarnation of the agent that sent it is the host's, knows its
// instances, and no report has had this one; not when it was transferred, nor when it moves
// another: that one has ended, and the instance may run where it was.
type RecordVerdict struct {
	ClaimID  string
	HostUUID string
	// Verdict is noted with the store's time; its At is Decide's to set.
	Verdict Verdict
	// End, of a REJECTED claim that nobody was answered with.
	End bool
}

// Verdict is how a host judged a claim.
type Verdict struct {
	Outcome VerdictOutcome
	// Reason is one of the agent's protocol; empty for an OK.
	Reason string
	// Detail is for people.
	Detail string
	// BootID and Version say which state of which agent incarnation judged.
	BootID  string
	Version uint64
	// At is store time.
	At time.Time
}

// Rejection is the REJECTED verdict of a host that a claim was on.
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

// ReasonAborted is the reason of a rejection by which a host gives a claim back: the
// operation on the host that was to use it was given up.
const ReasonAborted = "ABORTED"

// MaxVerdictDetail bounds the bytes of a verdict's Detail.
const MaxVerdictDetail = 1024

// rejected reports whether the claim's host refuses it.
func (c *Claim) rejected() bool {
	return c.State == Rejected || c.Verdict != nil && c.Verdict.Outcome == VerdictRejected
}

// rejections are those of the claim once it leaves its host.
func (c *Claim) rejections() []Rejection {
	if !c.rejected() {
		return c.Rejections
	}
	kept := c.Rejections[max(0, len(c.Rejections)+1-MaxRejections):]
	return append(slices.Clone(kept), Rejection{c.HostUUID, c.ServiceHost, *c.Verdict})
}

// GaveBack reports whether a PENDING claim's host gave back what it takes.
func (c *Claim) GaveBack() bool {
	return c.State == Pending && c.Verdict != nil && c.Verdict.aborts()
}

func (v *Verdict) aborts() bool { return v.Outcome == VerdictRejected && v.Reason == ReasonAborted }

// endsConfirmed reports whether a CONFIRMED claim ends by its host's verdict.
func (t *transaction) endsConfirmed(c *Claim, v *Verdict) bool {
	h := t.view.Hosts[c.HostUUID]
	return c.State == Confirmed && v.aborts() && !c.Seen && c.TransferredFrom == "" && c.Moves == "" &&
		h != nil && !h.Imported && !h.InstancesUnknown && h.BootID == v.BootID
}

// rejection refuses because of the host's verdict.
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
	if r := j.problem(); r != "" {
		return refused(fault.InvalidRequest, "%s", r)
	}
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
	case !isID(j.ClaimID):
		return "claim_id: " + idRule
	case !isID(j.HostUUID):
		return "host_uuid: " + idRule
	case !slices.Contains([]VerdictOutcome{VerdictOK, VerdictRejected}, v.Outcome):
		return fmt.Sprintf("verdict.outcome: is %q, must be %s or %s", v.Outcome, VerdictOK, VerdictRejected)
	case v.Outcome == VerdictOK && v.Reason != "":
		return "verdict.reason: must be empty for an OK"
	case v.Outcome == VerdictRejected && !isID(v.Reason):
		return "verdict.reason: " + idRule
	case len(v.Detail) > MaxVerdictDetail:
		return fmt.Sprintf("verdict.detail: has %d bytes, may have %d", len(v.Detail), MaxVerdictDetail)
	case !isID(v.BootID):
		return "verdict.boot_id: " + idRule
	case v.Version > 1<<63-1:
		return "verdict.version: is too great"
	case j.End && v.Outcome != VerdictRejected:
		return "end: only a REJECTED claim is ended"
	}
	return textProblem("verdict.detail", v.Detail)
}
