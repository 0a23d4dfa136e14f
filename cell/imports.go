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
// nothing was done. With InstancesOnly nothing is written of a host but its claims.
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
	for i, in := range req.GetHosts() {
		if req.GetInstancesOnly() {
			if in, out[i] = s.instancesOnly(in); out[i] != nil {
				continue
			}
		}
		select { // as states of agents do, so that callers have processors left
		case s.decoding <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		put, facts, wait, err := s.importedHost(in)
		<-s.decoding
		if err != nil {
			out[i] = &cellv1.ImportOutcome{Failure: proposing.FailureOf(err)}
			continue
		}
		defer s.rows.expect(put.Host.UUID, facts)()
		if at := req.GetInstancesAt(); at != nil {
			put.InstancesAt = at.AsTime()
		}
		if s.rows.instancesImported(put.Host.UUID) {
			done, err := s.imports.take(put)
			if err != nil {
				out[i] = &cellv1.ImportOutcome{Failure: proposing.FailureOf(err)}
				continue
			}
			defer done()
		}
		ops, places, waits = append(ops, shard.Op{PutHost: put}), append(places, i), append(waits, wait)
	}
	answers, err := s.pipeline.do(ctx, ops, false)
	if err != nil {
		return nil, err
	}
	if err := nothingDone(answers); err != nil {
		return nil, err
	}
	for n, a := range answers {
		out[places[n]] = s.importOutcome(ops[n].PutHost, a, waits[n])
	}
	res := &cellv1.ImportHostsResponse{Outcomes: out}
	claimed, released, err := s.releaseDeleted(ctx, req.GetDeleted(), req.GetInstancesAt().AsTime())
	res.Claimed, res.DeletedReleased = claimed, int32(released)
	return res, err
}

// instancesOnly gives a host as it counts where only instances are imported, or the outcome
// of one that does not.
func (c *Cell) instancesOnly(in *cellv1.ImportedHost) (*cellv1.ImportedHost, *cellv1.ImportOutcome) {
	row := c.rows.host(in.GetState().GetHostUuid())
	if row.instancesUnknown() {
		return &cellv1.ImportedHost{State: in.GetState()}, nil
	}
	return nil, &cellv1.ImportOutcome{LeftToAgent: row != nil && row.host != nil && !row.host.Imported}
}

// importedHost reads a host that is imported. wait is of one that is to be taken back
// from its agent.
func (c *Cell) importedHost(in *cellv1.ImportedHost) (put *shard.PutHost, facts *readFacts, wait time.Duration, err error) {
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
	if in.GetRetake() {
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
