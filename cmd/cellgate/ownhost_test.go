package main

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/security"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// reportingAs opens the stream of an agent.
func (s *secured) reportingAs(t *testing.T, c *security.Client) agentv1.HostReports_ReportClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Limit)
	t.Cleanup(cancel)
	stream, err := agentv1.NewHostReportsClient(s.dial(t, s.cell, c)).Report(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// say sends a message and returns the answer.
func say(t *testing.T, stream agentv1.HostReports_ReportClient, m *agentv1.ReportRequest) (*agentv1.ReportResponse, error) {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	return stream.Recv()
}

// hosts returns the names of the cell's hosts by uuid, as a reader sees them.
func (s *secured) hosts(t *testing.T) map[string]string {
	t.Helper()
	conn := s.dial(t, s.grpc, s.withToken(t, s.tokens[security.Reader]))
	list, err := cellgatev1.NewHostsClient(conn).ListHosts(t.Context(), &cellgatev1.ListHostsRequest{}, grpc.WaitForReady(true))
	if err != nil || len(list.GetUnavailableCells()) > 0 {
		t.Fatal(list, err)
	}
	all := map[string]string{}
	for _, h := range list.GetHosts() {
		all[h.GetHostUuid()] = h.GetServiceHost()
	}
	return all
}

// An agent can report its own host. A report of any other host ends its stream, and none of that
// report is kept.
func TestAnAgentReportsItsOwnHostOnly(t *testing.T) {
	s := startSecured(t)
	const otherHost = "cell1-r01-h009"
	own, other := stateOf(ownHost, 0), stateOf(otherHost, 8)
	taken := stateOf(ownHost, 8) // the other's uuid under the own name
	taken.GetFullState().Version = 7
	renamed := stateOf(otherHost, 0) // the own uuid under the other's name
	renamed.GetFullState().Version = 7
	if m, err := say(t, s.reportingAs(t, s.withCertificate(t, s.ca, time.Time{}, "cellgate://agent/"+otherHost)), other); err != nil || m.GetAccepted() == nil {
		t.Fatalf("the other agent's own host: %v %v", m, err)
	}
	want := map[string]string{other.GetFullState().GetHostUuid(): otherHost}
	for by, c := range map[string]*security.Client{
		"token":       s.withToken(t, s.tokens[security.Agent]),
		"certificate": s.withCertificate(t, s.ca, time.Time{}, "cellgate://agent/"+ownHost),
	} {
		for what, m := range map[string]*agentv1.ReportRequest{
			"another host": stateOf("cell1-r02-h001", 25), "another's host": other, "another's uuid": taken, "the name in other letters": stateOf("CELL1-R01-H001", 0),
		} {
			if m, err := say(t, s.reportingAs(t, c), m); status.Code(err) != codes.PermissionDenied {
				t.Errorf("by %s, %s at once: %v %v, want PERMISSION_DENIED", by, what, m, err)
			}
			stream := s.reportingAs(t, c)
			if m, err := say(t, stream, own); err != nil || m.GetAccepted() == nil {
				t.Fatalf("by %s, the own host: %v %v", by, m, err)
			}
			want[own.GetFullState().GetHostUuid()] = ownHost
			if m, err := say(t, stream, m); status.Code(err) != codes.PermissionDenied {
				t.Errorf("by %s, %s after the own: %v %v, want PERMISSION_DENIED", by, what, m, err)
			}
		}
		stream := s.reportingAs(t, c)
		if m, err := say(t, stream, renamed); status.Code(err) != codes.PermissionDenied {
			t.Errorf("by %s, another name for the own host: %v %v", by, m, err)
		}
	}
	got := s.hosts(t)
	if len(got) != len(want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
	for id, name := range want {
		if got[id] != name {
			t.Errorf("host %s is %q, want %q", id, got[id], name)
		}
	}
}
