package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/security"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// askWithin bounds one question to another process.
	askWithin = 2 * time.Second
	// clockApart is how far two machines' clocks may differ before it is reported.
	clockApart = time.Second
)

// checkCells asks every replica of a gateway's cells.
func checkCells(p *localProcess) (out results) {
	for _, cell := range p.conf.Gateway.Cells {
		legacy := slices.ContainsFunc(p.conf.Gateway.Legacy, func(l config.LegacyCell) bool { return l.Cell == cell.Name })
		for _, address := range cell.Replicas {
			out = append(out, p.called(fmt.Sprintf("cell %s at %s", cell.Name, address), address, func(ctx context.Context, conn *grpc.ClientConn, name string) results {
				return p.replica(ctx, conn, name, cell, legacy)
			})...)
		}
	}
	return out
}

// checkReports asks every replica of an agent's cell.
func checkReports(p *localProcess) (out results) {
	for _, address := range p.conf.Agent.Replicas {
		out = append(out, p.called(fmt.Sprintf("cell %s at %s", p.conf.Agent.Cell, address), address, p.reports)...)
	}
	return out
}

// called asks one address; name is that of the results without one.
func (p *localProcess) called(name, address string, ask func(context.Context, *grpc.ClientConn, string) results) results {
	conn, err := p.dial(address)
	if err != nil {
		return diagnose(unhealthy, err.Error(), "correct the address").named(name)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(p.ctx, askWithin)
	defer cancel()
	out := ask(ctx, conn, name)
	for i := range out {
		if out[i].Check == "" {
			out[i].Check = name
		}
	}
	return out
}

// replica examines one replica of a cell, as a gateway sees it; legacy: gateway.legacy names
// the cell.
func (p *localProcess) replica(ctx context.Context, conn *grpc.ClientConn, name string, want config.GatewayCell, legacy bool) results {
	client := cellv1.NewCellSchedulerClient(conn)
	// The first call opens the connection; the clocks are compared on the second.
	_, err := client.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	sent, s := p.now(), (*cellv1.GetSummaryResponse)(nil)
	if err == nil {
		s, err = client.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	}
	took := p.now().Sub(sent)
	switch {
	case err != nil && want.Disabled:
		return p.noAnswer(warned, err)
	case err != nil:
		return p.noAnswer(unhealthy, err)
	case s.GetCell() != want.Name || want.UUID != "" && s.GetCellUuid() != want.UUID:
		return diagnose(unhealthy, fmt.Sprintf("answers as cell %s (%s)", s.GetCell(), s.GetCellUuid()), "correct the address, or the cell's name and uuid")
	}
	out := hostsOfReplica(s.GetTotals(), took, legacy)
	if !s.GetLoading() {
		got, err := client.ListFindings(ctx, &cellv1.ListFindingsRequest{})
		out = append(out, findingsOf(got, err).named("findings of "+name)...)
	}
	if machine := s.GetMachineTime(); machine != nil {
		offset := machine.AsTime().Sub(sent.Add(took / 2))
		text := fmt.Sprintf("is %v apart from this one (± %v)", offset.Abs().Round(time.Millisecond), (took / 2).Round(100*time.Microsecond))
		clock := good("%s", text)
		if offset.Abs()-took/2 > clockApart {
			clock = diagnose(warned, text, "let both machines keep their clocks by NTP")
		}
		out = append(out, clock.named("clock of "+name)...)
		if ahead := s.GetStoreTime().AsTime().Sub(machine.AsTime()); ahead.Abs() > clockApart {
			out = append(out, diagnose(warned, fmt.Sprintf("is %v off its machine's clock", ahead.Round(time.Millisecond)), "leases last as long as they say; their deadlines look shifted by this much. Look at the machine's clock").named("store time of "+name)...)
		}
	}
	if v := s.GetVersion(); v != "" && v != versionText() {
		out = append(out, diagnose(noted, fmt.Sprintf("is %s, this one is %s", v, versionText()), "").named("version of "+name)...)
	}
	return out
}

func findingsOf(got *cellv1.ListFindingsResponse, err error) results {
	switch text := byKind(got.GetFindings()); {
	case err != nil:
		return diagnose(warned, "could not be asked: "+err.Error(), "see the cell's log")
	case text != "":
		return diagnose(warned, text, "cellgate findings shows them; docs/explanation/reconcile.md says what to do")
	case got.GetLookedAt() == nil:
		return diagnose(noted, "it has not looked yet", "")
	}
	return good("none; the reports of %d of %d hosts could be compared", got.GetHostsCompared(), got.GetHosts())
}

func hostsOfReplica(t *cellgatev1.Cell, took time.Duration, legacy bool) results {
	agents, answers, out := t.GetHosts()-t.GetHostsImported(), fmt.Sprintf("answers in %v", took.Round(100*time.Microsecond)), ""
	if n := t.GetHostsWithheld(); n > 0 {
		out = fmt.Sprintf("; operators took %d out of service", n)
	}
	gate := t.GetGate().GetState()
	switch fromTables := gate == cellgatev1.Gate_LEGACY || gate == cellgatev1.Gate_SHADOW; {
	case fromTables && !legacy:
		return diagnose(warned, fmt.Sprintf("%s; its gate is %s, and gateway.legacy does not name it: selections go without the cell", answers, gate), "add its legacy database to gateway.legacy (docs/how-to/upgrade.md)")
	case fromTables:
		return good("%s; its gate is %s: its hosts are those of Nova's tables; agents speak for %d, of which %d are up", answers, gate, agents, t.GetHostsUp())
	case t.GetHosts() == 0:
		return diagnose(warned, "answers and has no hosts", "start its agents")
	case t.GetHostsUp() == 0 && out != "":
		return diagnose(warned, fmt.Sprintf("answers; none of its %d hosts takes instances%s", t.GetHosts(), out), "cellgate hosts says which and why")
	case t.GetHostsUp() == 0:
		return diagnose(warned, fmt.Sprintf("answers; none of its %d hosts is up", t.GetHosts()), "look at its agents")
	case t.GetHostsImported() > 0:
		return diagnose(warned, fmt.Sprintf("%s; %d of %d hosts are up, and %d have no agent: nothing is placed there%s", answers, t.GetHostsUp(), agents, t.GetHostsImported(), out), "start the agents of those hosts: cellgate hosts lists them as down")
	}
	return good("%s; %d of %d hosts are up%s", answers, t.GetHostsUp(), t.GetHosts(), out)
}

// noAnswer says why a cell gave no answer.
func (p *localProcess) noAnswer(status string, err error) results {
	what, do := err.Error(), "start it, or look whether something in between blocks the address"
	if k := fault.KindOf(err); k == fault.Unauthenticated || k == fault.PermissionDenied {
		do = "give " + p.clientAt + " a certificate or a token with the role " + string(p.role)
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		what = e.Message
		if e.Cause != nil {
			what += " (" + cause(e.Cause) + ")"
			if why, how := security.Explain(e.Cause, security.ClientConfig(p.client), func(key string) string { return p.clientAt + "." + key }); why != "" {
				what, do = why+" ("+cause(e.Cause)+")", how
			}
		}
	}
	return diagnose(status, "gives no answer: "+what, do)
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

// reports examines one replica of a cell, as an agent sees it. Which cell it is, a heartbeat
// before any state shows: it changes nothing, and its refusal names the cell.
func (p *localProcess) reports(ctx context.Context, conn *grpc.ClientConn, _ string) results {
	state, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: "cellgate.agent.v1.HostReports"})
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return diagnose(unhealthy, "answers and is no cell", "correct the address")
	case err != nil:
		return p.noAnswer(unhealthy, err)
	case state.GetStatus() != healthpb.HealthCheckResponse_SERVING:
		return diagnose(warned, "answers and is not ready", "agents try again by themselves; look at the cell's log when it stays so")
	}
	stream, err := agentv1.NewHostReportsClient(conn).Report(ctx)
	if err == nil {
		err = stream.Send(&agentv1.ReportRequest{Message: &agentv1.ReportRequest_Heartbeat{Heartbeat: &agentv1.Heartbeat{BootId: uuid.NewString()}}})
	}
	var answer *agentv1.ReportResponse
	if err == nil || errors.Is(err, io.EOF) { // the reason of an EOF is at the receiving end
		answer, err = stream.Recv()
	}
	switch is, want := answer.GetRefused().GetCell(), p.conf.Agent.Cell; {
	case fault.KindOf(err) == fault.Unauthenticated, fault.KindOf(err) == fault.PermissionDenied:
		return diagnose(unhealthy, "does not admit this agent: "+err.Error(), "give agent.tls a certificate or a token with the role agent that the cell knows, for the hosts it reports")
	case err != nil:
		return p.noAnswer(unhealthy, err)
	case is != want:
		return diagnose(unhealthy, fmt.Sprintf("is cell %s, which refuses the agents of cell %s", is, want), "correct the address, or the cell's name")
	}
	return good("takes reports of this cell's hosts")
}

// checkTraces examines where traces go. A process runs without them too.
func checkTraces(p *localProcess) results {
	c := p.conf.Telemetry
	switch c.Traces {
	case "file":
		out := good("can be written")
		if err := appendable(c.File); err != nil {
			out = diagnose(unhealthy, "traces cannot be written there: "+err.Error(), "give a file in a directory that this user may write to")
		}
		return out.named("telemetry.file " + c.File)
	case "otlp":
		out := good("takes connections")
		u, err := url.Parse(c.Endpoint)
		if err != nil {
			return nil // the configuration's check reports it
		}
		if conn, err := (&net.Dialer{Timeout: askWithin}).DialContext(p.ctx, "tcp", u.Host); err != nil {
			out = diagnose(warned, "is not reached: "+err.Error(), "start the collector, or correct the address; traces are lost meanwhile, and nothing else is")
		} else {
			_ = conn.Close() // nothing was sent
		}
		return out.named("telemetry.endpoint " + c.Endpoint)
	}
	return nil
}

// appendable gives the error with which writing to the end of a file would fail,
// and makes nothing.
func appendable(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const mayWrite = 0x2 | 0x1 // in a directory, and to go through it
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := syscall.Access(dir, mayWrite); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}
