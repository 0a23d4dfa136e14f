package capacity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// maxQuestions bounds the questions that a gateway answers at once. More are refused as OVERLOADED.
const maxQuestions = 4

// Default bounds of the instances placed for one question.
const (
	defaultEach = 1_000_000
	defaultMix  = 10_000
)

// Deps are the parts of the service.
type Deps struct {
	Cells    *cellclient.Cells
	Selector *selection.Service
	Gates    selection.Gates
	// MaxDeadline bounds a question whose caller set no deadline, or a later one.
	MaxDeadline time.Duration
}

// Service serves EstimateCapacity and PlanDrain. Safe for concurrent use.
type Service struct {
	Deps
	questions chan struct{}
}

// New makes the service.
func New(d Deps) *Service { return &Service{Deps: d, questions: make(chan struct{}, maxQuestions)} }

// question is one call. One goroutine owns it.
type question struct {
	svc    *Service
	shapes []*shape
	cells  []*trialCell
	seed   uint64
}

// shape is a kind of instance.
type shape struct {
	*selection.Form
	name      string
	share     int
	placement []byte
}

// trialCell is a cell of the question.
type trialCell struct {
	*cellclient.Cell
	// trial is nil for a cell that is left out (skip), or that started no copy. err says why the cell's answer is
	// missing.
	trial *cellclient.Trial
	skip  string
	err   error
	gate  cellgatev1.Gate_State
}

// begin takes one of the places for questions; end gives it back.
func (svc *Service) begin() (end func(), err error) {
	select {
	case svc.questions <- struct{}{}:
		return func() { <-svc.questions }, nil
	default:
		return nil, &fault.Error{Kind: fault.Overloaded, Message: "too many questions of capacity are under way already", RetryAfter: time.Second}
	}
}

// withinTime bounds the work on a question to nine tenths of the caller's time; the rest is for the answer.
func (svc *Service) withinTime(ctx context.Context) (context.Context, context.CancelFunc) {
	budget := svc.MaxDeadline
	if until, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(until))
	}
	return context.WithTimeout(ctx, budget*9/10)
}

// Estimate gives how many instances of the request's shapes fit.
func (svc *Service) Estimate(ctx context.Context, req *cellgatev1.EstimateCapacityRequest) (*cellgatev1.EstimateCapacityResponse, error) {
	began := time.Now()
	end, err := svc.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	q := &question{svc: svc, seed: rand.Uint64()}
	out := &cellgatev1.EstimateCapacityResponse{Exact: true, Seed: q.seed}
	if err := q.readShapes(ctx, req.GetShapes(), out); err != nil {
		return nil, err
	}
	ctx, cancel := svc.withinTime(ctx)
	defer cancel()
	if err := q.start(ctx, req.GetCells(), &cellv1.StartTrial{Changes: req.GetChanges()}); err != nil {
		return nil, err
	}
	defer q.endTrials()
	most := int(req.GetMaxInstances())
	if req.GetMode() == cellgatev1.CapacityMode_MIX {
		out.Shapes, out.Exact, err = q.mix(ctx, q.shapes, cmp.Or(most, defaultMix))
	} else {
		out.Shapes, out.Exact, err = q.each(ctx, cmp.Or(most, defaultEach))
	}
	if err != nil {
		return nil, err
	}
	for _, s := range out.Shapes {
		s.Message = message(s)
	}
	out.Cells, out.Partial = q.reports()
	out.Exact = out.GetExact() && !out.GetPartial()
	out.Took = durationpb.New(time.Since(began))
	return out, nil
}

