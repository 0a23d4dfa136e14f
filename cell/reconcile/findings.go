package reconcile

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// List returns the findings.
func (r *Reconciler) List() *cellv1.ListFindingsResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &cellv1.ListFindingsResponse{
		Hosts: int32(r.hosts), HostsCompared: int32(r.compared), MovedIn: r.movedIn, Repairs: !r.cfg.ReportOnly,
	}
	if !r.lastRound.IsZero() {
		out.LookedAt = timestamppb.New(r.lastRound)
	}
	now := r.now()
	for _, c := range r.open {
		if r.isFindingLocked(c, now) {
			out.Findings = append(out.Findings, r.shownLocked(c))
		}
	}
	slices.SortFunc(out.GetFindings(), compareFindings)
	if len(out.GetFindings()) > maxFindings {
		out.Findings, out.Cut = out.GetFindings()[:maxFindings], true
	}
	for _, f := range r.repaired {
		out.Findings = append(out.Findings, proto.CloneOf(f))
	}
	return out
}

// compareFindings orders findings of one cell.
func compareFindings(a, b *cellgatev1.Finding) int {
	return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetServiceHost(), b.GetServiceHost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()),
		cmp.Compare(a.GetClaimId(), b.GetClaimId()), cmp.Compare(a.GetConsumerUuid(), b.GetConsumerUuid()),
		cmp.Compare(a.GetProviderUuid(), b.GetProviderUuid()), cmp.Compare(a.GetResourceClass(), b.GetResourceClass()))
}
