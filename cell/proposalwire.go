package cell

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// proposalOf is the core's answer on the wire, without version and claims.
func proposalOf(p *schedule.Proposal) *cellv1.Proposal {
	out := &cellv1.Proposal{
		Hosts:      int32(p.Hosts),
		Passed:     int32(p.Passed),
		Rejects:    make([]*cellv1.Reject, len(p.Rejects)),
		Bounds:     make([]*cellv1.Bounds, len(p.Bounds)),
		GroupHosts: make([]*cellv1.GroupHost, len(p.GroupHosts)),
		Candidates: make([]*cellv1.Candidate, len(p.Candidates)),
	}
	for i, r := range p.Rejects {
		out.Rejects[i] = &cellv1.Reject{Filter: r.Filter, Detail: r.Detail, Hosts: int32(r.Hosts), Example: r.Example}
	}
	for i, b := range p.Bounds {
		out.Bounds[i] = &cellv1.Bounds{Min: b.Min, Max: b.Max}
	}
	for i, g := range p.GroupHosts {
		out.GroupHosts[i] = &cellv1.GroupHost{
			HostUuid: g.Host.String(), ServiceHost: g.ServiceHost, Members: int32(g.Members),
		}
	}
	for i := range p.Candidates {
		c := &p.Candidates[i]
		out.Candidates[i] = &cellv1.Candidate{
			HostUuid:         c.Host.String(),
			ServiceHost:      c.ServiceHost,
			Nodename:         c.NodeName,
			AvailabilityZone: c.Zone,
			Raw:              c.Raw,
			Weight:           c.Weight,
			Tie:              c.Tie,
			Multipliers:      c.Multipliers,
		}
	}
	for _, b := range p.Multipliers {
		out.Multipliers = append(out.Multipliers, &cellv1.Bounds{Min: b.Min, Max: b.Max})
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, &cellv1.Warning{Key: w.Key, Hosts: int32(w.Hosts)})
	}
	if r := p.Raised; r != nil {
		out.Raised = &cellv1.Raised{Stage: r.Stage, Filter: r.Filter, Host: r.Host, Class: r.Class, Message: r.Message}
	}
	return out
}
