package selection

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

const (
	// defaultRanked is how many ranked hosts an explanation has when the request names no max_alternates.
	defaultRanked = 10
	// nearestHosts bounds the near misses of an explanation, and those requested from each cell.
	nearestHosts = 10
	// refusedNearest and refusedConditions bound the near misses and conditions of a refusal. It travels in a
	// trailer, of which many clients accept only 8 KiB. The smallest change is computed from all of them.
	refusedNearest, refusedConditions = 3, 12
	// maxMisses bounds the conditions that a host in a refusal, or of a smallest change, lacks: a host that lacks
	// more is not near.
	maxMisses = 8
	// maxSpared is how often a patient query asks a cell again that had no time for near misses; sparedPause is the
	// pause before.
	maxSpared, sparedPause = 10, 20 * time.Millisecond
)

// Explain says what a selection would do for its first instance, and claims nothing. It merges as a selection does.
// Then it asks each cell, on the same version of its table, for its best hosts by the statistics of all cells, and
// for its near misses. Of several instances it also gives how the whole request would be refused.
func (svc *Service) Explain(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.ExplainDestinationsResponse, error) {
	s, err := svc.newSelection(ctx, req)
	if err != nil {
		return nil, err
	}
	s.dryRun, s.alternates = true, 0
	whole := s.instances
	s.instances, s.places = s.instances[:1], s.places[:1]
	if err := s.toRebuild(ctx); err != nil {
		return nil, s.explain(ctx, err)
	}
	s.route(ctx)
	m, err := s.propose(ctx, s.pending())
	for err == nil && len(m.existing) > 0 { // the source of a move
		if err = s.takeOver(ctx, m.existing); err == nil {
			m, err = s.propose(ctx, s.pending())
		}
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	limit := defaultRanked
	if n := req.GetMaxAlternates(); n > 0 {
		limit = int(n)
	}
	answers := s.askEachCell(ctx, m, nearMissAsk{limit: limit, ranked: true, patient: true})
	s.report(m)
	out := &cellgatev1.ExplainDestinationsResponse{IgnoredFields: s.ignored, Seed: s.seed}
	var misses []cellMisses
	var best []ranked
	for k, p := range answers {
		c := s.svc.Cells.All[m.cells[k]]
		if p == nil {
			s.markUnavailable(ctx, m.cells[k], fault.New(fault.CellUnavailable, "cell %s did not give its best hosts in time", c.Name()))
			continue
		}
		out.Hosts += int32(p.Hosts)
		out.Passed += int32(p.Passed)
		for _, r := range reportOf(p).GetRejects() {
			out.Rejects = AddReject(out.Rejects, r)
		}
		for i := range p.Candidates {
			best = append(best, ranked{c, &p.Candidates[i]})
		}
		misses = append(misses, cellMisses{c.Name(), p.Hosts, p.NearMisses})
	}
	out.Ranked = s.rankedHosts(best, &m.result.Known, limit)
	why := joinMisses(misses)
	out.Conditions, out.Nearest, out.UnexaminedCells = why.conditions, why.nearest, why.unexamined
	out.Cells, out.Partial = s.cellReports()
	out.Exact = s.inexact == "" && !out.Partial
	if out.GetPassed() == 0 {
		found := append(why.found, s.changesElsewhere(ctx, nearMissAsk{ranked: true})...)
		out.Changes, out.SmallestOperatorChange = requestChanges(found), why.operatorChange
	}
	if len(whole) > 1 {
		if err := s.explainAll(ctx, out, whole); err != nil {
			return nil, s.explain(ctx, err)
		}
	}
	out.SmallestChange = smallestChange(out.GetChanges())
	return out, nil
}

// ranked is a host that passed, and its cell.
type ranked struct {
	cell *cellclient.Cell
	*schedule.Candidate
}

// rankedHosts gives the best hosts, at most limit, with what each weigher gave to each. It sorts hosts.
func (s *selection) rankedHosts(hosts []ranked, known *schedule.GlobalStats, limit int) (out []*cellgatev1.RankedHost) {
	slices.SortFunc(hosts, func(a, b ranked) int {
		if a.Better(b.Candidate) {
			return -1
		}
		return 1
	})
	for _, h := range hosts[:min(len(hosts), limit)] {
		sel := s.selectionOf(h.cell, h.Candidate)
		host := &cellgatev1.RankedHost{
			Cell: sel.GetCell(), HostUuid: sel.GetComputeNodeUuid(), ServiceHost: sel.GetServiceHost(), Nodename: sel.GetNodename(),
			AvailabilityZone: sel.GetAvailabilityZone(), Weight: h.Weight, Tie: h.Tie, AllocationRequest: sel.GetAllocationRequest(),
		}
		for _, x := range merge.Scores(s.rules, known, h.Candidate) {
			host.Scores = append(host.Scores, &cellgatev1.WeigherScore{
				Weigher: x.Weigher, Multiplier: x.Multiplier, Raw: x.Raw, Normalized: x.Normalized, Score: x.Value,
			})
		}
		out = append(out, host)
	}
	return out
}

// explainAll gives the refusal of the request of all instances, and the changes for it instead of those for the first
// instance.
func (s *selection) explainAll(ctx context.Context, out *cellgatev1.ExplainDestinationsResponse, instances []schedule.ID) error {
	refusal, err := s.refusalOfAll(ctx, instances)
	if err != nil {
		return err
	}
	out.Changes, out.SmallestOperatorChange = nil, ""
	if refusal == nil {
		return nil
	}
	out.Refusal = refusal.Message
	if refusal.Detail != nil {
		d, _ := refusal.Detail.(*cellgatev1.NoValidHost)
		out.Changes, out.SmallestOperatorChange, out.UnexaminedCells = d.GetChanges(), d.GetSmallestOperatorChange(), d.GetUnexaminedCells()
	}
	return nil
}

// refusalOfAll is how the request of all instances would be refused; nil if all find hosts.
func (s *selection) refusalOfAll(ctx context.Context, instances []schedule.ID) (*fault.Error, error) {
	s.instances, s.places = instances, make([]*place, len(instances))
	m, err := s.propose(ctx, s.pending())
	if err != nil || len(m.existing) > 0 || m.result.Failed < 0 {
		return nil, err
	}
	var refusal *fault.Error
	errors.As(s.noHost(ctx, m, s.pending(), true), &refusal)
	return refusal, nil
}

// nearMissAsk says what to ask cells for beside near misses.
type nearMissAsk struct {
	limit int
	// ranked: ask for the best hosts too, by the statistics of all cells before the first pick. Otherwise the cells
	// look for near misses after the failed plan result for instances.
	ranked    bool
	result    *merge.Result
	instances []schedule.ID
	// patient: ask cells again that had no time for near misses.
	patient bool
}

// askEachCell asks the cells of a merge once more, on the same versions of their tables. The proposal is nil for a
// cell that does not answer in time.
func (s *selection) askEachCell(ctx context.Context, m *merged, ask nearMissAsk) []*schedule.Proposal {
	return s.askNearMisses(ctx, m.cells, m.versions, ask, func(k int, q schedule.Query) schedule.Query {
		if ask.ranked {
			known := m.result.Known
			q.Known = &known
			return q
		}
		return ask.result.NearMissQuery(q, k, ask.instances)
	})
}

// askNearMisses asks cells for near misses, with the query that of makes for each. versions are the table versions to
// use; nil for the newest.
func (s *selection) askNearMisses(ctx context.Context, cells []int, versions []string, ask nearMissAsk, of func(k int, q schedule.Query) schedule.Query) []*schedule.Proposal {
	request := s.planned()
	placement := placementBytes(request, s.rules, s.moving())
	asks := make([]merge.Ask, 0, len(cells))
	queries := make([]*cellv1.Query, 0, len(cells))
	for k := range cells {
		if s.cells[cells[k]].lost != nil {
			continue
		}
		q := of(k, schedule.Query{Request: request, Rules: s.rules, Seed: s.seed, Limit: max(1, ask.limit), NearMisses: nearestHosts})
		query := wire.EncodeQuery(&q, placement)
		if versions != nil {
			query.TableVersion = versions[k]
		}
		asks, queries = append(asks, merge.Ask{Cell: k, Query: q}), append(queries, query)
	}
	out := make([]*schedule.Proposal, len(cells))
	for try := 0; len(asks) > 0; try++ {
		answers, _ := s.round(ctx, s.rounds+1, cells, asks, queries)
		var spared []int
		for i, got := range answers {
			if got.Err != nil {
				continue // the answer lacks this cell
			}
			p, err := wire.DecodeProposal(got.Proposal)
			if err != nil {
				continue
			}
			out[asks[i].Cell] = p
			if p.NearMisses == nil {
				spared = append(spared, i)
			}
		}
		if !ask.patient || len(spared) == 0 || try == maxSpared || cellclient.Pause(ctx, sparedPause) != nil {
			break
		}
		for k, i := range spared {
			asks[k], queries[k] = asks[i], queries[i]
		}
		asks, queries = asks[:len(spared)], queries[:len(spared)]
	}
	return out
}

// cellMisses are the near misses of a cell, nil if it did not look for any, and the number of hosts that it looked
// at.
type cellMisses struct {
	cell  string
	hosts int
	of    *schedule.NearMisses
}

// whyNot joins near misses of all cells.
type whyNot struct {
	conditions []*cellgatev1.Condition
	nearest    []*cellgatev1.NearMiss
	// found are changes of the request for one instance, changes those for the whole request.
	found          []schedule.Change
	changes        []*cellgatev1.RequestChange
	operatorChange string
	// unexamined are cells that did not look at what their hosts lack.
	unexamined []string
}

func joinMisses(cells []cellMisses) whyNot {
	var w whyNot
	for _, c := range cells {
		if c.of == nil {
			if c.hosts > 0 {
				w.unexamined = append(w.unexamined, c.cell)
			}
			continue
		}
		w.found = append(w.found, c.of.Changes...)
		encoded := wire.EncodeNearMisses(c.of)
		for _, x := range encoded.GetConditions() {
			at := slices.IndexFunc(w.conditions, func(have *cellgatev1.Condition) bool {
				return have.GetFilter() == x.GetFilter() && have.GetDetail() == x.GetDetail()
			})
			if at < 0 {
				w.conditions = append(w.conditions, x)
				continue
			}
			w.conditions[at].Hosts += x.GetHosts()
			w.conditions[at].Alone += x.GetAlone()
			addBounds(w.conditions[at], x.GetBounds())
		}
		for _, x := range encoded.GetNearest() {
			x.Cell, x.Misses = c.cell, withoutImplied(x.GetMisses())
			w.nearest = append(w.nearest, x)
		}
	}
	slices.SortStableFunc(w.nearest, func(a, b *cellgatev1.NearMiss) int {
		return cmp.Or(cmp.Compare(a.GetCost(), b.GetCost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()))
	})
	for _, m := range w.nearest {
		if len(m.GetMisses()) <= maxMisses && !m.GetChangeable() && w.operatorChange == "" && !slices.ContainsFunc(m.GetMisses(), asksTooMuch) {
			w.operatorChange = operatorChange(m)
		}
	}
	if len(w.nearest) > nearestHosts {
		w.nearest = w.nearest[:nearestHosts]
	}
	return w
}

// withoutImplied leaves out the miss that the whole tree does not pass, if another miss names the part that does not.
func withoutImplied(misses []*cellgatev1.Miss) []*cellgatev1.Miss {
	ofTree := func(x *cellgatev1.Miss) bool { return x.GetFilter() == schedule.TreeFilter }
	if !slices.ContainsFunc(misses, func(x *cellgatev1.Miss) bool { return ofTree(x) && x.GetDetail() != "" }) {
		return misses
	}
	return slices.DeleteFunc(misses, func(x *cellgatev1.Miss) bool { return ofTree(x) && x.GetDetail() == "" })
}

// addBounds adds the counts of bounds to a condition.
func addBounds(c *cellgatev1.Condition, more []*cellgatev1.BoundCount) {
	for _, b := range more {
		at := slices.IndexFunc(c.GetBounds(), func(have *cellgatev1.BoundCount) bool { return have.GetBound() == b.GetBound() })
		if at < 0 {
			c.Bounds = append(c.Bounds, b)
			continue
		}
		have := c.GetBounds()[at]
		have.Hosts += b.GetHosts()
		if x := schedule.Bound(b.GetBound()); x == schedule.BoundFree || x == schedule.BoundMax {
			have.Nearest = max(have.GetNearest(), b.GetNearest())
		} else {
			have.Nearest = min(have.GetNearest(), b.GetNearest())
		}
	}
	slices.SortStableFunc(c.GetBounds(), func(a, b *cellgatev1.BoundCount) int { return cmp.Compare(b.GetHosts(), a.GetHosts()) })
}

// addTo adds conditions, near misses and changes to a refusal.
func (w whyNot) addTo(d *cellgatev1.NoValidHost) {
	// Stable: conditions of equally many hosts stay in filter order.
	slices.SortStableFunc(w.conditions, func(a, b *cellgatev1.Condition) int { return cmp.Compare(b.GetHosts(), a.GetHosts()) })
	near := slices.DeleteFunc(w.nearest, func(x *cellgatev1.NearMiss) bool { return len(x.GetMisses()) > maxMisses })
	d.Conditions, d.Nearest = w.conditions[:min(len(w.conditions), refusedConditions)], near[:min(len(near), refusedNearest)]
	d.SmallestChange, d.Changes, d.SmallestOperatorChange, d.UnexaminedCells = smallestChange(w.changes), w.changes, w.operatorChange, w.unexamined
}
