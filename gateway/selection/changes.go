package selection

import (
	"context"
	"fmt"
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// maxOtherMisses bounds the conditions of a suggested change other than the smallest.
const maxOtherMisses = 3

// whyNot gives what hosts lack for the instance that a plan found no host for, and changes with which all instances
// would find one. It leaves out the hosts of a cell that does not answer in time, or no longer keeps the table version.
func (s *selection) whyNot(ctx context.Context, m *merged, result *merge.Result, instances []schedule.ID, patient bool) whyNot {
	ask := nearMissAsk{limit: 1, result: result, instances: instances, patient: patient}
	var misses []cellMisses
	for k, p := range s.askEachCell(ctx, m, ask) {
		of := cellMisses{cell: s.svc.Cells.All[m.cells[k]].Name()}
		if last := result.Last[k]; last != nil {
			of.hosts = last.Hosts
		}
		if p != nil {
			of.hosts, of.of = p.Hosts, p.NearMisses
		}
		misses = append(misses, of)
	}
	why := joinMisses(misses)
	fit := len(s.instances) - len(instances) + result.Failed
	switch {
	case len(instances) == 1:
		why.changes = requestChanges(append(why.found, s.changesElsewhere(ctx, ask)...))
		return why
	case fit > 0:
		why.changes = fewerInstances(fit, len(s.instances))
	default:
		why.changes = requestChanges(s.changesOfAll(ctx, m, append(why.found, s.changesElsewhere(ctx, ask)...), instances))
	}
	if why.operatorChange != "" {
		why.operatorChange = "for one more instance: " + why.operatorChange
	}
	return why
}

// fewerInstances gives the change of a request of asked instances to the number that fit.
func fewerInstances(fit, asked int) []*cellgatev1.RequestChange {
	return []*cellgatev1.RequestChange{{
		Text: fmt.Sprintf("ask for at most %d of the %d instances", fit, asked), Instances: int32(fit), Cost: float64(asked-fit) / float64(asked),
	}}
}

// changesOfAll gives those changes for one instance with which a plan places all instances.
func (s *selection) changesOfAll(ctx context.Context, m *merged, found []schedule.Change, instances []schedule.ID) []schedule.Change {
	ctx, cancel := context.WithTimeout(ctx, cellclient.StepBudget(ctx, s.svc.Cells.ClaimBudget))
	defer cancel()
	found = slices.DeleteFunc(found, func(c schedule.Change) bool { return len(c.Misses) > maxMisses })
	return slices.DeleteFunc(schedule.LeastOfEachKind(found, schedule.MostKinds), func(c schedule.Change) bool {
		changed, err := s.planAgain(ctx, m, s.planned().Relaxed(c.Misses), instances)
		return err != nil || changed.Failed >= 0
	})
}

// planAgain plans a changed request for instances, over the cells of a merge, on the table versions that it saw, and
// over the cells that routing left out.
func (s *selection) planAgain(ctx context.Context, m *merged, request *schedule.Request, instances []schedule.ID) (*merge.Result, error) {
	placement := placementBytes(request, s.rules, s.moving())
	cells := append(slices.Clone(m.cells), s.skipped()...)
	plan := merge.NewPlan(merge.Config{Request: request, Rules: s.rules, Seed: s.seed, Instances: instances, Cells: len(cells)})
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
				return nil, fault.Wrap(fault.Internal, err, "the answer of cell %s is malformed", s.svc.Cells.All[cells[asks[i].Cell]].Name())
			}
		}
	}
	return plan.Result(), nil
}

// changesElsewhere gives the changes that cells suggest which routing left out for what the request needs: a changed
// request could go there.
func (s *selection) changesElsewhere(ctx context.Context, ask nearMissAsk) (list []schedule.Change) {
	for _, p := range s.askNearMisses(ctx, s.skipped(), nil, ask, func(_ int, q schedule.Query) schedule.Query {
		if ask.result != nil {
			q = ask.result.NearMissQuery(q, -1, ask.instances)
		}
		return q
	}) {
		if p != nil && p.NearMisses != nil {
			list = append(list, p.NearMisses.Changes...)
		}
	}
	return list
}

// skipped lists the cells that routing left out for what the request needs, and that can be asked.
func (s *selection) skipped() (cells []int) {
	for i, c := range s.svc.Cells.All {
		if at := &s.cells[i]; at.skip != "" && at.lost == nil && !c.Disabled() && s.svc.Gates.Disabled(c) == "" && c.Unusable() == nil {
			cells = append(cells, i)
		}
	}
	return cells
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
