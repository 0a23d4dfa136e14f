package wire

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// DecodeRanking decodes a serialized Ranking into its hosts; none for no bytes.
func DecodeRanking(ranking []byte) ([]*cellgatev1.RankedHost, error) {
	r := &cellv1.Ranking{}
	if err := proto.Unmarshal(ranking, r); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a ranking is not readable")
	}
	const uuidBytes = len(schedule.ID{})
	hosts, weighers := len(r.GetCells()), len(r.GetWeighers())
	for _, n := range []int{len(r.GetServiceHosts()), len(r.GetNodenames()), len(r.GetZones()), len(r.GetTies())} {
		if n != hosts || len(r.GetUuids()) != hosts*uuidBytes {
			return nil, fault.New(fault.Internal, "a ranking is not readable: %d hosts, %d in a column", hosts, n)
		}
	}
	own := r.GetOwnMultipliers()
	if len(r.GetMultipliers()) != weighers || len(r.GetMin()) != weighers || len(r.GetMax()) != weighers || len(r.GetRaw()) != hosts*weighers || len(own) != 0 && len(own) != len(r.GetRaw()) {
		return nil, fault.New(fault.Internal, "a ranking is not readable: columns of numbers are not of %d hosts and %d weighers", hosts, weighers)
	}
	out := make([]*cellgatev1.RankedHost, hosts)
	for i := range out {
		h := &cellgatev1.RankedHost{
			Cell: r.GetCells()[i], HostUuid: schedule.ID(r.GetUuids()[i*uuidBytes : (i+1)*uuidBytes]).String(), ServiceHost: r.GetServiceHosts()[i],
			Nodename: cmp.Or(r.GetNodenames()[i], r.GetServiceHosts()[i]), AvailabilityZone: r.GetZones()[i], Tie: r.GetTies()[i],
		}
		for w, name := range r.GetWeighers() {
			at, least, most := i*weighers+w, r.GetMin()[w], r.GetMax()[w]
			x := &cellgatev1.WeigherScore{Weigher: name, Multiplier: r.GetMultipliers()[w], Raw: r.GetRaw()[at], Normalized: (r.GetRaw()[at] - least) / (most - least)}
			if len(own) > 0 {
				x.Multiplier = own[at]
			}
			x.Score = x.GetMultiplier() * x.GetNormalized()
			h.Weight += x.GetScore()
			h.Scores = append(h.Scores, x)
		}
		out[i] = h
	}
	return out, nil
}
