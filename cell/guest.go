package cell

import (
	"google.golang.org/protobuf/proto"

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
		check := schedule.GuestCheck{Nova: r.Guest(in), NUMA: in.GetJudgeNuma(), PCI: in.GetJudgePci()}
		g.Hardware = r.bounded("claim.guest", check.Encode())
	}
	return g
}

// serialized gives a part of a guest as claims' rows have it.
func (r *reader) serialized(path string, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	return r.bounded(path, b)
}

func (r *reader) bounded(path string, b []byte) []byte {
	if len(b) > shard.MaxGuest {
		r.Problem(path, "has %d bytes, the most is %d", len(b), shard.MaxGuest)
	}
	return b
}
