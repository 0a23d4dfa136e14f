package agents

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// offerOf is a claim as its host's agent gets it.
func offerOf(c *shard.Claim) *agentv1.ReportResponse {
	o := &agentv1.ClaimOffer{
		ClaimId: c.ClaimID, InstanceUuid: c.Instance(), ConsumerUuid: c.ConsumerUUID,
		Confirmed:    c.State == shard.Confirmed,
		MovesClaimId: c.Moves, WantsVerdict: c.State == shard.Pending, TakesAbort: true,
		Usages: make([]*agentv1.Usage, len(c.Allocations)),
	}
	if !c.ExpiresAt.IsZero() {
		o.ExpiresAt = timestamppb.New(c.ExpiresAt)
	}
	usages := make([]agentv1.Usage, len(c.Allocations))
	for i, a := range c.Allocations {
		usages[i].ProviderUuid, usages[i].ResourceClass, usages[i].Amount = a.ProviderUUID, a.ResourceClass, int32(a.Amount)
		o.Usages[i] = &usages[i]
	}
	if c.Guest.HasHardware() {
		o.Guest = c.Guest.Hardware
	}
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_ClaimOffer{ClaimOffer: o}}
}

// judgeOf is the operation that notes a verdict.
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
