package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	"cellgate/internal/suggest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

const (
	// defaultDrain is how many instances a plan tries.
	defaultDrain = 10_000
	// maxPlanBytes bounds a plan, so that its message stays below callers' limits.
	maxPlanBytes = 3 << 20
	// explainedShapes bounds the shapes with near misses in a plan: near misses cost ten times as much as a query.
	explainedShapes = 64
	// nearMisses is how many near misses a refusal asks for.
	nearMisses = 10
)

// PlanDrain plans where the instances of hosts to drain would go.
func (svc *Service) PlanDrain(ctx context.Context, req *cellgatev1.PlanDrainRequest) (*cellgatev1.PlanDrainResponse, error) {
	began := time.Now()
	end, err := svc.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := svc.withinTime(ctx)
	defer cancel()
	q := &question{svc: svc, seed: rand.Uint64()}
	if err := q.start(ctx, nil, &cellv1.StartTrial{Drain: req.GetHosts()}); err != nil {
		return nil, err
	}
	defer q.endTrials()
	if err := q.checkDrained(ctx, req.GetHosts()); err != nil {
		return nil, err
	}
	specs := map[string]*structpb.Struct{}
	for _, s := range req.GetSpecs() {
		specs[cellclient.Canonical(s.GetInstanceUuid())] = s.GetNovaRequestSpec()
	}
	d := &drain{question: q, specs: specs, left: cmp.Or(int(req.GetMaxInstances()), defaultDrain), out: &cellgatev1.PlanDrainResponse{
		Exact: true, End: cellgatev1.CapacityEnd_ALL_TRIED, Seed: q.seed,
	}}
	if err := d.plan(ctx); err != nil {
		return nil, err
	}
	d.out.Cells, d.out.Partial = q.reports()
	d.out.Exact = d.out.GetExact() && !d.out.GetPartial()
	d.out.Took = durationpb.New(time.Since(began))
	return d.out, nil
}

// checkDrained refuses hosts that no cell has.
func (q *question) checkDrained(ctx context.Context, names []string) error {
	found := map[string]bool{}
	var skipped []string
	var missing cellclient.Missing
	for _, c := range q.cells {
		switch {
		case c.skip != "":
			skipped = append(skipped, c.Name()+" is "+c.skip)
		case c.err != nil:
			missing.Add(c.Cell, c.err)
		default:
			for _, h := range c.trial.Started.GetDrained() {
				for _, name := range h.GetAsked() {
					found[name] = true
				}
			}
		}
	}
	var wrong []fault.Field
	for i, name := range names {
		if found[name] {
			continue
		}
		if missing.Len() > 0 {
			return missing.Fault("host %q may be in a cell that does not answer", name)
		}
		problem := fmt.Sprintf("no cell that takes instances has a host %q", name)
		if len(wrong) == 0 { // SimilarHost compares all names: once per request is enough
			problem += suggest.Meant(q.svc.Cells.SimilarHost(ctx, name))
		}
		for _, s := range skipped {
			problem += "; " + s
		}
		wrong = append(wrong, fault.Field{Path: fmt.Sprintf("hosts[%d]", i), Problem: problem})
	}
	return fault.InvalidFields(wrong)
}

// drain is the state of one PlanDrain.
type drain struct {
	*question
	out *cellgatev1.PlanDrainResponse
	// specs are Nova's request specs, by instance.
	specs map[string]*structpb.Struct
	// left is how many more instances to try, bytes the size of the plan so far.
	left, bytes int
	// explained counts the shapes for which near misses were asked.
	explained int
}

// leaving is a cell with the instances that must leave its hosts.
type leaving struct {
	*trialCell
	instances []*evacuee
}

func (d *drain) plan(ctx context.Context) error {
	var cells []*trialCell
	for _, c := range d.answering() {
		if len(c.trial.Started.GetDrained()) > 0 {
			cells = append(cells, c)
		} else {
			c.trial.End() // frees the cell for other questions
		}
	}
	var all []leaving
	for _, c := range cells {
		list, err := d.collect(ctx, c)
		if err != nil {
			return err
		}
		all = append(all, leaving{c, list})
	}
	for _, c := range all {
		if err := d.planCell(ctx, c.trialCell, c.instances); err != nil {
			return err
		}
	}
	return nil
}