func (q *question) readShapes(ctx context.Context, shapes []*cellgatev1.CapacityShape, out *cellgatev1.EstimateCapacityResponse) error {
	for i, in := range shapes {
		path := fmt.Sprintf("shapes[%d].", i)
		req := &cellgatev1.SelectDestinationsRequest{InstanceUuids: []string{instance(i).String()}, DryRun: true}
		switch spec := in.GetSpec().(type) {
		case *cellgatev1.CapacityShape_RequestSpec:
			req.Spec = &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec.RequestSpec}
		case *cellgatev1.CapacityShape_NovaRequestSpec:
			req.Spec = &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: spec.NovaRequestSpec}
		}
		form, err := q.svc.Selector.Translate(ctx, req)
		if err != nil {
			return below(path, err)
		}
		form.Request = form.Request.OfNewMembers()
		if form.Request.Group != nil && in.GetRequestSpec().GetInstanceGroup().GetUuid() == "" && form.Request.Group.Members == nil {
			form.Request.Group.UUID = group(i) // a group that no other shape shares
		}
		for _, field := range form.Ignored {
			out.IgnoredFields = append(out.IgnoredFields, path+field)
		}
		name := cmp.Or(in.GetName(), in.GetRequestSpec().GetFlavor().GetName(), fmt.Sprintf("shape %d", i+1))
		q.shapes = append(q.shapes, &shape{Form: form, name: name, share: max(1, int(in.GetShare())), placement: form.Placement()})
	}
	return nil
}

// below prefixes the fields of an error with path.
func below(path string, err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || len(f.Fields) == 0 {
		return err
	}
	fields := slices.Clone(f.Fields)
	for i := range fields {
		fields[i].Path = path + fields[i].Path
	}
	return fault.InvalidFields(fields)
}

// instance gives the uuid of the nth instance that is placed for a question, group that of a shape's group. They have
// no version, so no real uuid equals them.
func instance(n int) schedule.ID { return madeUp(1, n) }

func group(n int) schedule.ID { return madeUp(2, n) }

func madeUp(kind byte, n int) schedule.ID {
	id := schedule.ID{0: 0xce, 1: 0x11, 2: kind}
	for i := range 8 {
		id[15-i] = byte(n >> (8 * i))
	}
	return id
}

// start copies the tables of the cells, with the assumed changes.
func (q *question) start(ctx context.Context, names []string, assumed *cellv1.StartTrial) error {
	var asked []*cellclient.Cell
	for _, name := range names {
		c := q.svc.Cells.Named(name)
		if c == nil {
			return fault.Invalid("cells", "%s", q.svc.Cells.NoCell(name))
		}
		asked = append(asked, c)
	}
	for _, c := range q.svc.Cells.All {
		if len(asked) > 0 && !slices.Contains(asked, c) {
			continue
		}
		a := &trialCell{Cell: c, skip: q.svc.Gates.Disabled(c)}
		if c.Disabled() {
			a.skip = "disabled by the gateway's configuration"
		}
		q.cells = append(q.cells, a)
	}
	var all sync.WaitGroup
	for _, c := range q.cells {
		if c.skip != "" {
			continue
		}
		all.Go(func() {
			if c.trial, c.err = c.StartTrial(ctx, assumed); c.err == nil {
				c.gate = c.trial.Started.GetGate()
				c.err = q.svc.Gates.Accept(c.Cell, &cellv1.Proposal{Gate: c.gate})
			}
		})
	}
	all.Wait()
	err := ctx.Err()
	if err == nil {
		err = q.checkKnown(assumed.GetChanges())
	}
	if err == nil {
		err = q.checkAnswered()
	}
	if err != nil {
		q.endTrials()
	}
	return err
}

// checkAnswered refuses a question that no cell answers, or of a shape whose only cell does not answer: that no
// instance fits is not known.
func (q *question) checkAnswered() error {
	if err := oneAnswers(q.cells, "no cell answers"); err != nil {
		return err
	}
	for _, s := range q.shapes {
		d := s.Request.Destination
		if d == nil || d.Cell == "" || d.AllowCrossCellMove {
			continue
		}
		own := slices.DeleteFunc(slices.Clone(q.cells), func(c *trialCell) bool { return c.UUID() != d.Cell })
		if err := oneAnswers(own, fmt.Sprintf("no cell that %q may use answers", s.name)); err != nil {
			return err
		}
	}
	return nil
}

// oneAnswers gives an error that begins with message if cells failed and no other one of cells answers.
func oneAnswers(cells []*trialCell, message string) error {
	var missing cellclient.Missing
	for _, c := range cells {
		switch {
		case c.err != nil:
			missing.Add(c.Cell, c.err)
		case c.trial != nil:
			return nil
		}
	}
	if missing.Len() == 0 {
		return nil
	}
	return missing.Fault("%s", message)
}

