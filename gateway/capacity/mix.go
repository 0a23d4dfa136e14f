package capacity

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// mix places shapes in turn on one copy of all cells, each where a selection would, until a shape finds no host or
// most instances are placed. A pick only changes its own cell, so other cells' answers stay valid for an equal query.
func (q *question) mix(ctx context.Context, shapes []*shape, most int) ([]*cellgatev1.ShapeCapacity, bool, error) {
	for _, c := range q.cells {
		if c.err != nil && len(shapes) == 1 && shapes[0].ranked() {
			return nil, false, fault.New(fault.CellUnavailable, "members of the server group may be in cell %s, which does not answer: %s", c.Name(), cellclient.ReasonOf(c.err)).With("cells", c.Name())
		}
	}
	return q.newMixture(shapes, q.answering()...).place(ctx, most)
}

func (q *question) newMixture(shapes []*shape, cells ...*trialCell) *mixture {
	m := &mixture{question: q, shapes: shapes, expected: make([]*schedule.GlobalStats, len(shapes)), exact: true}
	for _, c := range cells {
		m.cells = append(m.cells, &mixedCell{trialCell: c, reset: true, answers: make([]answer, len(shapes)), counts: make([]int, len(shapes)), hosts: make([]map[schedule.ID]bool, len(shapes))})
	}
	return m
}

// mixture is the state of one mix.
type mixture struct {
	*question
	shapes []*shape
	cells  []*mixedCell
	// expected has the last known statistics of all cells, by shape.
	expected []*schedule.GlobalStats
	exact    bool
	// built: each instance is on its host before the next one is placed.
	built bool
}

// mixedCell is a cell with the instances placed there.
type mixedCell struct {
	*trialCell
	// unsent are the placements not yet sent to the cell; placed counts all. reset: the cell's copy still has those
	// of an earlier mix.
	unsent []*cellv1.TrialPlacement
	placed int
	reset  bool
	// answers are the last answers, by shape; counts the numbers of instances placed, and hosts the hosts that they
	// are on.
	answers []answer
	counts  []int
	hosts   []map[schedule.ID]bool
}

// answer is a cell's answer to a query, and the number of instances placed there at that time.
type answer struct {
	query    schedule.Query
	placed   int
	proposal *schedule.Proposal
}

func (m *mixture) place(ctx context.Context, most int) ([]*cellgatev1.ShapeCapacity, bool, error) {
	for placed := 0; ; {
		for i, s := range m.shapes {
			for range s.share {
				if placed == most {
					return m.result(-1, nil, cellgatev1.CapacityEnd_LIMIT), m.exact, nil
				}
				found, err := m.pick(ctx, i, instance(placed))
				if errors.Is(err, context.DeadlineExceeded) {
					return m.result(-1, nil, cellgatev1.CapacityEnd_TIME), m.exact, nil
				}
				if err != nil {
					return nil, false, err
				}
				if found.Failed >= 0 {
					return m.result(i, found, cellgatev1.CapacityEnd_FULL), m.exact, nil
				}
				m.bind(i, found.Picks[0].Candidate.ServiceHost)
				placed++
			}
		}
	}
}

// bind narrows a shape with hard affinity to the host of its first pick, as the claim of a selection does. If the
// request names several hosts for the group, the others are no longer candidates.
func (m *mixture) bind(i int, host string) {
	s := m.shapes[i]
	if !s.ranked() || s.Request.Forced() || len(s.Request.Group.Hosts) < 2 {
		return
	}
	r := *s.Request
	r.Group = new(*r.Group)
	r.Group.Hosts = []string{host}
	s.Form = &selection.Form{Request: &r, Rules: s.Rules, Ignored: s.Ignored}
	s.placement = s.Placement()
	m.expected[i] = nil
	for _, c := range m.cells {
		c.answers[i] = answer{}
	}
}

