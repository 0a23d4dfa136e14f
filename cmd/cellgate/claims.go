package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newClaims(t terminal) *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "claims",
		Short:   "List, show, confirm, move and release claims",
		Example: "  cellgate claims list --cell cell1",
	})
	c := newClient(cmd, t)
	cmd.AddCommand(newClaimsList(c), newClaimsDoubled(c))
	cmd.AddCommand(claimVerbs(c)...)
	return cmd
}

func newClaimsList(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the live claims",
		Example: `  cellgate claims list --cell cell1 --limit 0
  cellgate claims list --host cell1-r01-h001 -o json
  cellgate claims list --instance 11111111-1111-4111-8111-111111111111`,
		Args: usageArgs(cobra.NoArgs),
	}
	var req cellgatev1.ListClaimsRequest
	f := cmd.Flags()
	f.StringVar(&req.Cell, "cell", "", "claims in this cell")
	f.StringVar(&req.HostUuid, "host", "", "claims on this host, by name or uuid")
	f.StringVar(&req.ConsumerUuid, "instance", "", "claims of this instance, by uuid")
	f.StringVar(&req.ProjectId, "project", "", "claims of this project")
	limit := listFlags(cmd, "claims")
	watchFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return list(c, cmd, limit, "claims", cellgatev1.NewClaimsClient, cellgatev1.ClaimsClient.ListClaims, &req, showClaims)
	}
	return cmd
}

// newClaimVerb completes a command for one claim: it takes args arguments, and --cell may name the
// cell.
func newClaimVerb[I proto.Message, M interface {
	proto.Message
	GetClaim() *cellgatev1.Claim
}](c *client, cmd *cobra.Command, args int, method func(cellgatev1.ClaimsClient, context.Context, I, ...grpc.CallOption) (M, error), request func(args []string, cell string) I, show func(p *page, args []string, claim *cellgatev1.Claim)) *cobra.Command {
	cmd.Args = usageArgs(cobra.ExactArgs(args))
	cell := cmd.Flags().String("cell", "", "ask this cell only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return ask(c, cmd, cellgatev1.NewClaimsClient, method, request(args, *cell), func(p *page, m M) { show(p, args, m.GetClaim()) })
	}
	return cmd
}

func showClaim(p *page, _ []string, c *cellgatev1.Claim) {
	p.record = true
	showClaims(p, &cellgatev1.ListClaimsResponse{Claims: []*cellgatev1.Claim{c}})
}

