package cell

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// resyncEach is how long the states of hosts that are asked together are apart, on
// average: 1,000 of them a second are taken beside everything else.
const resyncEach = time.Millisecond

// ResyncHosts makes the hosts that this replica hears start over: their agents send the
// whole state, as a new version, and what they sent before counts no more.
func (s *scheduler) ResyncHosts(_ context.Context, req *cellv1.ResyncHostsRequest) (*cellv1.ResyncHostsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	hosts := s.agents.sessions.hosts()
	if req.GetHostUuid() != "" {
		hosts = []string{r.UUID("host_uuid", req.GetHostUuid())}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	within := time.Duration(len(hosts)-1) * resyncEach
	asked := 0
	for _, host := range hosts {
		if s.agents.sessions.startOver(host, req.GetReason(), max(within, 0), s.rows.registered(host)) {
			asked++
		}
	}
	s.log.Info("audit: hosts were asked to start over", "asked", asked, "host_uuid", strings.ToLower(req.GetHostUuid()), "reason", req.GetReason(), "who", req.GetWho())
	return &cellv1.ResyncHostsResponse{Hosts: int32(asked), Within: durationpb.New(max(within, 0))}, nil
}

// startOver begins a new epoch on the streams of a host, whose row that is; false when there is none. An
// agent that reads too slowly to be told is told when it sends something.
func (s *sessions) startOver(host, why string, within time.Duration, row *shard.Host) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byHost[host] {
		m := a.renewal(why, within, row)
		select {
		case a.out <- m:
		default:
		}
	}
	return len(s.byHost[host]) > 0
}

// resync asks for a whole state.
func resync(epoch uint64, why string, within time.Duration) *agentv1.ReportResponse {
	return &agentv1.ReportResponse{Message: &agentv1.ReportResponse_Resync{Resync: &agentv1.Resync{
		Reason: why, Epoch: epoch, Within: durationpb.New(within),
	}}}
}
