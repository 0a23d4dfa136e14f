package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// askWithin bounds one question to another process.
	askWithin = 2 * time.Second
	// clockApart is how far two machines' clocks may differ before it is told.
	clockApart = time.Second
)

// peer examines one replica of a cell, as a gateway sees it; legacy: gateway.legacy names
// the cell.
func (d *doctor) peer(check string, dial dialFunc, address string, want config.GatewayCell, legacy bool) {
	conn, err := dial(address)
	if err != nil {
		d.add(check, unhealthy, err.Error(), "correct the address")
		return
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(d.ctx, askWithin)
	defer cancel()
	client := cellv1.NewCellSchedulerClient(conn)
	// The first call opens the connection; the clocks are compared on the second.
	if _, err = client.GetSummary(ctx, &cellv1.GetSummaryRequest{}); err != nil {
		d.silent(check, err, want.Disabled)
		return
	}
	sent := d.now()
	s, err := client.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	took := d.now().Sub(sent)
	if err != nil {
		d.silent(check, err, want.Disabled)
		return
	}
	if s.GetCell() != want.Name || want.UUID != "" && s.GetCellUuid() != want.UUID {
		d.add(check, unhealthy, fmt.Sprintf("answers as cell %s (%s)", s.GetCell(), s.GetCellUuid()), "correct the address, or the cell's name and uuid")
		return
	}
	d.holds(check, s.GetTotals(), took, legacy)
	if !s.GetLoading() {
		d.findings(ctx, "findings of "+check, client)
	}
	if s.GetMachineTime() != nil {
		d.apart("clock of "+check, s.GetMachineTime().AsTime().Sub(sent.Add(took/2)), took)
		if ahead := s.GetStoreTime().AsTime().Sub(s.GetMachineTime().AsTime()); ahead > clockApart || ahead < -clockApart {
			d.add("store time of "+check, warned, fmt.Sprintf("is %v off its machine's clock", ahead.Round(time.Millisecond)), "leases last as long as they say; their deadlines look shifted by this much. Look at the machine's clock")
		}
	}
	if v := s.GetVersion(); v != "" && v != versionText() {
		d.add("version of "+check, noted, fmt.Sprintf("is %s, this one is %s", v, versionText()), "")
	}
}

// findings tells of what a replica's reconciler found and could not put right.
func (d *doctor) findings(ctx context.Context, check string, client cellv1.CellSchedulerClient) {
	got, err := client.ListFindings(ctx, &cellv1.ListFindingsRequest{})
	switch text := byKind(got.GetFindings()); {
	case rpc.Unserved(err):
		d.add(check, noted, "not looked for: its version is older than this one", "")
	case err != nil:
		d.add(check, warned, "could not be asked: "+err.Error(), "")
	case text != "":
		d.add(check, warned, text, "cellgate findings shows them; docs/reconcile.md says what to do")
	case got.GetLookedAt() == nil:
		d.add(check, noted, "it has not looked yet", "")
	default:
		d.ok(check, "none; the reports of %d of %d hosts could be compared", got.GetHostsCompared(), got.GetHosts())
	}
}

// holds tells of the hosts of a replica that answered.
func (d *doctor) holds(check string, t *cellgatev1.Cell, took time.Duration, legacy bool) {
	agents := t.GetHosts() - t.GetHostsImported()
	out := ""
	if n := t.GetHostsWithheld(); n > 0 {
		out = fmt.Sprintf("; operators took %d out of service", n)
	}
	answers := fmt.Sprintf("answers in %v", took.Round(100*time.Microsecond))
	gate := t.GetGate().GetState()
	switch fromTables := gate == cellgatev1.Gate_LEGACY || gate == cellgatev1.Gate_SHADOW; {
	case fromTables && !legacy:
		d.add(check, warned, fmt.Sprintf("%s; its gate is %s, and gateway.legacy does not name it: selections go without the cell", answers, gate), "add its legacy database to gateway.legacy (docs/upgrade.md)")
	case fromTables:
		d.ok(check, "%s; its gate is %s: its hosts are those of Nova's tables; agents speak for %d, of which %d are up", answers, gate, agents, t.GetHostsUp())
	case t.GetHosts() == 0:
		d.add(check, warned, "answers and has no hosts", "start its agents")
	case t.GetHostsUp() == 0 && out != "":
		d.add(check, warned, fmt.Sprintf("answers; none of its %d hosts takes instances%s", t.GetHosts(), out), "cellgate hosts says which and why")
	case t.GetHostsUp() == 0:
		d.add(check, warned, fmt.Sprintf("answers; none of its %d hosts is up", t.GetHosts()), "look at its agents")
	case t.GetHostsImported() > 0:
		d.add(check, warned, fmt.Sprintf("%s; %d of %d hosts are up, and %d have no agent: nothing is placed there%s", answers, t.GetHostsUp(), agents, t.GetHostsImported(), out), "start the agents of those hosts: cellgate hosts lists them as down")
	default:
		d.ok(check, "%s; %d of %d hosts are up%s", answers, t.GetHostsUp(), t.GetHosts(), out)
	}
}

// silent tells of a cell that gave no answer.
func (d *doctor) silent(check string, err error, disabled bool) {
	status, do := unhealthy, "start it, or look whether something in between blocks the address"
	switch fault.KindOf(err) {
	case fault.Unauthenticated, fault.PermissionDenied:
		do = "give " + d.clientAt + " a certificate or a token with the role " + string(d.role)
	}
	if disabled {
		status = warned
	}
	var e *fault.Error
	what := err.Error()
	if errors.As(err, &e) {
		what = e.Message
		if e.Cause != nil {
			what += " (" + cause(e.Cause) + ")"
			if why, how := security.Explain(e.Cause, security.ClientConfig(d.client), func(key string) string { return d.clientAt + "." + key }); why != "" {
				what, do = why+" ("+cause(e.Cause)+")", how
			}
		}
	}
	d.add(check, status, "gives no answer: "+what, do)
}

// cause is the end of gRPC's text for a connection that failed: the words of the
// operating system, or of TLS.
func cause(err error) string {
	text := err.Error()
	for _, before := range []string{"Error while dialing: ", "desc = "} {
		if i := strings.LastIndex(text, before); i >= 0 {
			text = strings.TrimPrefix(text[i:], before)
			break
		}
	}
	return strings.Trim(text, `"`)
}

// apart judges how far another clock is from this one; within is what the
// measurement cannot tell apart.
func (d *doctor) apart(check string, offset, within time.Duration) {
	text := fmt.Sprintf("is %v apart from this one (± %v)", offset.Abs().Round(time.Millisecond), (within / 2).Round(100*time.Microsecond))
	if offset.Abs()-within/2 > clockApart {
		d.add(check, warned, text, "let both machines keep their clocks by NTP")
		return
	}
	d.ok(check, "%s", text)
}

// reports examines one replica of a cell, as an agent sees it.
func (d *doctor) reports(check string, dial dialFunc, address, want string) {
	conn, err := dial(address)
	if err != nil {
		d.add(check, unhealthy, err.Error(), "correct the address")
		return
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(d.ctx, askWithin)
	defer cancel()
	state, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "cellgate.agent.v1.HostReports"})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		d.add(check, unhealthy, "answers and is no cell", "correct the address")
	case err != nil:
		d.silent(check, err, false)
	case state.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		d.add(check, warned, "answers and is not ready", "agents try again by themselves; look at the cell's log when it stays so")
	default:
		d.cellOfReports(ctx, check, conn, want)
	}
}

