package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newClaimsDoubled(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doubled",
		Short: "List the confirmed claims of instances that have more than one",
		Long: `List the confirmed claims of instances that have more than one: of those that were
selected again while their cell did not answer, and of moves to another cell whose
new claim was confirmed by its host's report alone. Release the one where the
instance is not; for a move, confirm the new one again.

All claims of all cells are read for it: give it time with --timeout where there are
many. Claims that are made or released meanwhile may be missed.`,
		Example: "  cellgate claims doubled -o json",
		Args:    usageArgs(cobra.NoArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return call(c, cmd, doubledClaims, func(p *page, m *cellgatev1.ListClaimsResponse) {
			if p.wide = true; len(m.GetClaims()) == 0 {
				nothing(p, "doubled claims", m.GetUnavailableCells())
				return
			}
			showClaims(p, m)
		})
	}
	return cmd
}

// doubledClaims reads all claims once to find instances with two confirmed ones, and,
// when there are any, once more for theirs: so it keeps 16 bytes a claim, however many
// there are.
func doubledClaims(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ListClaimsResponse, error) {
	once, twice := map[uuid.UUID]struct{}{}, map[uuid.UUID]struct{}{}
	missing, err := eachConfirmed(ctx, conn, func(id uuid.UUID, _ *cellgatev1.Claim) {
		if _, there := once[id]; there {
			twice[id] = struct{}{}
		}
		once[id] = struct{}{}
	})
	if err != nil {
		return nil, err
	}
	out := &cellgatev1.ListClaimsResponse{UnavailableCells: missing}
	if len(twice) == 0 {
		return out, nil
	}
	var found []*cellgatev1.Claim
	missing, err = eachConfirmed(ctx, conn, func(id uuid.UUID, claim *cellgatev1.Claim) {
		if _, there := twice[id]; there {
			found = append(found, claim)
		}
	})
	if err != nil {
		return nil, err
	}
	out.UnavailableCells = union(out.GetUnavailableCells(), missing)
	slices.SortFunc(found, func(a, b *cellgatev1.Claim) int {
		return cmp.Or(cmp.Compare(a.GetConsumerUuid(), b.GetConsumerUuid()), cmp.Compare(a.GetCell(), b.GetCell()))
	})
	// Of an instance of which one was released between the two times, one is left.
	of := func(i int) string {
		if i < 0 || i >= len(found) {
			return ""
		}
		return found[i].GetConsumerUuid()
	}
	for i, claim := range found {
		if of(i) == of(i-1) || of(i) == of(i+1) {
			out.Claims = append(out.Claims, claim)
		}
	}
	return out, nil
}

// eachConfirmed reads all pages of all cells and gives the cells that did not answer.
func eachConfirmed(ctx context.Context, conn *grpc.ClientConn, do func(uuid.UUID, *cellgatev1.Claim)) (missing []string, err error) {
	req := &cellgatev1.ListClaimsRequest{PageSize: maxPage}
	for {
		page, err := cellgatev1.NewClaimsClient(conn).ListClaims(ctx, req)
		if err != nil {
			return nil, err
		}
		missing = union(missing, page.GetUnavailableCells())
		for _, claim := range page.GetClaims() {
			if claim.GetState() != cellgatev1.ClaimState_CONFIRMED {
				continue
			}
			id, err := uuid.Parse(claim.GetConsumerUuid())
			if err != nil {
				return nil, err
			}
			do(id, claim)
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return missing, nil
		}
	}
}
