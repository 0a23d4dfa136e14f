package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

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
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.DeleteHostResponse, error) {
			return cellgatev1.NewHostsClient(conn).DeleteHost(ctx, &cellgatev1.DeleteHostRequest{HostUuid: args[0], Reason: *reason, Cell: *cell})
		}, func(w io.Writer, m *cellgatev1.DeleteHostResponse) error {
			_, err := fmt.Fprintf(w, "host %s is removed from cell %s\n", args[0], m.GetCell())
			return err
		})
	}
	return cmd
}
