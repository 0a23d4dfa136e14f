package selection

import (
	"cmp"
	"context"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

const (
	// defaultRanked is how many ranked hosts an explanation has when the request names no max_alternates.
	defaultRanked = 10
	// nearestHosts is how many near misses an explanation has, and each cell is asked for.
	nearestHosts = 10
	// refusedNearest and refusedConditions bound what a refusal has of them: it travels in a trailer, of which many
	// clients take 8 KiB only. The smallest change is that of all.
	refusedNearest, refusedConditions = 3, 12
	// maxMisses is how many conditions a host of a refusal, or of a smallest change, lacks: one that lacks more is not
	// near.
	maxMisses = 8
	// maxSpared is how often an explanation asks a cell again that had no time left for near misses, and sparedPause how long
	// it waits before.
	maxSpared, sparedPause = 10, 20 * time.Millisecond
)

// Explain says what a selection would do for its first instance, and claims nothing. It merges as a
// selection does; then it asks each cell, on the same version of its table, for its best hosts under what is known
// of all cells, and for its near misses.
func (svc *Service) Explain(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.ExplainDestinationsResponse, error) {
	s, err := svc.newSelection(ctx, req)
	if err != nil {
		return nil, err
	}
	s.dryRun, s.alternates = true, 0
	s.instances, s.places = s.instances[:1], s.places[:1]
	if err := s.toRebuild(ctx); err != nil {
		return nil, s.explain(ctx, err)
	}
	s.route(ctx)
	m, err := s.propose(ctx, s.pending())
	for err == nil && len(m.existing) > 0 { // the claim that a move leaves
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
	answers := s.askEachCell(ctx, m, limit, true)
	s.report(m)
	out := &cellgatev1.ExplainDestinationsResponse{Exact: m.result.Exact && !m.truncated, IgnoredFields: s.ignored, Seed: s.seed}
	var misses []cellMisses
	type ranked struct {
		cell *cellclient.Cell
		*schedule.Candidate
	}
	var best []ranked
	for k, p := range answers {
		if p == nil {
			continue
		}
		c := s.svc.cells.All[m.cells[k]]
		out.Hosts += int32(p.Hosts)
		out.Passed += int32(p.Passed)
		for _, r := range reportOf(p).GetRejects() {
			out.Rejects = addReject(out.Rejects, r)
		}
		for i := range p.Candidates {
			best = append(best, ranked{c, &p.Candidates[i]})
		}
		misses = append(misses, cellMisses{c.Name(), p.NearMisses})
	}
	slices.SortFunc(best, func(a, b ranked) int {
		if a.Better(b.Candidate) {
			return -1
		}
		return 1
	})
	for _, h := range best[:min(len(best), limit)] {
		sel := s.selectionOf(h.cell, h.Candidate)
		host := &cellgatev1.RankedHost{
			Cell: sel.GetCell(), HostUuid: sel.GetComputeNodeUuid(), ServiceHost: sel.GetServiceHost(), Nodename: sel.GetNodename(),
			AvailabilityZone: sel.GetAvailabilityZone(), Weight: h.Weight, Tie: h.Tie, AllocationRequest: sel.GetAllocationRequest(),
		}
		for _, x := range schedule.Scores(s.rules, &m.result.Known, h.Candidate) {
			host.Scores = append(host.Scores, &cellgatev1.WeigherScore{
				Weigher: x.Weigher, Multiplier: x.Multiplier, Raw: x.Raw, Normalized: x.Normalized, Score: x.Value,
			})
		}
		out.Ranked = append(out.Ranked, host)
	}
	why := joinMisses(misses)
	out.Conditions, out.Nearest = why.conditions, why.nearest
	if out.GetPassed() == 0 {
		out.SmallestChange, out.SmallestOperatorChange = why.change, why.operatorChange
	}
	out.Cells, out.Partial = s.cellReports()
	return out, nil
}

// askEachCell asks the cells that took part in a merge once more, on the same versions of their tables, for near
// misses; with ranked for their best hosts under what is known of all cells. It is nil for cells that do not answer
// in time.
func (s *selection) askEachCell(ctx context.Context, m *merged, limit int, ranked bool) []*schedule.Proposal {
	request := s.planned()
	placement := placementBytes(request, s.rules, s.moving())
	asks := make([]schedule.Ask, 0, len(m.cells))
	queries := make([]*cellv1.Query, 0, len(m.cells))
	for k := range m.cells {
		if s.cells[m.cells[k]].lost != nil {
			continue
		}
		q := schedule.Query{Request: request, Rules: s.rules, Seed: s.seed, Limit: limit, NearMisses: nearestHosts}
		if ranked {
			known := m.result.Known
			q.Known = &known
		} else if hosts := m.result.GroupHosts; len(hosts) > 0 {
			q.Known = &schedule.GlobalStats{GroupHosts: hosts, GroupHostsKnown: true}
		}
		for i, pick := range m.result.Picks {
			if pick.Cell == k && !ranked {
				q.Takes = append(q.Takes, schedule.Take{Host: pick.Candidate.Host, Instance: s.instances[i]})
			}
		}
		query := wire.EncodeQuery(&q, placement)
		query.TableVersion = m.versions[k]
		asks, queries = append(asks, schedule.Ask{Cell: k, Query: q}), append(queries, query)
	}
	out := make([]*schedule.Proposal, len(m.cells))
	for try := 0; ; try++ {
		answers, _ := s.round(ctx, s.rounds+1, m.cells, asks, queries)
		var spared []int
		for i, got := range answers {
			if got.Err != nil {
				continue // the answer says less
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
		if !ranked || len(spared) == 0 || try == maxSpared || cellclient.Pause(ctx, sparedPause) != nil {
			break
		}
		for k, i := range spared {
			asks[k], queries[k] = asks[i], queries[i]
		}
		asks, queries = asks[:len(spared)], queries[:len(spared)]
	}
	return out
}

// cellMisses are the near misses of a cell; nil when it looked for none.
type cellMisses struct {
	cell string
	of   *schedule.NearMisses
}

// whyNot joins near misses of all cells.
type whyNot struct {
	conditions             []*cellgatev1.Condition
	nearest                []*cellgatev1.NearMiss
	change, operatorChange string
}

func joinMisses(cells []cellMisses) whyNot {
	var w whyNot
	for _, c := range cells {
		if c.of == nil {
			continue
		}
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
		}
		for _, x := range encoded.GetNearest() {
			x.Cell = c.cell
			w.nearest = append(w.nearest, x)
		}
	}
	slices.SortStableFunc(w.nearest, func(a, b *cellgatev1.NearMiss) int {
		return cmp.Or(cmp.Compare(a.GetCost(), b.GetCost()), cmp.Compare(a.GetHostUuid(), b.GetHostUuid()))
	})
	for _, m := range w.nearest {
		switch {
		case len(m.GetMisses()) > maxMisses:
		case m.GetChangeable() && w.change == "":
			w.change = requestChange(m)
		case !m.GetChangeable() && w.operatorChange == "" && !slices.ContainsFunc(m.GetMisses(), asksTooMuch):
			w.operatorChange = operatorChange(m)
		}
	}
	if len(w.nearest) > nearestHosts {
		w.nearest = w.nearest[:nearestHosts]
	}
	return w
}

// addNearMisses looks for what the hosts lack, and adds it to a refusal. A cell that does not answer in time, or that
// does not keep the version any more, leaves its hosts out.
func (s *selection) addNearMisses(ctx context.Context, m *merged, d *cellgatev1.NoValidHost) {
	var misses []cellMisses
	for k, p := range s.askEachCell(ctx, m, 1, false) {
		if p != nil {
			misses = append(misses, cellMisses{s.svc.cells.All[m.cells[k]].Name(), p.NearMisses})
		}
	}
	addMisses(d, misses)
}

// addMisses adds what hosts lack to a refusal.
func addMisses(d *cellgatev1.NoValidHost, misses []cellMisses) {
	w := joinMisses(misses)
	// Stable: those of as many hosts stay in filter order.
	slices.SortStableFunc(w.conditions, func(a, b *cellgatev1.Condition) int { return cmp.Compare(b.GetHosts(), a.GetHosts()) })
	near := slices.DeleteFunc(w.nearest, func(x *cellgatev1.NearMiss) bool { return len(x.GetMisses()) > maxMisses })
	d.Conditions, d.Nearest = w.conditions[:min(len(w.conditions), refusedConditions)], near[:min(len(near), refusedNearest)]
	d.SmallestChange, d.SmallestOperatorChange = w.change, w.operatorChange
}
