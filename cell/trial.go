package cell

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"cellgate/cell/gate"
	"cellgate/cell/proposals"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// maxTrials is how many capacity requests a replica serves at once. Others are refused as
	// OVERLOADED.
	maxTrials = 2
	// trialWait is how long a request waits for a slot: the replica may not know yet that another
	// request has just ended.
	trialWait = time.Second
	// maxAddedHosts bounds the copies of hosts that a trial makes: 50,000 take about 100 MB, and a second.
	maxAddedHosts = 50_000
	// trialRest is how long a trial pauses after about as much work, to leave the processor to others.
	trialRest = 2 * time.Millisecond
)

// TryPlacements answers the steps of a trial, one after the other, until the gateway ends the stream.
// The trial works at most half of the time, on one processor, because selections have priority.
func (s *scheduler) TryPlacements(on grpc.BidiStreamingServer[cellv1.TryPlacementsRequest, cellv1.TryPlacementsResponse]) error {
	if err := s.loaded(); err != nil {
		return err
	}
	if err := s.placing(); err != nil {
		return err
	}
	wait := time.NewTimer(trialWait)
	defer wait.Stop()
	select {
	case s.trials <- struct{}{}:
		defer func() { <-s.trials }()
	case <-on.Context().Done():
		return on.Context().Err()
	case <-wait.C:
		return &fault.Error{Kind: fault.Overloaded, Message: "too many questions of capacity are under way in the cell already", RetryAfter: time.Second}
	}
	t := &trial{cell: s.Cell, ctx: on.Context(), caches: map[string]*schedule.FilterCache{}}
	for {
		in, err := on.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := t.step(in)
		if err != nil {
			return err
		}
		if err := on.Send(out); err != nil {
			return err
		}
	}
}

// trial is a copy of the table on which instances are placed. One goroutine owns it.
type trial struct {
	cell  *Cell
	ctx   context.Context
	table *schedule.Table
	// started is the table before any instance was placed.
	started *schedule.Table
	// caches keep the results of filters, by placement.
	caches map[string]*schedule.FilterCache
	// worked is the time worked since the last pause.
	worked time.Duration
}

// maxTrialCaches bounds the memory of a trial: a mix of shapes has at most 16 placements.
const maxTrialCaches = 16

func (t *trial) step(in *cellv1.TryPlacementsRequest) (*cellv1.TryPlacementsResponse, error) {
	began := time.Now()
	switch step := in.GetStep().(type) {
	case *cellv1.TryPlacementsRequest_Start:
		return t.start(step.Start)
	case *cellv1.TryPlacementsRequest_Fill:
		if t.table != nil {
			return t.fill(step.Fill)
		}
	case *cellv1.TryPlacementsRequest_Ask:
		if t.table != nil {
			out, err := t.ask(step.Ask)
			if t.worked += time.Since(began); err == nil && t.worked > trialRest {
				err = t.rest()
			}
			return out, err
		}
	}
	return nil, fault.Invalid("step", "a trial begins with start")
}

// rest pauses the trial; an error means that the stream ended.
func (t *trial) rest() error {
	t.worked = 0
	pause := time.NewTimer(trialRest)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	case <-t.cell.phase.stopping.Done():
		return t.cell.running()
	}
}

func (t *trial) start(in *cellv1.StartTrial) (*cellv1.TryPlacementsResponse, error) {
	c := t.cell
	added := 0
	for _, x := range in.GetChanges().GetAddedHosts() {
		added += int(x.GetCount())
	}
	if added > maxAddedHosts {
		return nil, fault.Invalid("changes.added_hosts", "are %d hosts together; at most %d are possible", added, maxAddedHosts)
	}
	g := c.rows.TableGate.Load() // before the table, which is as new then
	if why := c.table.Imports.WhyUnavailable(g); why != "" {
		return nil, fault.New(fault.CellUnavailable, "%s", why)
	}
	if err := c.journal.AwaitFresh(t.ctx); err != nil {
		return nil, err
	}
	table, name := c.versions.Newest()
	drained := c.drained(in.GetDrain())
	assumed, known := c.rows.Assume(c.uuid, table, in.GetChanges(), drained)
	t.table, t.started = assumed, assumed
	return &cellv1.TryPlacementsResponse{Step: &cellv1.TryPlacementsResponse_Started{Started: &cellv1.TrialStarted{
		TableVersion: name, Hosts: int32(assumed.Len()), Gate: gate.MessageState(g), KnownUuids: known, Drained: drained,
	}}}, nil
}

