package cell

import (
	"google.golang.org/protobuf/proto"

	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// guest reads what a claim keeps of its instance; nil for nothing.
func (r *reader) guest(in *cellv1.Guest) *shard.Guest {
	if in == nil {
		return nil
	}
	g := &shard.Guest{FlavorID: in.GetFlavorId()}
	if in.GetImage() != nil {
		g.Image = r.serialized("claim.guest.image", &cellv1.NovaImage{Properties: in.GetImage().GetProperties()})
	}
	if in.GetNuma() != nil || len(in.GetPciRequests()) > 0 {
		r.NUMA(in.GetNuma())
		r.PCI(in.GetPciRequests())
		g.Hardware = r.serialized("claim.guest", &cellv1.Guest{
			Numa: in.GetNuma(), PciRequests: in.GetPciRequests(), Networks: in.GetNetworks(),
			JudgeNuma: in.GetJudgeNuma(), JudgePci: in.GetJudgePci(),
		})
	}
	return g
}

// serialized gives a part of a guest as claims' rows have it.
func (r *reader) serialized(path string, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	if len(b) > shard.MaxGuest {
		r.Problem(path, "has %d bytes, the most is %d", len(b), shard.MaxGuest)
	}
	return b
}

// imageOf is the image of a claim's instance, as far as it was kept.
func imageOf(g *shard.Guest) (*schedule.Image, error) {
	if len(g.Image) == 0 {
		return nil, nil
	}
	m := &cellv1.NovaImage{}
	if err := proto.Unmarshal(g.Image, m); err != nil {
		return nil, err
	}
	return &schedule.Image{Properties: proposing.Properties(m.GetProperties())}, nil
}

// needsHardware reports whether a claim takes of its host's NUMA cells or devices
// what no report has yet: while it is PENDING, and from its caller's confirm until its
// host reports the instance. One that is never reported keeps them as long as it keeps
// its amounts: until it is released. One that its host gave back takes nothing.
func needsHardware(c *shard.Claim) bool {
	return c != nil && c.State.Live() && hasHardware(c.Guest) && (c.State == shard.Pending || c.Guest.Awaited) && !c.GaveBack()
}

func hasHardware(g *shard.Guest) bool { return g != nil && len(g.Hardware) > 0 }

// hardwareOf is what the instance takes, and by which filters it was judged.
func hardwareOf(g *shard.Guest) (schedule.GuestCheck, error) {
	m := &cellv1.Guest{}
	if err := proto.Unmarshal(g.Hardware, m); err != nil {
		return schedule.GuestCheck{}, err
	}
	var r reader
	return schedule.GuestCheck{Nova: r.Guest(m), NUMA: m.GetJudgeNuma(), PCI: m.GetJudgePci()}, nil
}
