package cell

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// ImportHosts writes what Nova's tables say of hosts, as agents' states are written and
// after claims. Each host has its own outcome; the call fails as a whole only when
// nothing was done. With InstancesOnly nothing is written of a host but its claims, and
// what Nova's tables say of an agent's host (shard.NovaHost).
func (s *scheduler) ImportHosts(ctx context.Context, req *cellv1.ImportHostsRequest) (*cellv1.ImportHostsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	if len(req.GetDeleted()) > 0 && req.GetInstancesAt() == nil {
		return nil, fault.Invalid("instances_at", "is not set, and deleted is")
	}
	out := make([]*cellv1.ImportOutcome, len(req.GetHosts()))
	var ops []shard.Op
	var places []int
	var waits []time.Duration
	var follow []shard.Op
	for i, in := range req.GetHosts() {
		row := s.rows.host(in.GetState().GetHostUuid())
		agents := row != nil && row.host != nil && !row.host.Imported
		if req.GetInstancesOnly() && !agents {
			out[i] = &cellv1.ImportOutcome{}
			continue
		}
		select { // as states of agents do, so that callers have processors left
		case s.decoding <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		put, facts, wait, err := s.importedHost(in, req.GetInstancesOnly())
		<-s.decoding
		if err != nil {
			out[i] = &cellv1.ImportOutcome{Failure: proposing.FailureOf(err)}
			continue
		}
		defer s.rows.expect(put.Host.UUID, facts)()
		if at := req.GetInstancesAt(); at != nil {
			put.InstancesAt = at.AsTime()
		}
		nova := shard.NovaHostOf(&put.Host)
		changes := agents && nova.Changes(row.host)
		if changes || row.instancesUnknown() {
			done, err := s.imports.take(put)
			if err != nil {
				out[i] = &cellv1.ImportOutcome{Failure: proposing.FailureOf(err)}
				continue
			}
			defer done()
		}
		if changes {
			follow = append(follow, shard.Op{SetNovaHost: nova})
		}
		if req.GetInstancesOnly() && !row.instancesUnknown() {
			out[i] = &cellv1.ImportOutcome{LeftToAgent: true}
			continue
		}
		ops, places, waits = append(ops, shard.Op{PutHost: put}), append(places, i), append(waits, wait)
	}
	imports := len(ops)
	answers, err := s.pipeline.do(ctx, append(ops, follow...), false)
	if err != nil {
		return nil, err
	}
	if err := nothingDone(answers); err != nil {
		return nil, err
	}
	if err := s.followed(follow, answers[imports:]); err != nil {
		return nil, err
	}
	for n, a := range answers[:imports] {
		out[places[n]] = s.importOutcome(ops[n].PutHost, a, waits[n])
	}
	res := &cellv1.ImportHostsResponse{Outcomes: out}
	claimed, released, err := s.releaseDeleted(ctx, req.GetDeleted(), req.GetInstancesAt().AsTime())
	res.Claimed, res.DeletedReleased = claimed, int32(released)
	return res, err
}

// followed logs whose aggregates or ratios follow Nova now. A host that went meanwhile has none.
func (c *Cell) followed(ops []shard.Op, answers []answer) error {
	for i, a := range answers {
		switch {
		case a.err != nil:
			return a.err
		case a.outcome.Refusal != nil:
			c.log.Warn("the aggregates and ratios that a host has in Nova were not taken", "host_uuid", ops[i].SetNovaHost.HostUUID, "err", a.outcome.Refusal.Message)
		}
	}
	if len(ops) > 0 {
		c.log.Info("audit: hosts follow Nova's aggregates and ratios", "hosts", len(ops), "first", ops[0].SetNovaHost.HostUUID)
	}
	return nil
}

// importedHost reads a host that is imported. wait is of one that is to be taken back
// from its agent, which with instancesOnly none is.
func (c *Cell) importedHost(in *cellv1.ImportedHost, instancesOnly bool) (put *shard.PutHost, facts *readFacts, wait time.Duration, err error) {
	state := in.GetState()
	if v := state.GetAgentVersion(); v != 0 {
		return nil, nil, 0, fault.Invalid("state.agent_version", "is %d, must be 0: no agent says this", v)
	}
	if err := c.takesFrom(state.GetCell()); err != nil {
		return nil, nil, 0, err
	}
	if put, facts, err = putHostRead(state, c.rows.read); err != nil {
		return nil, nil, 0, err
	}
	put.Host.Imported = true
	if in.GetRetake() && !instancesOnly {
		put.Retake, wait = c.retake(put.Host.UUID)
	}
	return put, facts, wait, nil
}

func (c *Cell) importOutcome(put *shard.PutHost, a answer, wait time.Duration) *cellv1.ImportOutcome {
	if a.err != nil {
		return &cellv1.ImportOutcome{Failure: proposing.FailureOf(a.err)}
	}
	o := a.outcome
	if r := o.Refusal; r != nil {
		return &cellv1.ImportOutcome{Failure: &cellv1.Failure{Reason: string(r.Kind), Message: r.Message}}
	}
	if o.Outdated {
		return &cellv1.ImportOutcome{Failure: proposing.FailureOf(
			fault.New(fault.StaleGeneration, "import %d of host %s comes after a newer one", put.Host.StateVersion, put.Host.ServiceHost))}
	}
	if o.Retaken {
		c.log.Warn("audit: a host was taken back from its agent: its nova-compute is old, or has no row any more, and the agent is gone", "host", put.Host.ServiceHost, "host_uuid", put.Host.UUID,
			"boot_id", put.Retake.BootID, "adopted", o.Adopted, "released", o.Released)
	}
	out := &cellv1.ImportOutcome{
		Unchanged: o.Unchanged, LeftToAgent: o.LeftToAgent, Adopted: int32(o.Adopted), Confirmed: int32(o.Confirmed),
		Released: int32(o.Released), Conflicts: int32(o.Conflicts), Overcommitted: int32(o.Overcommitted), Retaken: o.Retaken,
		InstancesTaken: o.InstancesTaken, Kept: int32(o.Kept),
	}
	if o.LeftToAgent && wait > 0 {
		out.RetakeAfter = durationpb.New(wait)
	}
	return out
}

// errImported is what an agent is told whose host was taken back meanwhile.
func errImported(host string) error {
	return fault.New(fault.StaleGeneration, "%s", fmt.Sprintf("host %s was taken back from its agent, and is imported from Nova's tables: send its state again", host))
}
