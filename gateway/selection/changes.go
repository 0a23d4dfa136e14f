package selection

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// maxOtherMisses bounds the conditions of a suggested change other than the smallest.
const maxOtherMisses = 3

// whyNot gives what hosts lack for the instance that a plan found no host for, and changes with which all instances
// would find one. It leaves out the hosts of a cell that does not answer in time, or no longer keeps the table
// version.
func (s *selection) whyNot(ctx context.Context, m *merged, result *schedule.Result, instances []schedule.ID, patient bool) whyNot {
	ask := nearMissAsk{limit: 1, result: result, instances: instances, patient: patient}
	var misses []cellMisses
	answers := s.askEachCell(ctx, m, ask)
	for k, p := range answers {
		of := cellMisses{cell: s.svc.cells.All[m.cells[k]].Name()}
		if last := result.Last[k]; last != nil {
			of.hosts = last.Hosts
		}
		if p != nil {
			of.hosts, of.of = p.Hosts, p.NearMisses
		}
		misses = append(misses, of)
	}
	why := joinMisses(misses)
	answers = append(answers, s.askSkipped(ctx, ask)...)
	if len(instances) == 1 {
		why.changes = requestChanges(changesIn(answers))
		return why
	}
	if why.operatorChange != "" {
		why.operatorChange = "for one more instance: " + why.operatorChange
	}
	why.changes = s.changesOfAll(ctx, m, result, instances, answers)
	return why
}

// changesIn gives the changes of the request that cells suggested.
func changesIn(answers []*schedule.Proposal) (list []schedule.Change) {
	for _, p := range answers {
		if p != nil && p.NearMisses != nil {
			list = append(list, p.NearMisses.Changes...)
		}
	}
	return list
}

// askSkipped asks the cells that routing left out for what the request needs: a changed request could go there.
func (s *selection) askSkipped(ctx context.Context, ask nearMissAsk) []*schedule.Proposal {
	return s.askNearMisses(ctx, s.skipped(), nil, ask, func(_ int, q schedule.Query) schedule.Query {
		if ask.result != nil {
			q = ask.result.NearMissQuery(q, -1, ask.instances)
		}
		return q
	})
}

// skipped lists the cells that routing left out for what the request needs, and that can be asked.
func (s *selection) skipped() (cells []int) {
	for i, c := range s.svc.cells.All {
		if at := &s.cells[i]; at.skip != "" && at.lost == nil && !c.Disabled() && s.svc.gates.Disabled(c) == "" && c.Unusable() == nil {
			cells = append(cells, i)
		}
	}
	return cells
}

// changesOfAll gives changes with which all of several instances find hosts, or the number of instances that fit
// unchanged. Each suggested change was planned.
func (s *selection) changesOfAll(ctx context.Context, m *merged, result *schedule.Result, instances []schedule.ID, answers []*schedule.Proposal) []*cellgatev1.RequestChange {
	ctx, cancel := context.WithTimeout(ctx, cellclient.StepBudget(ctx, s.svc.cfg.ClaimBudget))
	defer cancel()
	fits := func(misses []schedule.Miss) bool {
		if len(misses) > maxMisses {
			return false
		}
		changed, err := s.planAgain(ctx, m, s.planned().Relaxed(misses), instances)
		return err == nil && changed.Failed < 0
	}
	var openings []schedule.Opening
	for _, p := range answers {
		if p != nil && p.NearMisses != nil {
			openings = append(openings, p.NearMisses.Openings...)
		}
	}
	openings = slices.DeleteFunc(openings, func(o schedule.Opening) bool { return len(o.Misses) > maxMisses })
	missing := len(instances) - result.Failed
	list := requestChanges(append(s.planned().ChangesOfAll(fits), schedule.LeastChanges(openings, missing, schedule.MostKinds, fits)...))
	if n := len(s.instances) - missing; n > 0 {
		text := fmt.Sprintf("ask for at most %d instances (asked %d)", n, len(s.instances))
		if n == 1 {
			text = fmt.Sprintf("ask for at most 1 instance (asked %d)", len(s.instances))
		}
		list = append(list, &cellgatev1.RequestChange{Text: text, Instances: int32(n), Cost: float64(missing) / float64(len(s.instances))})
		slices.SortStableFunc(list, func(a, b *cellgatev1.RequestChange) int { return cmp.Compare(a.GetCost(), b.GetCost()) })
	}
	return list[:min(len(list), schedule.MostKinds)]
}

// planAgain plans a changed request for instances, over the cells of a merge, on the table versions that it saw, and
// over the cells that routing left out.
func (s *selection) planAgain(ctx context.Context, m *merged, request *schedule.Request, instances []schedule.ID) (*schedule.Result, error) {
	placement := placementBytes(request, s.rules, s.moving())
	cells := append(slices.Clone(m.cells), s.skipped()...)
	plan := schedule.NewPlan(schedule.PlanConfig{Request: request, Rules: s.rules, Seed: s.seed, Instances: instances, Cells: len(cells)})
	for k := range m.cells {
		if m.answers[k] == nil || s.cells[m.cells[k]].lost != nil {
			plan.Lost(k)
		}
	}
	for asks := plan.Next(); len(asks) > 0; asks = plan.Next() {
		queries := make([]*cellv1.Query, len(asks))
		for i, a := range asks {
			queries[i] = wire.EncodeQuery(&a.Query, placement)
			if a.Cell < len(m.versions) {
				queries[i].TableVersion = m.versions[a.Cell]
			}
		}
		answers, _ := s.round(ctx, s.rounds+1, cells, asks, queries)
		for i, got := range answers {
			if got.Err != nil {
				return nil, got.Err
			}
			p, err := wire.DecodeProposal(got.Proposal)
			if err == nil {
				err = plan.Answer(asks[i].Cell, p)
			}
			if err != nil {
				return nil, fault.Wrap(fault.Internal, err, "the answer of cell %s is malformed", s.svc.cells.All[cells[asks[i].Cell]].Name())
			}
		}
	}
	return plan.Result(), nil
}

// requestChanges gives the least changes of each kind in the form of answers.
func requestChanges(found []schedule.Change) (list []*cellgatev1.RequestChange) {
	found = slices.DeleteFunc(slices.Clone(found), func(c schedule.Change) bool { return len(c.Misses) > maxMisses })
	for i, c := range schedule.LeastOfEachKind(found, schedule.MostKinds) {
		if i == 0 || len(c.Misses) <= maxOtherMisses {
			misses := wire.EncodeMisses(c.Misses)
			list = append(list, &cellgatev1.RequestChange{Text: requestChange(misses, c.Zone), Misses: misses, Cost: c.Cost})
		}
	}
	return list
}

// smallestChange gives the text of the first change, which is the smallest; "" if there is none.
func smallestChange(list []*cellgatev1.RequestChange) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].GetText()
}