// claimVerbs are the commands for one claim.
func claimVerbs(c *client) []*cobra.Command {
	const instance, claim = "11111111-1111-4111-8111-111111111111", "01JAB2C3D4E5F6G7H8J9KMNPQR"
	alternate := &cobra.Command{
		Use:   "alternate INSTANCE CLAIM HOST",
		Short: "Put a claim on one of its alternates, at once",
		Long: `Put a claim on one of the alternates that it was answered with, by the
alternate's name or uuid. The old host's resources are given back in the same
transaction; when the alternate has no room, the claim stays where it is.`,
		Example: "  cellgate claims alternate " + instance + " " + claim + " 8d75c242-e8ae-4000-b1b2-e5da60bc781a",
	}
	ttl := alternate.Flags().Duration("ttl", 0, "the new lease (0 for the gateway's default)")
	get := &cobra.Command{
		Use:     "get INSTANCE",
		Short:   "Show the live claim of an instance, and of a move both",
		Example: "  cellgate claims get " + instance,
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	cell := get.Flags().String("cell", "", "ask this cell only")
	get.RunE = func(cmd *cobra.Command, args []string) error {
		req := &cellgatev1.GetClaimRequest{ConsumerUuid: args[0], Cell: *cell}
		return ask(c, cmd, cellgatev1.NewClaimsClient, cellgatev1.ClaimsClient.GetClaim, req, func(p *page, m *cellgatev1.GetClaimResponse) {
			all := []*cellgatev1.Claim{m.GetClaim()}
			if other := m.GetOtherClaim(); other != nil {
				all = append(all, other)
			}
			p.record = true
			showClaims(p, &cellgatev1.ListClaimsResponse{Claims: all})
		})
	}
	return []*cobra.Command{
		get,
		newClaimVerb(c, &cobra.Command{
			Use:     "confirm INSTANCE CLAIM",
			Short:   "End a claim's lease: it stays until it is released",
			Example: "  cellgate claims confirm " + instance + " " + claim,
		}, 2, cellgatev1.ClaimsClient.ConfirmClaim, func(args []string, cell string) *cellgatev1.ConfirmClaimRequest {
			return &cellgatev1.ConfirmClaimRequest{ConsumerUuid: args[0], ClaimId: args[1], Cell: cell}
		}, showClaim),
		newClaimVerb(c, alternate, 3, cellgatev1.ClaimsClient.ClaimAlternate, func(args []string, cell string) *cellgatev1.ClaimAlternateRequest {
			req := &cellgatev1.ClaimAlternateRequest{ConsumerUuid: args[0], ClaimId: args[1], HostUuid: args[2], Cell: cell}
			if *ttl != 0 {
				req.ClaimTtl = durationpb.New(*ttl)
			}
			return req
		}, showClaim),
		newClaimVerb(c, &cobra.Command{
			Use:   "transfer CONSUMER CLAIM TO",
			Short: "Make a claim another consumer's, unchanged",
			Long: `Make a live claim another consumer's, unchanged: how a migration comes to hold
the resources of the host that its instance leaves.`,
			Example: "  cellgate claims transfer " + instance + " " + claim + " 22222222-2222-4222-8222-222222222222",
		}, 3, cellgatev1.ClaimsClient.TransferClaim, func(args []string, cell string) *cellgatev1.TransferClaimRequest {
			return &cellgatev1.TransferClaimRequest{ConsumerUuid: args[0], ClaimId: args[1], ToConsumer: args[2], Cell: cell}
		}, showClaim),
		newClaimVerb(c, &cobra.Command{
			Use:   "release INSTANCE CLAIM",
			Short: "Give a claim's resources back",
			Long: `Give a claim's resources back. A claim that no cell knows is refused from then on,
should it arrive yet; the command says that nothing was released, with status 1.`,
			Example: "  cellgate claims release " + instance + " " + claim,
		}, 2, releaseClaim, func(args []string, cell string) *cellgatev1.ReleaseClaimRequest {
			return &cellgatev1.ReleaseClaimRequest{ConsumerUuid: args[0], ClaimId: args[1], Cell: cell}
		}, func(p *page, args []string, claim *cellgatev1.Claim) {
			if s := claim.GetState(); s != cellgatev1.ClaimState_PENDING && s != cellgatev1.ClaimState_CONFIRMED {
				p.printf("%s had ended already: %s\n", args[1], s)
				return
			}
			p.printf("released %s\n", args[1])
		}),
	}
}

// releaseClaim releases a claim. It gives an error when no cell knows the claim.
func releaseClaim(claims cellgatev1.ClaimsClient, ctx context.Context, req *cellgatev1.ReleaseClaimRequest, opts ...grpc.CallOption) (*cellgatev1.ReleaseClaimResponse, error) {
	m, err := claims.ReleaseClaim(ctx, req, opts...)
	if err == nil && m.GetClaim() == nil {
		err = fault.New(fault.NotFound, "no cell knows claim %s of instance %s: nothing was released; \"cellgate claims get %[2]s\" shows the claim that it has", req.GetClaimId(), req.GetConsumerUuid())
	}
	return m, err
}

func showClaims(p *page, m *cellgatev1.ListClaimsResponse) {
	if len(m.GetClaims()) == 0 {
		nothing(p, "claims", m.GetUnavailableCells())
		return
	}
	t := p.table("INSTANCE", "STATE", "CELL", "HOST", "+AMOUNTS", "EXPIRES", "+CLAIM")
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
		amounts := joined(c.GetAllocations(), func(a *cellgatev1.Allocation) string {
			return fmt.Sprintf("%s=%d", a.GetResourceClass(), a.GetAmount())
		}, " ")
		expires := timeText(c.GetExpiresAt())
		if expires != "" && !p.wide && !p.record { // a lease is an hour at most
			expires = c.GetExpiresAt().AsTime().Format(time.TimeOnly + "Z")
		}
		t.row(c.GetConsumerUuid(), state, c.GetCell(), c.GetServiceHost(), amounts, expires, c.GetClaimId())
	}
	t.print()
	footer(p, "claims", len(m.GetClaims()), m.GetNextPageToken() != "", m.GetUnavailableCells())
}
