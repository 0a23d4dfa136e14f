package cell

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
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
	hosts := s.agents.Streams.Hosts()
	if req.GetHostUuid() != "" {
		hosts = []string{r.UUID("host_uuid", req.GetHostUuid())}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	within := time.Duration(len(hosts)-1) * resyncEach
	asked := 0
	for _, host := range hosts {
		if s.agents.Streams.StartOver(host, req.GetReason(), max(within, 0), s.rows.HostInService(host)) {
			asked++
		}
	}
	s.log.Info("audit: hosts were asked to start over", "asked", asked, "host_uuid", strings.ToLower(req.GetHostUuid()), "reason", req.GetReason(), "who", req.GetWho())
	return &cellv1.ResyncHostsResponse{Hosts: int32(asked), Within: durationpb.New(max(within, 0))}, nil
}
