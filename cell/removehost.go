package cell

import (
	"context"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// RemoveHost removes a host that nothing holds, through the lane. An agent that still
// reports the host to this replica brings it back with its next state, so it is refused.
func (s *scheduler) RemoveHost(ctx context.Context, req *cellv1.RemoveHostRequest) (*cellv1.RemoveHostResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	remove := &shard.RemoveHost{HostUUID: r.UUID("host_uuid", req.GetHostUuid()), Reason: req.GetReason()}
	if err := r.Err(); err != nil {
		return nil, err
	}
	service := s.rows.ServiceHost(remove.HostUUID)
	if s.agents.Streams.HasStream(remove.HostUUID) {
		return nil, fault.New(fault.FailedPrecondition, "the agent of host %s still reports to replica %s: stop it first", service, s.cfg.Replica)
	}
	out, err := s.queue.DoOne(ctx, shard.Op{RemoveHost: remove}, false)
	if err == nil {
		err = errorOfRefusal(&out)
	}
	if err != nil {
		return nil, err
	}
	s.log.Info("audit: a host was removed", "host", service, "host_uuid", remove.HostUUID, "reason", req.GetReason(), "who", orSomebody(req.GetBy()))
	return &cellv1.RemoveHostResponse{}, nil
}