// pick places one instance of a shape.
func (m *mixture) pick(ctx context.Context, i int, id schedule.ID) (*merge.Result, error) {
	s := m.shapes[i]
	plan := merge.NewPlan(merge.Config{Request: s.Request, Rules: s.Rules, Seed: m.seed, Instances: []schedule.ID{id}, Cells: len(m.cells), Expected: m.expected[i]})
	for asks := plan.Next(); len(asks) > 0; asks = plan.Next() {
		answers, errs := make([]*schedule.Proposal, len(asks)), make([]error, len(asks))
		var all sync.WaitGroup
		for k := range asks {
			all.Go(func() { answers[k], errs[k] = m.propose(ctx, i, &asks[k]) })
		}
		all.Wait()
		for k, a := range asks {
			if errs[k] != nil {
				return nil, m.failed(ctx, a.Cell, errs[k])
			}
			if err := plan.Answer(a.Cell, answers[k]); err != nil {
				return nil, fault.Wrap(fault.Internal, err, "cell %s gave an invalid answer to a question of capacity", m.cells[a.Cell].Name())
			}
		}
	}
	found := plan.Result()
	if found.NovaException != nil {
		return nil, fault.New(fault.InvalidRequest, "strict_nova is set and Nova fails such a request: %s", found.NovaException)
	}
	m.expected[i], m.exact = &found.Known, m.exact && found.Exact
	for _, p := range found.Picks {
		c := m.cells[p.Cell]
		host := p.Candidate.Host
		c.unsent = append(c.unsent, &cellv1.TrialPlacement{Placement: s.placement, HostUuid: host.String(), InstanceUuid: id.String(), Built: m.built})
		c.placed++
		c.counts[i]++
		if c.hosts[i] == nil {
			c.hosts[i] = map[schedule.ID]bool{}
		}
		c.hosts[i][host] = true
	}
	return found, nil
}

// failed gives the error of a mix whose cell does not answer. The placements on that cell's copy are lost, so the mix
// cannot go on.
func (m *mixture) failed(ctx context.Context, cell int, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if kind := fault.KindOf(err); kind == fault.InvalidRequest {
		return err
	}
	name := m.cells[cell].Name()
	return fault.Wrap(fault.CellUnavailable, err, "cell %s stopped answering while instances were placed: %s", name, cellclient.ReasonOf(err)).With("cells", name)
}

// propose asks a cell, unless it has answered the same query and nothing was placed there since.
func (m *mixture) propose(ctx context.Context, i int, a *merge.Ask) (*schedule.Proposal, error) {
	c := m.cells[a.Cell]
	last := &c.answers[i]
	if last.proposal != nil && last.placed == c.placed && last.query.Limit == a.Query.Limit && last.query.NearMisses == a.Query.NearMisses && reflect.DeepEqual(last.query.Known, a.Query.Known) {
		return last.proposal, nil
	}
	got, err := c.trial.Ask(ctx, &cellv1.AskTrial{Reset_: c.reset, Placements: c.unsent, Query: wire.EncodeQuery(&a.Query, m.shapes[i].placement)})
	if err != nil {
		return nil, err
	}
	c.unsent, c.reset = nil, false
	p, err := wire.DecodeProposal(got)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the cell's answer is malformed")
	}
	*last = answer{query: a.Query, placed: c.placed, proposal: p}
	return p, nil
}

// result counts the placed instances. full is the shape that found no host; -1 for none.
func (m *mixture) result(full int, found *merge.Result, end cellgatev1.CapacityEnd) []*cellgatev1.ShapeCapacity {
	out := make([]*cellgatev1.ShapeCapacity, len(m.shapes))
	for i, s := range m.shapes {
		shape := &cellgatev1.ShapeCapacity{Name: s.name, End: end}
		if full >= 0 && i != full {
			shape.End = cellgatev1.CapacityEnd_OTHER_FULL
		}
		for _, c := range m.cells {
			shape.Instances += int32(c.counts[i])
			shape.Cells = append(shape.Cells, &cellgatev1.CellCapacity{Cell: c.Name(), Instances: int32(c.counts[i]), HostsUsed: int32(len(c.hosts[i]))})
		}
		if i == full {
			for _, p := range found.Last {
				if p == nil {
					continue
				}
				shape.Hosts += int32(p.Hosts)
				for _, r := range wire.EncodeRejects(p.Rejects) {
					shape.Rejects = selection.AddReject(shape.Rejects, r)
				}
			}
		}
		out[i] = shape
	}
	return out
}
