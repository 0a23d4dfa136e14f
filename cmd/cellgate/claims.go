package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newClaims(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "claims",
		Short:   "List, show, confirm, move and release claims",
		Example: "  cellgate claims list --cell cell1",
		Args:    usageArgs(knownCommand),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usage(cmd, errors.New("say what to do: list, doubled, get, confirm, alternate, transfer or release"))
		},
		SuggestionsMinimumDistance: 2,
	}
	c := newClient(cmd, t)
	cmd.AddCommand(newClaimsList(c), newClaimsDoubled(c), newClaimsGet(c), newClaimsConfirm(c), newClaimsAlternate(c), newClaimsTransfer(c), newClaimsRelease(c))
	return cmd
}

func newClaimsList(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the live claims",
		Example: `  cellgate claims list --cell cell1 --limit 0
  cellgate claims list --host 710c6178-bcf9-40bc-9303-112cd17ef687 -o json`,
		Args: usageArgs(cobra.NoArgs),
	}
	var req cellgatev1.ListClaimsRequest
	f := cmd.Flags()
	f.StringVar(&req.Cell, "cell", "", "claims in this cell")
	f.StringVar(&req.HostUuid, "host", "", "claims on this host, by uuid")
	f.StringVar(&req.ProjectId, "project", "", "claims of this project")
	limit := limitFlag(cmd, "claims")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := limit.check(cmd); err != nil {
			return err
		}
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ListClaimsResponse, error) {
			return listClaims(ctx, conn, &req, limit.n)
		}, showClaims)
	}
	return cmd
}

// listClaims reads pages until limit claims are there; 0 means all.
func listClaims(ctx context.Context, conn *grpc.ClientConn, req *cellgatev1.ListClaimsRequest, limit int) (*cellgatev1.ListClaimsResponse, error) {
	all := &cellgatev1.ListClaimsResponse{}
	for {
		req.PageSize = pageSize(limit, len(all.GetClaims()))
		page, err := cellgatev1.NewClaimsClient(conn).ListClaims(ctx, req)
		if err != nil {
			return nil, err
		}
		all.Claims = append(all.Claims, page.GetClaims()...)
		all.NextPageToken = page.GetNextPageToken()
		all.UnavailableCells = union(all.GetUnavailableCells(), page.GetUnavailableCells())
		req.PageToken = page.GetNextPageToken()
		if req.GetPageToken() == "" || limit > 0 && len(all.GetClaims()) >= limit {
			return all, nil
		}
	}
}

func newClaimsGet(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get INSTANCE",
		Short:   "Show the live claim of an instance",
		Example: "  cellgate claims get 11111111-1111-4111-8111-111111111111",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.GetClaimResponse, error) {
			return cellgatev1.NewClaimsClient(conn).GetClaim(ctx, &cellgatev1.GetClaimRequest{ConsumerUuid: args[0], Cell: *cell})
		}, func(w io.Writer, m *cellgatev1.GetClaimResponse) error { return showClaim(w, m.GetClaim()) })
	}
	return cmd
}

func newClaimsConfirm(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "confirm INSTANCE CLAIM",
		Short:   "End a claim's lease: it stays until it is released",
		Example: "  cellgate claims confirm 11111111-1111-4111-8111-111111111111 01JAB2C3D4E5F6G7H8J9KMNPQR",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ConfirmClaimResponse, error) {
			return cellgatev1.NewClaimsClient(conn).ConfirmClaim(ctx, &cellgatev1.ConfirmClaimRequest{
				ConsumerUuid: args[0], ClaimId: args[1], Cell: *cell,
			})
		}, func(w io.Writer, m *cellgatev1.ConfirmClaimResponse) error { return showClaim(w, m.GetClaim()) })
	}
	return cmd
}

func newClaimsRelease(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release INSTANCE CLAIM",
		Short: "Give a claim's resources back",
		Long: `Give a claim's resources back. A claim that no cell knows is refused from then on,
should it arrive yet; the command says that nothing was released, with status 1.`,
		Example: "  cellgate claims release 11111111-1111-4111-8111-111111111111 01JAB2C3D4E5F6G7H8J9KMNPQR",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ReleaseClaimResponse, error) {
			m, err := cellgatev1.NewClaimsClient(conn).ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{
				ConsumerUuid: args[0], ClaimId: args[1], Cell: *cell,
			})
			if err == nil && m.GetClaim() == nil {
				err = fault.New(fault.NotFound, "no cell knows claim %s of instance %s: nothing was released; \"cellgate claims get %[2]s\" shows the claim that it has", args[1], args[0])
			}
			return m, err
		}, func(w io.Writer, m *cellgatev1.ReleaseClaimResponse) error {
			return showReleased(w, args[1], m.GetClaim().GetState())
		})
	}
	return cmd
}

// showReleased says what became of a claim that was found in a state.
func showReleased(w io.Writer, id string, found cellgatev1.ClaimState) error {
	if found != cellgatev1.ClaimState_PENDING && found != cellgatev1.ClaimState_CONFIRMED {
		_, err := fmt.Fprintf(w, "%s had ended already: %s\n", id, found)
		return err
	}
	_, err := fmt.Fprintf(w, "released %s\n", id)
	return err
}

func showClaims(w io.Writer, m *cellgatev1.ListClaimsResponse) error {
	if len(m.GetClaims()) == 0 {
		return nothing(w, "claims", m.GetUnavailableCells())
	}
	t := newTable(w, "INSTANCE", "STATE", "CELL", "HOST", "AMOUNTS", "EXPIRES", "CLAIM")
	for _, c := range m.GetClaims() {
		state := c.GetState().String()
		switch {
		case c.GetAdopted():
			state += " (adopted)"
		case c.GetMovesClaimId() != "" && c.GetState() == cellgatev1.ClaimState_PENDING:
			state += " (a move)"
		}
		if v := c.GetVerdict(); v.GetOutcome() == "REJECTED" {
			state += " (host: " + v.GetReason() + ")"
		}
		expires := ""
		if c.GetExpiresAt() != nil {
			expires = c.GetExpiresAt().AsTime().Format(time.RFC3339)
		}
		var amounts []string
		for _, a := range c.GetAllocations() {
			amounts = append(amounts, fmt.Sprintf("%s=%d", a.GetResourceClass(), a.GetAmount()))
		}
		t.row(c.GetConsumerUuid(), state, c.GetCell(), c.GetServiceHost(), strings.Join(amounts, " "), expires, c.GetClaimId())
	}
	if err := t.end(); err != nil {
		return err
	}
	return footer(w, "claims", len(m.GetClaims()), m.GetNextPageToken() != "", m.GetUnavailableCells())
}
