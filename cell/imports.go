package cell

import (
	"context"
	"slices"
	"time"

	"cellgate/cell/agents"
	"cellgate/cell/proposals"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// ImportHosts writes hosts from Nova's tables in the way of agents' states, with lower priority than
// claims. Each host has its own outcome. The call as a whole fails only if nothing was done.
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
	for i, in := range req.GetHosts() {
		decoded, err := s.agents.AwaitDecoding(ctx)
		if err != nil {
			return nil, err
		}
		put, facts, err := s.importedHost(in.GetState())
		decoded()
		if err != nil {
			out[i] = &cellv1.ImportOutcome{Failure: proposals.FailureOf(err)}
			continue
		}
		defer s.rows.ExpectFacts(put.Host.UUID, facts)()
		if at := req.GetInstancesAt(); at != nil {
			put.InstancesAt = at.AsTime()
		}
		ops, places = append(ops, shard.Op{PutHost: put}), append(places, i)
	}
	answers, err := s.queue.Do(ctx, ops, false)
	if err != nil {
		return nil, err
	}
	if err := nothingDone(answers); err != nil {
		return nil, err
	}
	followed, first := 0, ""
	for n, a := range answers {
		out[places[n]] = importOutcome(ops[n].PutHost, a)
		if a.Err == nil && a.Outcome.Followed {
			if followed++; first == "" {
				first = ops[n].PutHost.Host.UUID
			}
		}
	}
	if followed > 0 {
		s.log.Info("audit: hosts follow Nova's aggregates and ratios", "hosts", followed, "first", first)
	}
	res := &cellv1.ImportHostsResponse{Outcomes: out}
	claimed, released, err := s.releaseDeleted(ctx, req.GetDeleted(), req.GetInstancesAt().AsTime())
	res.Claimed, res.DeletedReleased = claimed, int32(released)
	return res, err
}

// importedHost reads an imported host.
func (c *Cell) importedHost(state *agentv1.FullState) (put *shard.PutHost, facts *replica.Facts, err error) {
	if v := state.GetAgentVersion(); v != 0 {
		return nil, nil, fault.Invalid("state.agent_version", "is %d, must be 0: no agent says this", v)
	}
	if err := c.agents.CheckCell(state.GetCell()); err != nil {
		return nil, nil, err
	}
	if put, facts, err = agents.ReadHost(state, c.rows.ReadFacts); err != nil {
		return nil, nil, err
	}
	put.Host.Imported = true
	return put, facts, nil
}

func importOutcome(put *shard.PutHost, a replica.Answer) *cellv1.ImportOutcome {
	if a.Err != nil {
		return &cellv1.ImportOutcome{Failure: proposals.FailureOf(a.Err)}
	}
	o := a.Outcome
	if r := o.Refusal; r != nil {
		return &cellv1.ImportOutcome{Failure: &cellv1.Failure{Reason: string(r.Kind), Message: r.Message}}
	}
	if o.Outdated {
		return &cellv1.ImportOutcome{Failure: proposals.FailureOf(
			fault.New(fault.StaleGeneration, "import %d of host %s comes after a newer one", put.Host.StateVersion, put.Host.ServiceHost))}
	}
	return &cellv1.ImportOutcome{
		Unchanged: o.Unchanged, OwnedByAgent: o.OwnedByAgent, Adopted: int32(o.Adopted), Confirmed: int32(o.Confirmed),
		Released: int32(o.Released), ClaimedElsewhere: int32(o.ClaimedElsewhere), Overcommitted: int32(o.Overcommitted),
		InstancesTaken: o.InstancesTaken, NewerClaimsSkipped: int32(o.NewerClaimsSkipped),
	}
}

// releaseDeleted releases the claims of instances whose rows in Nova's tables are deleted. If their host
// has an agent that knows its instances, the agent must no longer report them. in is a list of uuids, 16
// bytes each. at is the moment up to which the rows are complete. claimed lists the instances that still
// have a live claim.
func (s *scheduler) releaseDeleted(ctx context.Context, in []byte, at time.Time) (claimed []byte, released int, err error) {
	deleted, err := uuidsIn("deleted", in)
	if err != nil || len(deleted) == 0 {
		return nil, 0, err
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, 0, err
	}
	var ops []shard.Op
	var of []*shard.Claim
	stays := map[schedule.ID]bool{}
	ids := map[string]schedule.ID{}
	for _, id := range deleted {
		for _, c := range s.rows.ClaimsOfInstance(id.String()) {
			if c.TransferredFrom != "" {
				continue // its new consumer releases it
			}
			report, gone := s.agents.ReportLacks(c)
			if h := s.rows.Host(c.HostUUID); h != nil && h.Host != nil && (h.Host.Imported || h.Host.InstancesUnknown) {
				gone = true // Nova's tables list the host's instances
			}
			if !gone || c.State != shard.Confirmed || c.UpdatedAt.After(at) {
				stays[id] = true
				continue
			}
			ids[c.ClaimID] = id
			of = append(of, c)
			ops = append(ops, shard.Op{Release: &shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID, ReportedGoneBy: &report, Deleted: at}})
		}
	}
	answers, err := s.queue.Do(ctx, ops, false)
	if err != nil {
		return nil, 0, err
	}
	for i, a := range answers {
		c := of[i]
		if a.Err != nil || a.Outcome.Refusal != nil {
			stays[ids[c.ClaimID]] = true
			continue
		}
		released++
		s.log.Info("audit: a claim was released: its instance's row in Nova's tables is deleted, and no agent reports the instance", "host", c.ServiceHost, "host_uuid", c.HostUUID,
			"claim_id", c.ClaimID, "instance", c.ConsumerUUID)
	}
	for id := range stays {
		claimed = append(claimed, id[:]...)
	}
	return claimed, released, nil
}

// uuidsIn reads a list of uuids, 16 bytes each.
func uuidsIn(field string, in []byte) ([]schedule.ID, error) {
	const size = len(schedule.ID{})
	if len(in)%size != 0 {
		return nil, fault.Invalid(field, "has %d bytes, which are no whole uuids", len(in))
	}
	out := make([]schedule.ID, 0, len(in)/size)
	for id := range slices.Chunk(in, size) {
		out = append(out, schedule.ID(id))
	}
	return out, nil
}