// cellOfReports learns which cell takes the reports: a heartbeat before any state
// changes nothing, and the refusal of it names the cell.
func (d *doctor) cellOfReports(ctx context.Context, check string, conn *grpc.ClientConn, want string) {
	stream, err := agentv1.NewHostReportsClient(conn).Report(ctx)
	if err == nil {
		err = stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Heartbeat{Heartbeat: &agentv1.Heartbeat{BootId: uuid.NewString()}}})
	}
	var answer *agentv1.ReportResponse
	if err == nil || errors.Is(err, io.EOF) { // the reason of an EOF is at the receiving end
		answer, err = stream.Recv()
	}
	switch is := answer.GetRefused().GetCell(); {
	case fault.KindOf(err) == fault.Unauthenticated, fault.KindOf(err) == fault.PermissionDenied:
		d.add(check, unhealthy, "does not admit this agent: "+err.Error(), "give agent.tls a certificate or a token with the role agent that the cell knows, for the hosts it reports")
	case err != nil:
		d.silent(check, err, false)
	case is == "":
		d.add(check, noted, "takes reports of hosts and does not say of which cell: its version is older than this one", "")
	case is != want:
		d.add(check, unhealthy, fmt.Sprintf("is cell %s, which refuses the agents of cell %s", is, want), "correct the address, or the cell's name")
	default:
		d.ok(check, "takes reports of this cell's hosts")
	}
}
