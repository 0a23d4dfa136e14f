package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// newHostsAdmin makes the commands that take a host out of service and put it back.
func newHostsAdmin(t terminal) []*cobra.Command {
	const host = "710c6178-bcf9-40bc-9303-112cd17ef687"
	of := func(use, short, long, example string, state cellgatev1.HostAdmin_State) *cobra.Command {
		cmd := &cobra.Command{Use: use + " HOST", Short: short, Long: long, Example: "  cellgate hosts " + use + " " + host + example, Args: usageArgs(cobra.ExactArgs(1))}
		c := newClient(cmd, t)
		f := cmd.Flags()
		cell := f.String("cell", "", "where the host is, if it is known")
		why := "why: shown with the host and to whoever finds no host"
		if state == cellgatev1.HostAdmin_ENABLED {
			why = "why, for who reads it later"
		}
		reason := f.String("reason", "", why)
		until, lasts := "", time.Duration(0)
		if state == cellgatev1.HostAdmin_MAINTENANCE {
			f.StringVar(&until, "until", "", "when it ends, as 2026-01-31T18:00:00Z")
			f.DurationVar(&lasts, "for", 0, "how long it lasts from now on, as 2h30m")
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			req := &cellgatev1.UpdateHostRequest{HostUuid: args[0], AdminState: state, Reason: *reason, Cell: *cell}
			switch {
			case *reason == "" && state != cellgatev1.HostAdmin_ENABLED:
				return usage(cmd, errors.New("--reason: must say why"))
			case until != "" && cmd.Flags().Changed("for"):
				return usage(cmd, errors.New("--until and --for exclude each other"))
			case until != "":
				at, err := time.Parse(time.RFC3339, until)
				if err != nil {
					return usage(cmd, fmt.Errorf("--until: %q is no time like 2026-01-31T18:00:00Z", until))
				}
				req.Until = timestamppb.New(at)
			case cmd.Flags().Changed("for"):
				if lasts <= 0 {
					return usage(cmd, fmt.Errorf("--for: %v is not above 0", lasts))
				}
				req.Lasts = durationpb.New(lasts)
			}
			return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.UpdateHost, req, func(p *page, m *cellgatev1.UpdateHostResponse) {
				h := m.GetHost()
				p.printf("host %s of cell %s: %s\n", h.GetServiceHost(), h.GetCell(), hostState(h))
			})
		}
		return cmd
	}
	const stays = `It stays so, whatever the host reports and whoever starts anew, until
"cellgate hosts enable". What is on the host stays there, and can be moved away.`
	return []*cobra.Command{
		of("disable", "Place nothing new on a host", "Place nothing new on a host. "+stays, ` --reason "a bad disk"`, cellgatev1.HostAdmin_DISABLED),
		of("maintenance", "Place nothing new on a host, until a time",
			"Place nothing new on a host, until a time or until it is enabled. "+stays, ` --for 2h --reason "a kernel"`, cellgatev1.HostAdmin_MAINTENANCE),
		of("force-down", "Have a host count as down",
			"Have a host count as down, whatever its agent reports. "+stays, ` --reason "fenced"`, cellgatev1.HostAdmin_FORCED_DOWN),
		of("enable", "Place instances on a host again", `Undo "cellgate hosts disable", "maintenance" or "force-down". A host whose agent reports it
as disabled, or does not report, stays out of service.`, "", cellgatev1.HostAdmin_ENABLED),
	}
}

// adminText shows the state that an operator gave a host, and the state of its service in Nova. It
// gives "" when both allow instances there.
func adminText(a *cellgatev1.HostAdmin) string {
	text := operatorText(a)
	switch nova := a.GetNova(); {
	case nova == "":
		return text
	case text == "":
		return nova
	default:
		return text + "; " + nova
	}
}

func operatorText(a *cellgatev1.HostAdmin) string {
	text := ""
	switch a.GetState() {
	case cellgatev1.HostAdmin_DISABLED:
		text = "disabled by operator"
	case cellgatev1.HostAdmin_MAINTENANCE:
		text = "maintenance"
		if a.GetUntil() != nil {
			text += " until " + timeText(a.GetUntil())
		}
	case cellgatev1.HostAdmin_FORCED_DOWN:
		text = "forced down"
	default:
		return ""
	}
	if a.GetReason() != "" {
		text += ": " + printable(a.GetReason())
	}
	return text
}

// adminLine says who set a host's state, and when; "" when nobody did.
func adminLine(a *cellgatev1.HostAdmin) string {
	if a == nil {
		return ""
	}
	text := ""
	if operator := operatorText(a); operator != "" || a.GetBy() != "" || a.GetNova() == "" {
		text = fmt.Sprintf("%s (since %s, by %s)\n", cmp.Or(operator, "in service"), timeText(a.GetSince()), cmp.Or(printable(a.GetBy()), "Nova"))
	}
	if a.GetNova() != "" {
		text += printable(a.GetNova()) + "\n"
	}
	return text
}

func newHostsDelete(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete HOST",
		Short: "Remove a host that is no more",
		Long: `Remove a host from its cell. A host with live claims stays, and so does one whose agent
still reports: stop the agent first. A host that registers again is there again.`,
		Example: `  cellgate hosts delete 710c6178-bcf9-40bc-9303-112cd17ef687 --reason "scrapped"`,
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	c := newClient(cmd, t)
	f := cmd.Flags()
	cell := f.String("cell", "", "where the host is, if it is known")
	reason := f.String("reason", "", "why, for the audit log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *reason == "" {
			return usage(cmd, errors.New("--reason: must say why"))
		}
		req := &cellgatev1.DeleteHostRequest{HostUuid: args[0], Reason: *reason, Cell: *cell}
		return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.DeleteHost, req, func(p *page, m *cellgatev1.DeleteHostResponse) {
			p.printf("host %s is removed from cell %s\n", args[0], m.GetCell())
		})
	}
	return cmd
}

func newResync(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resync [HOST]",
		Short: "Make the agents of a cell's hosts, or one's, send their whole state again",
		Long: `Ask the agent of a host, or those of all hosts of a cell, to start over: each sends its
whole state as a new version to every replica, and the shard writes it again. Many
hosts are spread over time, a second for each thousand. The command does not wait for
them; "cellgate hosts" shows a new generation of each.`,
		Example: `  cellgate hosts resync --cell cell1 --reason "the table differs from the host"
  cellgate hosts resync 710c6178-bcf9-40bc-9303-112cd17ef687 --cell cell1 --reason "disk replaced" -o json`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	var req cellgatev1.ResyncHostsRequest
	cmd.Flags().StringVar(&req.Cell, "cell", "", "the cell of the hosts")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for the audit log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case req.GetCell() == "":
			return usage(cmd, fmt.Errorf("--cell: must name the cell of the hosts"))
		case req.GetReason() == "":
			return usage(cmd, fmt.Errorf("--reason: must say why"))
		case len(args) == 1:
			req.HostUuid = args[0]
		}
		return ask(c, cmd, cellgatev1.NewHostsClient, cellgatev1.HostsClient.ResyncHosts, &req, showResync)
	}
	return cmd
}

func showResync(p *page, m *cellgatev1.ResyncHostsResponse) {
	t := p.table("REPLICA", "HOSTS ASKED", "WITHIN", "NOT ASKED")
	for _, r := range m.GetReplicas() {
		t.row(r.GetReplica(), r.GetHosts(), r.GetWithin().AsDuration(), r.GetError())
	}
	t.print()
}
