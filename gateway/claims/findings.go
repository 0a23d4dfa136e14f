package claims

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// ListFindings asks every replica of the cells for its findings, since each compares its own
// table. It adds unfinished moves, which no single cell sees.
func (svc *Service) ListFindings(ctx context.Context, req *cellgatev1.ListFindingsRequest) (*cellgatev1.ListFindingsResponse, error) {
	only := svc.Cells.Named(req.GetCell())
	if req.GetCell() != "" && only == nil {
		return nil, fault.New(fault.NotFound, "%s", svc.Cells.NoCell(req.GetCell()))
	}
	seen := svc.askFindings(ctx)
	found, repaired := svc.moves.find(ctx, svc, seen)
	resp := &cellgatev1.ListFindingsResponse{}
	wanted := func(cell string) bool { return only == nil || only.Name() == cell }
	for _, s := range seen {
		if wanted(s.cell.Name()) {
			resp.Cells = append(resp.Cells, s.shown)
			found = append(found, s.findings...)
		}
	}
	for _, f := range append(found, repaired...) {
		if wanted(f.GetCell()) && (req.GetKind() == 0 || f.GetKind() == req.GetKind()) && (f.GetRepairedAt() == nil || req.GetRepaired()) {
			resp.Findings = append(resp.Findings, f)
		}
	}
	slices.SortStableFunc(resp.GetFindings(), func(a, b *cellgatev1.Finding) int {
		return cmp.Or(cmp.Compare(a.GetCell(), b.GetCell()), cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetServiceHost(), b.GetServiceHost()),
			cmp.Compare(a.GetHostUuid(), b.GetHostUuid()), cmp.Compare(a.GetClaimId(), b.GetClaimId()), cmp.Compare(a.GetConsumerUuid(), b.GetConsumerUuid()))
	})
	return resp, ctx.Err()
}

// cellFindings is what the replicas of a cell found.
type cellFindings struct {
	cell     *cellclient.Cell
	shown    *cellgatev1.ReconciledCell
	findings []*cellgatev1.Finding
	movedIn  []*cellv1.MovedIn
	// repairs is true if every replica that answered repairs findings where that is safe.
	repairs bool
}

// askFindings asks all replicas of all cells, except cells without schedulers of their own.
func (svc *Service) askFindings(ctx context.Context) []*cellFindings {
	var list []*cellFindings
	var all sync.WaitGroup
	for _, c := range svc.Cells.All {
		if svc.Unscheduled(c) {
			continue
		}
		s := &cellFindings{cell: c}
		list = append(list, s)
		all.Go(func() { s.askReplicas(ctx) })
	}
	all.Wait()
	slices.SortFunc(list, func(a, b *cellFindings) int { return cmp.Compare(a.cell.Name(), b.cell.Name()) })
	return list
}

// askReplicas joins the answers of the cell's replicas. A finding that several replicas report is
// listed once, since the earliest of their times. An open finding is left out if another replica
// repaired it after the last comparison of the replica that reports it.
func (s *cellFindings) askReplicas(ctx context.Context) {
	s.shown, s.repairs = &cellgatev1.ReconciledCell{Cell: s.cell.Name()}, true
	answers, errs := make([]*cellv1.ListFindingsResponse, len(s.cell.Replicas)), make([]error, len(s.cell.Replicas))
	var all sync.WaitGroup
	for i, r := range s.cell.Replicas {
		all.Go(func() { answers[i], errs[i] = r.ListFindings(ctx) })
	}
	all.Wait()
	repaired := map[[7]string]time.Time{} // the last repair of each finding, by the key of the open one
	for _, got := range answers {
		for _, f := range got.GetFindings() {
			key := findingKey(f)
			key[6] = ""
			if at := f.GetRepairedAt(); at != nil && at.AsTime().After(repaired[key]) {
				repaired[key] = at.AsTime()
			}
		}
	}
	moved, byKey := map[string]bool{}, map[[7]string]int{}
	for i, got := range answers {
		if errs[i] != nil {
			s.shown.Error = cmp.Or(s.shown.GetError(), s.cell.Replicas[i].Addr+": "+cellclient.ReasonOf(errs[i]))
			continue
		}
		s.repairs = s.repairs && got.GetRepairs()
		s.shown.Cut = s.shown.GetCut() || got.GetCut()
		s.shown.Hosts, s.shown.HostsCompared = max(s.shown.GetHosts(), got.GetHosts()), max(s.shown.GetHostsCompared(), got.GetHostsCompared())
		if at := got.GetLookedAt(); s.shown.GetLookedAt() == nil || at.AsTime().Before(s.shown.GetLookedAt().AsTime()) {
			s.shown.LookedAt = at
		}
		for _, m := range got.GetMovedIn() {
			if !moved[m.GetClaimId()] {
				moved[m.GetClaimId()] = true
				s.movedIn = append(s.movedIn, m)
			}
		}
		for _, f := range got.GetFindings() {
			f.Cell = s.cell.Name()
			key := findingKey(f)
			if repaired[key].After(got.GetLookedAt().AsTime()) {
				continue
			}
			at, there := byKey[key]
			if !there {
				byKey[key] = len(s.findings)
				s.findings = append(s.findings, f)
				continue
			}
			if f.GetSince().AsTime().Before(s.findings[at].GetSince().AsTime()) {
				s.findings[at].Since = f.GetSince()
			}
		}
	}
}

// findingKey identifies a finding within its cell. Its last part is the time of the repair, empty for an open finding.
func findingKey(f *cellgatev1.Finding) [7]string {
	at := ""
	if f.GetRepairedAt() != nil {
		at = f.GetRepairedAt().AsTime().String()
	}
	return [7]string{f.GetKind().String(), f.GetHostUuid(), f.GetClaimId(), f.GetConsumerUuid(), f.GetProviderUuid(), f.GetResourceClass(), at}
}
