package cell

import (
	"context"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/shard"
)

// releaseDeleted releases the claims of instances whose rows in Nova's tables are deleted, on
// hosts whose agents do not report them any more; in is of uuids, 16 bytes each, and at is the
// moment up to which the rows are whole. claimed are those that have a live claim still.
func (s *scheduler) releaseDeleted(ctx context.Context, in []byte, at time.Time) (claimed []byte, released int, err error) {
	if len(in)%len(schedule.ID{}) != 0 {
		return nil, 0, fault.Invalid("deleted", "has %d bytes, which are no whole uuids", len(in))
	}
	if len(in) == 0 {
		return nil, 0, nil
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, 0, err
	}
	var ops []shard.Op
	var of []*shard.Claim
	stays := map[schedule.ID]bool{}
	ids := map[string]schedule.ID{}
	for id := (schedule.ID{}); len(in) > 0; in = in[len(id):] {
		copy(id[:], in)
		for _, c := range s.rows.ClaimsOfInstance(id.String()) {
			if c.TransferredFrom != "" {
				continue // its new consumer's to release
			}
			said, gone := s.agents.ReportLacks(c)
			if !gone || c.State != shard.Confirmed || c.UpdatedAt.After(at) {
				stays[id] = true
				continue
			}
			ids[c.ClaimID] = id
			of = append(of, c)
			ops = append(ops, shard.Op{Release: &shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID, ReportedGoneBy: &said, Deleted: at}})
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
		s.log.Info("audit: a claim was released: its instance's row in Nova's tables is deleted, and its host does not report it", "host", c.ServiceHost, "host_uuid", c.HostUUID,
			"claim_id", c.ClaimID, "instance", c.ConsumerUUID)
	}
	for id := range stays {
		claimed = append(claimed, id[:]...)
	}
	return claimed, released, nil
}