// planCell finds hosts for a cell's instances, in their order. Cells are independent, since an instance stays in its
// cell.
func (d *drain) planCell(ctx context.Context, c *trialCell, list []*evacuee) error {
	shapes, number := d.shapesOf(list)
	m := d.newMixture(shapes, c)
	m.built = true
	explained := make([]bool, len(shapes))
	for i, e := range list {
		switch {
		case d.out.GetEnd() != cellgatev1.CapacityEnd_ALL_TRIED:
		case d.left == 0 || d.bytes > maxPlanBytes:
			d.out.End = cellgatev1.CapacityEnd_LIMIT
		}
		if d.out.GetEnd() != cellgatev1.CapacityEnd_ALL_TRIED {
			d.out.Untried += int32(len(list) - i)
			break
		}
		d.left--
		if e.unreadable != nil {
			d.unplaced(&cellgatev1.UnplacedInstance{Instance: e.about, Message: e.unreadable.Error()})
			continue
		}
		at := number[i]
		found, err := m.pick(ctx, at, e.id)
		if err == nil && found.Failed >= 0 && !explained[at] && d.explained < explainedShapes {
			explained[at] = true
			d.explained++
			found.Last[0], err = m.propose(ctx, at, &merge.Ask{Query: schedule.Query{Request: e.form.Request, Rules: e.form.Rules, Seed: d.seed, Limit: 1, NearMisses: nearMisses}})
			if err != nil {
				err = m.failed(ctx, 0, err)
			}
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			d.out.End = cellgatev1.CapacityEnd_TIME
			d.out.Untried += int32(len(list) - i)
			return nil
		case err != nil:
			return err
		case found.Failed >= 0:
			refusal, message := selection.Refusal(c.Name(), withoutDrained(found.Last[0], c.trial.Started.GetDrained()))
			d.unplaced(&cellgatev1.UnplacedInstance{Instance: e.about, Refusal: refusal, Message: message})
		default:
			to := &found.Picks[0].Candidate
			move := &cellgatev1.PlannedMove{Instance: e.about, ToHostUuid: to.Host.String(), ToServiceHost: to.ServiceHost, ToNodename: to.NodeName}
			d.bytes += proto.Size(move)
			d.out.Moves = append(d.out.Moves, move)
		}
	}
	d.out.Exact = d.out.Exact && m.exact
	return nil
}

// withoutDrained removes the drained hosts from a proposal's near misses: operators should not enable them.
func withoutDrained(p *schedule.Proposal, drained []*cellgatev1.DrainedHost) *schedule.Proposal {
	if p.NearMisses == nil {
		return p
	}
	misses, out := *p.NearMisses, *p
	misses.Nearest = slices.DeleteFunc(slices.Clone(misses.Nearest), func(m schedule.NearMiss) bool {
		return slices.ContainsFunc(drained, func(h *cellgatev1.DrainedHost) bool { return h.GetHostUuid() == m.Host.String() })
	})
	out.NearMisses = &misses
	return &out
}

func (d *drain) unplaced(u *cellgatev1.UnplacedInstance) {
	d.bytes += proto.Size(u)
	d.out.Unplaced = append(d.out.Unplaced, u)
}

// shapesOf gives the distinct shapes of instances, and for each instance the index of its shape.
func (d *drain) shapesOf(list []*evacuee) (shapes []*shape, number []int) {
	byBytes := map[string]int{}
	number = make([]int, len(list))
	for i, e := range list {
		if e.unreadable != nil {
			continue
		}
		placement := e.form.Placement()
		at, ok := byBytes[string(placement)]
		if !ok {
			at = len(shapes)
			byBytes[string(placement)] = at
			shapes = append(shapes, &shape{Form: e.form, share: 1, placement: placement})
		}
		number[i] = at
	}
	return shapes, number
}
