package main

import (
	"cmp"
	"context"
	"maps"
	"slices"

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
			if p.record = true; len(m.GetClaims()) == 0 {
				nothing(p, "doubled claims", m.GetUnavailableCells())
				return
			}
			showClaims(p, m)
		})
	}
	return cmd
}

// doubledClaims reads all claims, and gives the confirmed ones of each instance that has several on computes.
func doubledClaims(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ListClaimsResponse, error) {
	out, confirmed := &cellgatev1.ListClaimsResponse{}, map[string][]*cellgatev1.Claim{}
	err := eachPage(ctx, &cellgatev1.ListClaimsRequest{PageSize: maxPage}, cellgatev1.NewClaimsClient(conn).ListClaims, func(page *cellgatev1.ListClaimsResponse) bool {
		out.UnavailableCells = union(out.GetUnavailableCells(), page.GetUnavailableCells())
		for _, claim := range page.GetClaims() {
			if id := claim.GetConsumerUuid(); claim.GetState() == cellgatev1.ClaimState_CONFIRMED && claim.GetServiceHost() != "" {
				confirmed[id] = append(confirmed[id], claim)
			}
		}
		return true
	})
	for _, id := range slices.Sorted(maps.Keys(confirmed)) {
		if all := confirmed[id]; len(all) > 1 {
			slices.SortFunc(all, func(a, b *cellgatev1.Claim) int { return cmp.Compare(a.GetCell(), b.GetCell()) })
			out.Claims = append(out.Claims, all...)
		}
	}
	return out, err
}
