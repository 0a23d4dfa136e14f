package wire

import (
	"errors"
	"math"
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// EncodeQuery encodes a query whose placement is already serialized.
func EncodeQuery(q *schedule.Query, placement []byte) *cellv1.Query {
	out := &cellv1.Query{Placement: placement, Seed: q.Seed, Limit: int32(q.Limit), Known: statsOf(q.Known), NearMisses: int32(q.NearMisses), Forecast: int32(q.Forecast)}
	for _, t := range q.TentativePlacements {
		out.TentativePlacements = append(out.TentativePlacements, &cellv1.TentativePlacement{HostUuid: t.Host.String(), InstanceUuid: t.Instance.String()})
	}
	return out
}

// Query decodes a query, except for its placement: the caller passes that as request and rules.
func (r *Fields) Query(in *cellv1.Query, request *schedule.Request, rules *schedule.Rules) *schedule.Query {
	q := &schedule.Query{Request: request, Rules: rules, Seed: in.GetSeed(), Limit: int(in.GetLimit()), Known: r.stats(in.GetKnown()), NearMisses: int(in.GetNearMisses()), Forecast: int(in.GetForecast())}
	if q.Limit < 1 {
		r.Problem("limit", "must be at least 1")
	}
	for i, t := range in.GetTentativePlacements() {
		q.TentativePlacements = append(q.TentativePlacements, schedule.TentativePlacement{
			Host:     r.ID(ItemPath("tentative_placements", i, ".host_uuid"), t.GetHostUuid()),
			Instance: r.ID(ItemPath("tentative_placements", i, ".instance_uuid"), t.GetInstanceUuid()),
		})
	}
	return q
}

func statsOf(k *schedule.GlobalStats) *cellv1.GlobalStats {
	if k == nil {
		return nil
	}
	out := &cellv1.GlobalStats{Passed: k.Passed, GroupHosts: k.GroupHosts, GroupHostsKnown: k.GroupHostsKnown}
	out.Bounds = boundsOf(k.Bounds)
	return out
}

// stats decodes the query's statistics over all cells; nil for none.
func (r *Fields) stats(in *cellv1.GlobalStats) *schedule.GlobalStats {
	if in == nil {
		return nil
	}
	out := &schedule.GlobalStats{
		Passed:          in.GetPassed(),
		GroupHosts:      in.GetGroupHosts(),
		GroupHostsKnown: in.GetGroupHostsKnown(),
	}
	out.Bounds = r.bounds("known.bounds", in.GetBounds())
	return out
}

// bounds decodes pairs of least and greatest; nil for none.
func (r *Fields) bounds(path string, in []float64) []schedule.Bounds {
	if slices.ContainsFunc(in, math.IsNaN) {
		r.Problem(path, "must be numbers")
	}
	out, err := boundsFrom(in)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	return out
}

// boundsOf encodes each bound as its least, then its greatest value; nil for none.
func boundsOf(in []schedule.Bounds) []float64 {
	if len(in) == 0 {
		return nil
	}
	out := make([]float64, 0, 2*len(in))
	for _, b := range in {
		out = append(out, b.Min, b.Max)
	}
	return out
}

func boundsFrom(in []float64) ([]schedule.Bounds, error) {
	if len(in)%2 != 0 {
		return nil, errors.New("must be pairs")
	}
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]schedule.Bounds, len(in)/2)
	for i := range out {
		out[i] = schedule.Bounds{Min: in[2*i], Max: in[2*i+1]}
	}
	return out, nil
}
