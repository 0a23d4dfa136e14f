package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newClaimsAlternate(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "alternate INSTANCE CLAIM HOST",
		Short: "Put a claim on one of its alternates, at once",
		Long: `Put a claim on one of the alternates that it was answered with, by the
alternate's uuid. The old host's resources are given back in the same
transaction; when the alternate has no room, the claim stays where it is.`,
		Example: "  cellgate claims alternate 11111111-1111-4111-8111-111111111111 01JAB2C3D4E5F6G7H8J9KMNPQR 8d75c242-e8ae-4000-b1b2-e5da60bc781a",
		Args:    usageArgs(cobra.ExactArgs(3)),
	}
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	ttl := cmd.Flags().Duration("ttl", 0, "the new lease (0 for the gateway's default)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &cellgatev1.ClaimAlternateRequest{ConsumerUuid: args[0], ClaimId: args[1], HostUuid: args[2], Cell: *cell}
		if *ttl != time.Duration(0) {
			req.ClaimTtl = durationpb.New(*ttl)
		}
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ClaimAlternateResponse, error) {
			return cellgatev1.NewClaimsClient(conn).ClaimAlternate(ctx, req)
		}, func(w io.Writer, m *cellgatev1.ClaimAlternateResponse) error { return showClaim(w, m.GetClaim()) })
	}
	return cmd
}

func newClaimsTransfer(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "transfer CONSUMER CLAIM TO",
		Short: "Make a claim another consumer's, as it is",
		Long: `Make a live claim another consumer's, as it is: how a migration comes to hold
the resources of the host that its instance leaves.`,
		Example: "  cellgate claims transfer 11111111-1111-4111-8111-111111111111 01JAB2C3D4E5F6G7H8J9KMNPQR 22222222-2222-4222-8222-222222222222",
		Args:    usageArgs(cobra.ExactArgs(3)),
	}
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := &cellgatev1.TransferClaimRequest{ConsumerUuid: args[0], ClaimId: args[1], ToConsumer: args[2], Cell: *cell}
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.TransferClaimResponse, error) {
			return cellgatev1.NewClaimsClient(conn).TransferClaim(ctx, req)
		}, func(w io.Writer, m *cellgatev1.TransferClaimResponse) error { return showClaim(w, m.GetClaim()) })
	}
	return cmd
}

func showClaim(w io.Writer, c *cellgatev1.Claim) error {
	return showClaims(w, &cellgatev1.ListClaimsResponse{Claims: []*cellgatev1.Claim{c}})
}
