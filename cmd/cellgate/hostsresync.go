package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newResync(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resync [HOST_UUID]",
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
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ResyncHostsResponse, error) {
			return cellgatev1.NewHostsClient(conn).ResyncHosts(ctx, &req)
		}, showResync)
	}
	return cmd
}

func showResync(w io.Writer, m *cellgatev1.ResyncHostsResponse) error {
	t := newTable(w, "REPLICA", "HOSTS ASKED", "WITHIN", "NOT ASKED")
	for _, r := range m.GetReplicas() {
		t.row(r.GetReplica(), r.GetHosts(), r.GetWithin().AsDuration(), r.GetError())
	}
	return t.end()
}
