package cell

import (
	"context"
	"fmt"

	"cellgate/internal/fault"
	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// ImportHosts writes what Nova's tables say of hosts, as agents' states are written and
// after claims. Each host has its own outcome; the call fails as a whole only when
// nothing was done.
func (s *scheduler) ImportHosts(ctx context.Context, req *cellv1.ImportHostsRequest) (*cellv1.ImportHostsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	out := make([]*cellv1.ImportOutcome, len(req.GetHosts()))
	var ops []shard.Op
	var places []int
	for i, in := range req.GetHosts() {
		put, err := s.importedHost(in)
		if err != nil {
			out[i] = &cellv1.ImportOutcome{Failure: proposing.FailureOf(err)}
			continue
		}
		ops, places = append(ops, shard.Op{PutHost: put}), append(places, i)
	}
	answers, err := s.pipeline.do(ctx, ops, false)
	if err != nil {
		return nil, err
	}
	if err := nothingDone(answers); err != nil {
		return nil, err
	}
	for n, a := range answers {
		out[places[n]] = s.importOutcome(ops[n].PutHost, a)
	}
	return &cellv1.ImportHostsResponse{Outcomes: out}, nil
}

// importedHost reads a host that is imported.
func (c *Cell) importedHost(in *cellv1.ImportedHost) (*shard.PutHost, error) {
	state := in.GetState()
	if v := state.GetAgentVersion(); v != 0 {
		return nil, fault.Invalid("state.agent_version", "is %d, must be 0: no agent says this", v)
	}
	if err := c.takesFrom(state.GetCell()); err != nil {
		return nil, err
	}
	put, err := putHostOf(state)
	if err != nil {
		return nil, err
	}
	put.Host.Imported, put.Retake = true, in.GetRetake()
	return put, nil
}

func (c *Cell) importOutcome(put *shard.PutHost, a answer) *cellv1.ImportOutcome {
	if a.err != nil {
		return &cellv1.ImportOutcome{Failure: proposing.FailureOf(a.err)}
	}
	o := a.outcome
	if r := o.Refusal; r != nil {
		return &cellv1.ImportOutcome{Failure: &cellv1.Failure{Reason: string(r.Kind), Message: r.Message}}
	}
	if put.Retake && !o.Unchanged {
		c.log.Warn("audit: a host was taken back from its agent, or is imported on", "host", put.Host.ServiceHost, "host_uuid", put.Host.UUID)
	}
	return &cellv1.ImportOutcome{
		Unchanged: o.Unchanged, LeftToAgent: o.LeftToAgent, Adopted: int32(o.Adopted), Confirmed: int32(o.Confirmed),
		Released: int32(o.Released), Conflicts: int32(o.Conflicts), Overcommitted: int32(o.Overcommitted),
	}
}

// errImported is what an agent is told whose host was taken back meanwhile.
func errImported(host string) error {
	return fault.New(fault.InvalidRequest, "%s", fmt.Sprintf("host %s was taken back from its agent, and is imported from Nova's tables: send its state again", host))
}
