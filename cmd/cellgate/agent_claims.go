package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cellgate/agent"
	"cellgate/internal/config"
	"cellgate/internal/fault"
	"cellgate/internal/lifecycle"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// addHostClaims serves a host's claims at a unix socket; an empty path serves none.
func (a *assembly) addHostClaims(path string, claims *agent.Claims) error {
	if path == "" {
		return nil
	}
	l, err := lifecycle.ListenUnix(path, "socket")
	if err != nil {
		return err
	}
	a.open = append(a.open, listenerCloser{l})
	server := rpc.NewServer(a.log)
	agent.RegisterClaims(server, claims)
	a.add(lifecycle.GRPC("claims of the host", server, l))
	a.log.Info("operations on this host take up claims here", "socket", path)
	return nil
}

func newAgentClaims(t terminal, form *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "claims",
		Short: "List the claims on this host, as its agent sees them",
		Long: `Ask the agent of this host, at its socket, for the claims on the host: those that its
cell offered, and those of operations on the host itself.`,
		Example: `  cellgate agent claims --socket /run/cellgate-agent/claims.sock
  cellgate agent claims --socket /run/cellgate-agent/claims.sock -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	unset := ""
	for _, e := range t.env {
		if v, ok := strings.CutPrefix(e, config.EnvPrefix+"AGENT_SOCKET="); ok {
			unset = v
		}
	}
	socket := cmd.Flags().String("socket", unset, "the agent's socket; "+config.EnvPrefix+"AGENT_SOCKET sets the default")
	timeout := cmd.Flags().Duration("timeout", 30*time.Second, "how long to wait for the answer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *socket == "":
			return usage(cmd, errors.New("--socket: must be the path of the agent's socket"))
		case *timeout <= 0:
			return usage(cmd, fmt.Errorf("--timeout: %v is not above 0", *timeout))
		}
		m, err := hostClaims(cmd.Context(), *socket, *timeout)
		switch {
		case err != nil && *form == "json":
			return errors.Join(printError(cmd.OutOrStdout(), err), err)
		case err != nil:
			return err
		case *form == "json":
			return printMessage(cmd.OutOrStdout(), m, "json")
		}
		return show(cmd.OutOrStdout(), func(p *page) { showHostClaims(p, m) })
	}
	return cmd
}

func hostClaims(ctx context.Context, socket string, timeout time.Duration) (*agentv1.ListHostClaimsResponse, error) {
	conn, err := rpc.Dial("unix:" + socket)
	if err != nil {
		return nil, fmt.Errorf("--socket %s: %w", socket, err)
	}
	defer func() { _ = conn.Close() }() // its calls are over
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := agentv1.NewHostClaimsClient(conn).ListHostClaims(ctx, &agentv1.ListHostClaimsRequest{})
	if fault.KindOf(err) == fault.CellUnavailable {
		return nil, &unreachableError{who: "agent", addr: socket, why: "does an agent with this agent.socket run, and may this user write to it?", err: err}
	}
	return m, err
}

func showHostClaims(p *page, m *agentv1.ListHostClaimsResponse) {
	t := p.table("CLAIM", "INSTANCE", "STATE", "OFFERED", "OPERATION", "TAKES")
	for _, c := range m.GetClaims() {
		takes := joined(c.GetUsages(), func(u *agentv1.Usage) string { return fmt.Sprintf("%d %s", u.GetAmount(), u.GetResourceClass()) }, ", ")
		if v := c.GetVerdict(); v != nil {
			takes = v.GetReason().String() + ": " + v.GetDetail()
		}
		offered := ""
		if c.GetOffered() {
			offered = "by the cell"
		}
		state := c.GetState().String()
		if c.GetConfirmed() {
			state += ", confirmed"
		}
		t.row(c.GetClaimId(), c.GetInstanceUuid(), state, offered, c.GetOperation(), takes)
	}
	t.print()
	p.printf("%d claims\n", len(m.GetClaims()))
}