func (q *question) endTrials() {
	for _, c := range q.cells {
		if c.trial != nil {
			c.trial.End()
		}
	}
}

// checkKnown refuses changes of hosts and aggregates that no cell has. It accepts them if a cell does not answer,
// since that cell may have them.
func (q *question) checkKnown(changes *cellgatev1.HypotheticalChanges) error {
	known := map[string]bool{}
	for _, c := range q.cells {
		switch {
		case c.err != nil && fault.KindOf(c.err) == fault.InvalidRequest:
			return c.err
		case c.err != nil:
			return nil
		case c.trial != nil:
			for _, uuid := range c.trial.Started.GetKnownUuids() {
				known[uuid] = true
			}
		}
	}
	mentioned := map[string]string{} // the field, by uuid
	host := func(field string, uuids ...string) {
		for _, uuid := range uuids {
			mentioned[cellclient.Canonical(uuid)] = "changes." + field
		}
	}
	for i, x := range changes.GetAddedHosts() {
		host(fmt.Sprintf("added_hosts[%d].like_host_uuid", i), x.GetLikeHostUuid())
	}
	for i, x := range changes.GetAggregates() {
		if len(x.GetAddHostUuids()) == 0 {
			host(fmt.Sprintf("aggregates[%d].aggregate_uuid", i), x.GetAggregateUuid())
		}
		host(fmt.Sprintf("aggregates[%d].add_host_uuids", i), x.GetAddHostUuids()...)
		host(fmt.Sprintf("aggregates[%d].remove_host_uuids", i), x.GetRemoveHostUuids()...)
	}
	for i, x := range changes.GetRatios() {
		host(fmt.Sprintf("ratios[%d].host_uuids", i), x.GetHostUuids()...)
		if x.GetAggregateUuid() != "" {
			host(fmt.Sprintf("ratios[%d].aggregate_uuid", i), x.GetAggregateUuid())
		}
	}
	host("drained_hosts", changes.GetDrainedHosts()...)
	var wrong []fault.Field
	for _, uuid := range slices.Sorted(maps.Keys(mentioned)) {
		if !known[uuid] {
			wrong = append(wrong, fault.Field{Path: mentioned[uuid], Problem: "no cell that was asked has " + uuid})
		}
	}
	return fault.InvalidFields(wrong)
}

// answering gives the cells that have a trial and no error.
func (q *question) answering() []*trialCell {
	var out []*trialCell
	for _, c := range q.cells {
		if c.trial != nil && c.err == nil {
			out = append(out, c)
		}
	}
	return out
}

func (q *question) reports() (out []*cellgatev1.CapacityCell, partial bool) {
	for _, c := range q.cells {
		r := &cellgatev1.CapacityCell{Cell: c.Name()}
		switch {
		case c.skip != "":
			r.Outcome, r.Reason = cellgatev1.CellOutcome_SKIPPED, c.skip
		case c.err != nil:
			r.Outcome, r.Reason = cellgatev1.CellOutcome_UNAVAILABLE, cellclient.ReasonOf(c.err)
			partial = true
		default:
			r.Outcome, r.Hosts, r.TableVersion = cellgatev1.CellOutcome_SEARCHED, c.trial.Started.GetHosts(), c.trial.Started.GetTableVersion()
			r.Source, r.Reason = q.svc.Gates.Source(c.Cell, c.gate)
		}
		out = append(out, r)
	}
	return out, partial
}

// message is the text of a shape's result.
func message(s *cellgatev1.ShapeCapacity) string {
	switch s.GetEnd() {
	case cellgatev1.CapacityEnd_LIMIT:
		return fmt.Sprintf("%d were placed, as many as were asked for; more may fit", s.GetInstances())
	case cellgatev1.CapacityEnd_TIME:
		return fmt.Sprintf("%d were placed in the time of the call; more may fit", s.GetInstances())
	case cellgatev1.CapacityEnd_OTHER_FULL:
		return fmt.Sprintf("%d were placed when another shape found no host", s.GetInstances())
	}
	if len(s.GetRejects()) == 0 {
		return fmt.Sprintf("%d fit", s.GetInstances())
	}
	return fmt.Sprintf("%d fit; the next one finds no host: %s", s.GetInstances(), selection.RejectsText(s.GetRejects()))
}
