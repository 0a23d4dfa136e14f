package cell

import (
	"fmt"
	"slices"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// heldState is what the agent of a host that is heard here said last, and the report that
// it is of; nil for none, and for one that is refused since.
func (s *agentService) heldState(uuid string) (*shard.Host, *report) {
	rep := s.reported.of(uuid)
	if rep == nil || !s.sessions.speaks(uuid, rep.by) || s.refusalOf(uuid) != nil {
		return nil, nil
	}
	if _, up := s.live.LastSeen(uuid); !up {
		return nil, nil
	}
	return rep.host(), rep
}

// comparable gives the report of a host that can be compared with its rows: of an
// agent that is heard here, knows its instances and is not refused since, and of which the
// row is.
func (s *agentService) comparable(row *hostRow) *report {
	if row == nil || row.host == nil || row.host.Imported || row.host.InstancesUnknown {
		return nil
	}
	if _, up := s.live.LastSeen(row.host.UUID); !up {
		return nil
	}
	if s.refusalOf(row.host.UUID) != nil {
		return nil // its agent knows better
	}
	rep := s.reported.of(row.host.UUID)
	if rep == nil || !s.sessions.speaks(row.host.UUID, rep.by) || rep.state.GetInstancesUnknown() || rep.saidBy() != row.host.Registration() {
		return nil
	}
	return rep
}

// instanceGone says why a claim is not released that its host may still have the instance
// of (ClaimRef.unless_reported); nil when it is.
func (s *agentService) instanceGone(id string) error {
	claim := s.rows.claim(id)
	if claim == nil {
		return nil // it has ended
	}
	row := s.rows.host(claim.HostUUID)
	if row == nil || row.host == nil || row.host.Imported || row.host.InstancesUnknown {
		return nil
	}
	if _, up := s.live.LastSeen(claim.HostUUID); !up {
		return nil
	}
	if s.refusalOf(claim.HostUUID) != nil {
		return fault.New(fault.CellUnavailable, "host %s may have the instance still: the newest state of its agent is refused", claim.ServiceHost)
	}
	rep := s.reported.of(claim.HostUUID)
	if rep == nil || !s.sessions.speaks(claim.HostUUID, rep.by) {
		return fault.New(fault.CellUnavailable, "the agent of host %s, which may have the instance still, is not heard by this replica", claim.ServiceHost)
	}
	if _, there := reportedIn(rep.state)[claim.Instance()]; there {
		return fault.New(fault.AlreadyExists, "host %s reports instance %s", claim.ServiceHost, claim.Instance())
	}
	return nil
}

// instanceDifference says which instances that Nova's tables have on a host its agent does
// not list, or the other way round; "" for none, and for an agent that does not know them.
func (s *agentService) instanceDifference(uuid string, rep *report) string {
	if rep.state.GetInstancesUnknown() {
		return ""
	}
	_, has := instancesOf(rep)
	var lacks []string
	claims := s.rows.claimsOn(uuid)
	there := make(map[string]struct{}, len(claims))
	for _, claim := range claims {
		id := claim.Instance()
		there[id] = struct{}{}
		if _, is := has[id]; !is && claim.Seen && claim.State == shard.Confirmed {
			lacks = append(lacks, id)
		}
	}
	if len(lacks) > 0 {
		return fmt.Sprintf("Nova has instance %s on it, its agent does not list that", firstAndCount(lacks))
	}
	var more []string
	for id := range has {
		if _, is := there[id]; !is {
			more = append(more, id)
		}
	}
	if len(more) > 0 {
		return fmt.Sprintf("its agent lists instance %s, Nova has none such on it", firstAndCount(more))
	}
	return ""
}

// reportLacks reports whether the newest report of a claim's host, which is heard here and can
// be believed, does not have the claim's instance, and which report that is.
func (s *agentService) reportLacks(claim *shard.Claim) (said shard.Registration, lacks bool) {
	rep := s.comparable(s.rows.host(claim.HostUUID))
	if rep == nil {
		return said, false
	}
	_, has := instancesOf(rep)
	_, there := has[claim.Instance()]
	return rep.saidBy(), !there
}

// firstAndCount names the first of some ids, and how many more there are.
func firstAndCount(ids []string) string {
	first := slices.Min(ids)
	if more := len(ids) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}
