package systemtest

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func init() { scenarios = append(scenarios, moves...) }

// moves are the scenarios of docs/how-to/operations.md.
var moves = []scenario{
	{"move over cells", func(c *conductor) map[string]string {
		c.built("build", 1, "cell1")
		// As Nova's conductor does: the requested destination's cell is the instance's own.
		r := request("move", 1, 1)
		r.Operation = cellgatev1.Operation_MOVE
		r.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: "cell1", AllowCrossCellMove: true}
		r.GetRequestSpec().IgnoreHosts = []string{"host000", "host001"}
		s := c.selects(r)[0]
		c.confirms(uuidOf(0x1, 1), s)
		c.asked = c.asked[1:] // its claim was released by the move
		return holders(1, s)
	}},
	{"live migration within a cell", func(c *conductor) map[string]string {
		was := c.built("build", 1, "cell1")
		r := within(request("migrate", 1, 1), "cell1")
		r.Operation = cellgatev1.Operation_LIVE_MIGRATE
		s := c.selects(r)[0]
		if s.GetServiceHost() == was.GetServiceHost() {
			c.t.Error("migrated to the host it was on")
		}
		c.confirms(uuidOf(0x1, 1), s)
		c.asked = c.asked[1:]
		return holders(1, s)
	}},
	{"move that is given up", func(c *conductor) map[string]string {
		s := c.built("build", 1, "cell1")
		r := request("move", 1, 1)
		r.Operation = cellgatev1.Operation_MOVE
		c.releases(uuidOf(0x1, 1), c.selects(r)[0])
		c.asked = c.asked[:1]
		return holders(1, s)
	}},
	{"resize as Nova has it, confirmed", func(c *conductor) map[string]string {
		was := c.built("build", 1, "cell1")
		migration := uuidOf(0x2, 1)
		c.transfers(uuidOf(0x1, 1), migration, was)
		r := request("resize", 1, 1)
		r.Operation = cellgatev1.Operation_MOVE
		s := c.selects(r)[0]
		c.confirms(uuidOf(0x1, 1), s)
		c.releases(migration, was)
		c.asked = c.asked[1:]
		return holders(1, s)
	}},
	{"resize as Nova has it, reverted", func(c *conductor) map[string]string {
		was := c.built("build", 1, "cell1")
		migration := uuidOf(0x2, 1)
		c.transfers(uuidOf(0x1, 1), migration, was)
		r := request("resize", 1, 1)
		r.Operation = cellgatev1.Operation_MOVE
		s := c.selects(r)[0]
		c.confirms(uuidOf(0x1, 1), s)
		c.releases(uuidOf(0x1, 1), s)
		c.transfers(migration, uuidOf(0x1, 1), was)
		c.asked = c.asked[:1]
		return holders(1, was)
	}},
	{"the host fails, an alternate takes it", func(c *conductor) map[string]string {
		r := request("build", 1, 1)
		r.ReturnAlternates = true
		s := c.selects(r)[0]
		alternates := c.answers["build"].GetDestinations()[0].GetAlternates()
		if len(alternates) == 0 {
			c.t.Fatal("no alternates")
		}
		claim := c.takesAlternate(uuidOf(0x1, 1), s, alternates[0].GetComputeNodeUuid())
		if claim.GetServiceHost() != alternates[0].GetServiceHost() || claim.GetClaimId() != s.GetClaimId() {
			c.t.Errorf("the claim is now %v", claim)
		}
		c.confirms(uuidOf(0x1, 1), s)
		// From here on, the same request is answered with the alternate.
		s.ComputeNodeUuid, s.ServiceHost = claim.GetHostUuid(), claim.GetServiceHost()
		return holders(1, s)
	}},
}

func (c *conductor) transfers(from, to string, s *cellgatev1.Selection) {
	c.t.Helper()
	yes(c, "transfer", func(ctx context.Context) (*cellgatev1.TransferClaimResponse, error) {
		return c.claims.TransferClaim(ctx, &cellgatev1.TransferClaimRequest{ConsumerUuid: from, ClaimId: s.GetClaimId(), ToConsumer: to})
	})
}

func (c *conductor) takesAlternate(consumer string, s *cellgatev1.Selection, host string) *cellgatev1.Claim {
	c.t.Helper()
	return yes(c, "alternate", func(ctx context.Context) (*cellgatev1.ClaimAlternateResponse, error) {
		return c.claims.ClaimAlternate(ctx, &cellgatev1.ClaimAlternateRequest{
			ConsumerUuid: consumer, ClaimId: s.GetClaimId(), HostUuid: host, ClaimTtl: durationpb.New(lease),
		})
	}).GetClaim()
}

// built returns the selection of a running instance, whose claim is confirmed.
func (c *conductor) built(id string, n int, cell string) *cellgatev1.Selection {
	c.t.Helper()
	s := c.selects(within(request(id, n, 1), cell))[0]
	c.confirms(uuidOf(0x1, n), s)
	return s
}
