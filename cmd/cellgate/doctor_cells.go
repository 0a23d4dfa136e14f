package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
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

// clockApart is how far two machines' clocks may differ without a report.
const clockApart = time.Second

// checkCells asks every replica of a gateway's cells, all cells at once.
func checkCells(p *localProcess) results {
	cells := p.conf.Gateway.Cells
	out := make([]results, len(cells))
	var asked sync.WaitGroup
	for i, cell := range cells {
		legacy := slices.ContainsFunc(p.conf.Gateway.Legacy, func(l config.LegacyCell) bool { return l.Cell == cell.Name })
		asked.Go(func() {
			out[i] = p.ask(cell.Name, cell.Replicas, func(ctx context.Context, conn *grpc.ClientConn, name string) results {
				return p.replica(ctx, conn, name, cell, legacy)
			})
		})
	}
	asked.Wait()
	return slices.Concat(out...)
}

// checkReports asks every replica of an agent's cell.
func checkReports(p *localProcess) results {
	return p.ask(p.conf.Agent.Cell, p.conf.Agent.Replicas, p.reports)
}

// ask has one ask each of a cell's replicas. It names those results that have no name.
func (p *localProcess) ask(cell string, replicas []string, one func(ctx context.Context, conn *grpc.ClientConn, name string) results) (out results) {
	for _, address := range replicas {
		name := fmt.Sprintf("cell %s at %s", cell, address)
		if p.dial == nil {
			break // checkFiles says why
		}
		conn, err := p.dial(address)
		if err != nil {
			out = append(out, diagnose(unhealthy, err.Error(), "correct the address").named(name)...)
			continue
		}
		ctx, cancel := context.WithTimeout(p.ctx, askWithin)
		out = append(out, one(ctx, conn, name).named(name)...)
		cancel()
		_ = conn.Close() // its calls are over
	}
	return out
}

// replica examines one replica of a cell, as a gateway sees it. legacy reports that gateway.legacy
// names the cell.
func (p *localProcess) replica(ctx context.Context, conn *grpc.ClientConn, name string, want config.GatewayCell, legacy bool) results {
	client := cellv1.NewCellSchedulerClient(conn)
	// The first call opens the connection. The second one compares the clocks.
	_, err := client.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	sent, s := time.Now(), (*cellv1.GetSummaryResponse)(nil)
	if err == nil {
		s, err = client.GetSummary(ctx, &cellv1.GetSummaryRequest{})
	}
	took := time.Since(sent)
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
		if text := byKind(got.GetFindings()); err != nil {
			out = append(out, diagnose(warned, "could not be asked: "+err.Error(), "see the cell's log").named("findings of "+name)...)
		} else if text != "" {
			out = append(out, diagnose(warned, text, "cellgate findings shows them; docs/explanation/reconcile.md says what to do").named("findings of "+name)...)
		}
	}
	if machine := s.GetMachineTime(); machine != nil {
		offset := machine.AsTime().Sub(sent.Add(took / 2))
		clock := good("is %v apart from this one (± %v)", offset.Abs().Round(time.Millisecond), (took / 2).Round(100*time.Microsecond))
		if offset.Abs()-took/2 > clockApart {
			clock = diagnose(warned, clock[0].What, "let both machines keep their clocks by NTP")
		}
		out = append(out, clock.named("clock of "+name)...)
	}
	return out
}

func hostsOfReplica(t *cellgatev1.Cell, took time.Duration, legacy bool) results {
	up, all, without := t.GetHostsUp(), t.GetHosts(), t.GetHostsImported()
	answers, withheld := fmt.Sprintf("answers in %v", took.Round(100*time.Microsecond)), ""
	if n := t.GetHostsWithheld(); n > 0 {
		withheld = fmt.Sprintf("; operators took %d out of service", n)
	}
	gate := t.GetGate().GetState()
	switch fromTables := gate == cellgatev1.Gate_LEGACY || gate == cellgatev1.Gate_SHADOW; {
	case fromTables && !legacy:
		return diagnose(warned, fmt.Sprintf("%s; its gate is %s, and gateway.legacy does not name it: selections go without the cell", answers, gate), "add its legacy database to gateway.legacy (docs/how-to/upgrade.md)")
	case all == 0:
		return diagnose(warned, "answers and has no hosts", "start its agents, or a gateway that imports them (docs/how-to/upgrade.md)")
	case up == 0:
		return diagnose(warned, fmt.Sprintf("answers; none of its %d hosts is up%s", all, withheld), "look at its agents, or at the import of Nova's tables; cellgate hosts says which and why")
	case fromTables:
		answers += fmt.Sprintf("; its gate is %s: its hosts are those of Nova's tables", gate)
	case without > 0:
		return diagnose(warned, fmt.Sprintf("%s; %d of %d hosts are up, and %d have no agent: Nova's tables speak for them%s", answers, up, all, without, withheld), "start the agents of those hosts; cellgate hosts lists them as imported")
	}
	return good("%s; %d of %d hosts are up%s", answers, up, all, withheld)
}

// noAnswer says why a cell gave no answer.
func (p *localProcess) noAnswer(status string, err error) results {
	what, do := err.Error(), "start it, or look whether something in between blocks the address"
	if k := fault.KindOf(err); k == fault.Unauthenticated || k == fault.PermissionDenied {
		do = "give " + p.clientAt + " a certificate or a token with the role " + string(p.role)
	}
	if e := (*fault.Error)(nil); errors.As(err, &e) {
		what = e.Message
		if why, how := security.Explain(e.Cause, security.ClientConfig(p.client), func(key string) string { return p.clientAt + "." + key }); why != "" {
			what, do = why, how
		}
	}
	return diagnose(status, "gives no answer: "+what, do)
}

// reports examines one replica of a cell, as an agent sees it. It sends a heartbeat before any state,
// which changes nothing: the refusal names the cell.
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
	if err == nil || errors.Is(err, io.EOF) { // Recv has the reason of an EOF
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
