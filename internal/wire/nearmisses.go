package wire

import (
	"fmt"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// EncodeNearMisses encodes near misses; nil for none.
func EncodeNearMisses(n *schedule.NearMisses) *cellv1.NearMisses {
	if n == nil {
		return nil
	}
	out := &cellv1.NearMisses{Hosts: int32(n.Hosts), Passed: int32(n.Passed)}
	for _, c := range n.Conditions {
		condition := &cellgatev1.Condition{Filter: c.Filter, Detail: c.Detail, Hosts: int32(c.Hosts), Alone: int32(c.Alone)}
		for _, b := range c.Bounds {
			condition.Bounds = append(condition.Bounds, &cellgatev1.BoundCount{Bound: string(b.Bound), Hosts: int32(b.Hosts), Nearest: b.Nearest, Asked: b.Asked})
		}
		out.Conditions = append(out.Conditions, condition)
	}
	for i := range n.Nearest {
		m := &n.Nearest[i]
		host := &cellgatev1.NearMiss{
			HostUuid: m.Host.String(), ServiceHost: m.ServiceHost, Nodename: m.NodeName, AvailabilityZone: m.Zone,
			Cost: m.Cost, Changeable: m.Changeable, Alike: int32(m.Alike), Misses: EncodeMisses(m.Misses),
		}
		out.Nearest = append(out.Nearest, host)
	}
	for _, c := range n.Changes {
		out.Changes = append(out.Changes, &cellv1.Change{Misses: EncodeMisses(c.Misses), Cost: c.Cost, Zone: c.Zone})
	}
	return out
}

// EncodeMisses encodes the resources and properties that hosts lack.
func EncodeMisses(misses []schedule.Miss) []*cellgatev1.Miss {
	out := make([]*cellgatev1.Miss, len(misses))
	for i, x := range misses {
		out[i] = &cellgatev1.Miss{Filter: x.Filter, Detail: x.Detail, Asked: x.Asked, Most: x.Most, MostWhenEmpty: x.MostWhenEmpty, Bound: string(x.Bound), BoundAt: x.BoundAt, Changeable: x.Changeable}
	}
	return out
}

func missesFrom(in []*cellgatev1.Miss) []schedule.Miss {
	out := make([]schedule.Miss, len(in))
	for i, x := range in {
		out[i] = schedule.Miss{Filter: x.GetFilter(), Detail: x.GetDetail(), Asked: x.GetAsked(), Most: x.GetMost(), MostWhenEmpty: x.GetMostWhenEmpty(), Bound: schedule.Bound(x.GetBound()), BoundAt: x.GetBoundAt(), Changeable: x.GetChangeable()}
	}
	return out
}

func nearMissesFrom(in *cellv1.NearMisses) (*schedule.NearMisses, error) {
	if in == nil {
		return nil, nil
	}
	out := &schedule.NearMisses{Hosts: int(in.GetHosts()), Passed: int(in.GetPassed())}
	for _, c := range in.GetConditions() {
		condition := schedule.Condition{Filter: c.GetFilter(), Detail: c.GetDetail(), Hosts: int(c.GetHosts()), Alone: int(c.GetAlone())}
		for _, b := range c.GetBounds() {
			condition.Bounds = append(condition.Bounds, schedule.BoundCount{Bound: schedule.Bound(b.GetBound()), Hosts: int(b.GetHosts()), Nearest: b.GetNearest(), Asked: b.GetAsked()})
		}
		out.Conditions = append(out.Conditions, condition)
	}
	for i, m := range in.GetNearest() {
		id, err := schedule.ParseID(m.GetHostUuid())
		if err != nil {
			return nil, fmt.Errorf("nearest[%d].host_uuid: %w", i, err)
		}
		host := schedule.NearMiss{
			Host: id, ServiceHost: m.GetServiceHost(), NodeName: m.GetNodename(), Zone: m.GetAvailabilityZone(),
			Cost: m.GetCost(), Changeable: m.GetChangeable(), Alike: int(m.GetAlike()), Misses: missesFrom(m.GetMisses()),
		}
		out.Nearest = append(out.Nearest, host)
	}
	for _, c := range in.GetChanges() {
		out.Changes = append(out.Changes, schedule.Change{Misses: missesFrom(c.GetMisses()), Cost: c.GetCost(), Zone: c.GetZone()})
	}
	return out, nil
}
