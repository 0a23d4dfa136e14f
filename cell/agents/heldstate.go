package agents

import (
	"fmt"

	"cellgate/cell/gate"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/shard"
)

// activeReport returns the last report of a host whose agent is up and reports to this replica. It is nil if
// there is none, or if the agent's newest state is refused.
func (s *Service) activeReport(uuid string) *Report {
	if _, up := s.live.LastSeen(uuid); !up || s.RefusalOf(uuid) != nil {
		return nil
	}
	rep := s.Reports.Newest(uuid)
	if rep == nil || !s.Streams.isActive(uuid, rep.by) {
		return nil
	}
	return rep
}

// HeldState returns the last state of a host whose agent reports to this replica, and its report
// (activeReport). Both are nil if there is none.
func (s *Service) HeldState(uuid string) (*shard.Host, *Report) {
	rep := s.activeReport(uuid)
	if rep == nil {
		return nil, nil
	}
	return rep.host(), rep
}

// agentListsInstances reports whether a host's row is of an agent that knows its instances.
func agentListsInstances(row *replica.HostRow) bool {
	return row != nil && row.Host != nil && !row.Host.Imported && !row.Host.InstancesUnknown
}

// ComparableReport returns the report that a host's row was written from. It is nil unless the agent is
// up at this replica, knows its instances, and has had no newer state refused.
func (s *Service) ComparableReport(row *replica.HostRow) *Report {
	if !agentListsInstances(row) {
		return nil
	}
	rep := s.activeReport(row.Host.UUID)
	if rep == nil || rep.State.GetInstancesUnknown() || rep.Registration() != row.Host.Registration() {
		return nil
	}
	return rep
}

// InstanceGone checks a release with ClaimRef.unless_reported. It returns an error while the claim's
// host may still have the instance, and nil if the claim may be released.
func (s *Service) InstanceGone(id string) error {
	claim := s.rows.Claim(id)
	if claim == nil || !agentListsInstances(s.rows.Host(claim.HostUUID)) {
		return nil // it has ended, or nobody reports the host's instances
	}
	if _, up := s.live.LastSeen(claim.HostUUID); !up {
		return nil
	}
	rep := s.activeReport(claim.HostUUID)
	if rep == nil {
		return fault.New(fault.CellUnavailable, "host %s may have the instance still: its agent does not report to this replica, or its newest state is refused", claim.ServiceHost)
	}
	if _, there := reportedIn(rep.State)[claim.Instance()]; there {
		return fault.New(fault.AlreadyExists, "host %s reports instance %s", claim.ServiceHost, claim.Instance())
	}
	return nil
}

// InstanceDifference describes how the instances that Nova's tables have on a host differ from those
// that its agent lists. It is "" if they are the same, or if the agent does not know its instances.
func (s *Service) InstanceDifference(uuid string, rep *Report) string {
	if rep.State.GetInstancesUnknown() {
		return ""
	}
	_, has := InstancesOf(rep)
	var lacks []string
	claims := s.rows.ClaimsOn(uuid)
	there := make(map[string]struct{}, len(claims))
	for _, claim := range claims {
		id := claim.Instance()
		there[id] = struct{}{}
		if _, is := has[id]; !is && claim.Seen && claim.State == shard.Confirmed {
			lacks = append(lacks, id)
		}
	}
	if len(lacks) > 0 {
		return fmt.Sprintf("Nova has instance %s on it, its agent does not list that", gate.FirstOf(lacks))
	}
	var more []string
	for id := range has {
		if _, is := there[id]; !is {
			more = append(more, id)
		}
	}
	if len(more) > 0 {
		return fmt.Sprintf("its agent lists instance %s, Nova has none such on it", gate.FirstOf(more))
	}
	return ""
}

// ReportLacks reports whether the ComparableReport of a claim's host lacks the claim's instance, and
// names that report. Without a comparable report, lacks is false.
func (s *Service) ReportLacks(claim *shard.Claim) (report shard.Registration, lacks bool) {
	rep := s.ComparableReport(s.rows.Host(claim.HostUUID))
	if rep == nil {
		return report, false
	}
	_, has := InstancesOf(rep)
	_, there := has[claim.Instance()]
	return rep.Registration(), !there
}
