package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"cellgate/internal/health"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// refusing is a cell that refuses every state.
type refusing struct {
	agentv1.UnimplementedHostReportsServer
}

func (refusing) Report(s grpc.BidiStreamingServer[agentv1.ReportRequest, agentv1.ReportResponse]) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return err
		}
		if err := s.Send(&agentv1.ReportResponse{Message: &agentv1.ReportResponse_Refused{Refused: &agentv1.Refused{
			BootId: m.GetFullState().GetBootId(), Version: m.GetFullState().GetVersion(), Reason: "INVALID_REQUEST", Problems: []string{"nodename: is another's"},
		}}}); err != nil {
			return err
		}
	}
}

// While a cell refuses an agent's state, the agent is not ready, and names the problem.
func TestAnAgentWhoseStateIsRefusedSaysSo(t *testing.T) {
	l := listen(t)
	serveGRPC(t, l, func(s *grpc.Server) { agentv1.RegisterHostReportsServer(s, refusing{}) })
	p := launch(t, true, "agent", "--cell", "cell1", "--replica", l.Addr().String(), "--hosts", "1", "--seed", "7", "--metrics", "127.0.0.1:0")
	at := p.await(`msg="metrics are served" metrics=(\S+)`)[1]
	p.await(`level=WARN msg="the cell refused the host's state: until it accepts one no heartbeat is sent there`)
	const why = "what 1 of 1 hosts say is refused; the first: host cell1-r01-h001: replica "
	resp, err := http.Get("http://" + at + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = resp.Body.Close() }()
	var report health.Report
	if err := json.NewDecoder(resp.Body).Decode(&report); err != nil || report.Status != "not ready" || len(report.Checks) != 3 || !strings.HasPrefix(report.Checks[2].Why, why) || !strings.HasSuffix(report.Checks[2].Why, "nodename: is another's (no heartbeat is sent there)") {
		t.Errorf("/readyz: %+v, %v", report, err)
	}
	p.stop()
}