func (t *trial) fill(in *cellv1.FillTrial) (*cellv1.TryPlacementsResponse, error) {
	request, rules, err := t.cell.shapes.Read(in.GetPlacement())
	if err != nil {
		return nil, err
	}
	last := time.Now()
	filled, err := t.started.Fill(request, rules, int(in.GetMost()), func() error {
		if time.Since(last) < trialRest {
			return t.ctx.Err()
		}
		err := t.rest()
		last = time.Now()
		return err
	})
	switch {
	case err != nil && t.ctx.Err() != nil:
		return nil, t.ctx.Err()
	case err != nil && t.cell.running() != nil:
		return nil, t.cell.running()
	case err != nil:
		return nil, proposals.QueryFailure(err)
	case filled.NovaException != nil:
		return nil, fault.New(fault.InvalidRequest, "strict_nova is set and Nova fails such a request: %s", filled.NovaException)
	}
	return &cellv1.TryPlacementsResponse{Step: &cellv1.TryPlacementsResponse_Filled{Filled: &cellv1.TrialFilled{
		Instances: int32(filled.Instances), HostsUsed: int32(filled.HostsUsed), Limited: filled.Limited,
		Hosts: int32(filled.Hosts), Rejects: wire.EncodeRejects(filled.Rejects),
	}}}, nil
}

func (t *trial) ask(in *cellv1.AskTrial) (*cellv1.TryPlacementsResponse, error) {
	var r wire.Fields
	if in.GetReset_() {
		t.table = t.started
	}
	if len(in.GetPlacements()) > 0 {
		e := t.table.Edit()
		for i, p := range in.GetPlacements() {
			request, rules, err := t.cell.shapes.Read(p.GetPlacement())
			if err != nil {
				return nil, err
			}
			host, instance := r.ID(wire.ItemPath("placements", i, ".host_uuid"), p.GetHostUuid()), r.ID(wire.ItemPath("placements", i, ".instance_uuid"), p.GetInstanceUuid())
			if err := r.Err(); err != nil {
				return nil, err
			}
			place := e.Place
			if p.GetBuilt() {
				place = e.PlaceBuilt
			}
			if !place(schedule.TentativePlacement{Host: host, Instance: instance}, request, rules) {
				return nil, fault.Invalid(wire.ItemPath("placements", i, ".host_uuid"), "the cell has no host %s", host)
			}
		}
		t.table = e.Table()
	}
	q, _, _, err := t.cell.shapes.QueryOf(in.GetQuery())
	if err != nil {
		return nil, err
	}
	q.Stop = func() bool { return t.ctx.Err() != nil }
	found, err := t.cacheOf(in.GetQuery().GetPlacement(), q).Propose(t.table, q)
	if errors.Is(err, schedule.ErrStopped) {
		return nil, t.ctx.Err()
	}
	if err != nil {
		return nil, proposals.QueryFailure(err)
	}
	return &cellv1.TryPlacementsResponse{Step: &cellv1.TryPlacementsResponse_Proposal{Proposal: wire.EncodeProposal(found)}}, nil
}

// cacheOf gives the cache of a placement.
func (t *trial) cacheOf(placement []byte, q *schedule.Query) *schedule.FilterCache {
	if k := t.caches[string(placement)]; k != nil && k.Of(q) {
		return k
	}
	if len(t.caches) >= maxTrialCaches {
		clear(t.caches)
	}
	k := schedule.NewFilterCache(q.Request, q.Rules)
	t.caches[string(placement)] = k
	return k
}
