package proposingtest

import (
	"fmt"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Proposal reads an answer that is not in columns. A failure is an error.
func Proposal(p *cellv1.Proposal) (*schedule.Proposal, error) {
	if f := p.GetFailure(); f != nil {
		return nil, fmt.Errorf("%s: %s", f.GetReason(), f.GetMessage())
	}
	out := &schedule.Proposal{Hosts: int(p.GetHosts()), Passed: int(p.GetPassed()), Bounds: bounds(p.GetBounds()), Multipliers: bounds(p.GetMultipliers())}
	for _, r := range p.GetRejects() {
		out.Rejects = append(out.Rejects, schedule.Reject{
			Filter: r.GetFilter(), Detail: r.GetDetail(), Hosts: int(r.GetHosts()),
			Example: r.GetExample(), Class: r.GetExceptionClass(), Message: r.GetExceptionMessage(),
		})
	}
	for _, w := range p.GetWarnings() {
		out.Warnings = append(out.Warnings, schedule.Warning{
			Key: w.GetKey(), Hosts: int(w.GetHosts()), Example: w.GetExample(), Class: w.GetExceptionClass(), Message: w.GetExceptionMessage(),
		})
	}
	if r := p.GetRaised(); r != nil {
		out.Raised = &schedule.Raised{Stage: r.GetStage(), Filter: r.GetFilter(), Host: r.GetHost(), Class: r.GetClass(), Message: r.GetMessage()}
	}
	for _, g := range p.GetGroupHosts() {
		id, err := schedule.ParseID(g.GetHostUuid())
		if err != nil {
			return nil, err
		}
		out.GroupHosts = append(out.GroupHosts, schedule.GroupHost{Host: id, ServiceHost: g.GetServiceHost(), Members: int(g.GetMembers())})
	}
	for _, c := range p.GetCandidates() {
		id, err := schedule.ParseID(c.GetHostUuid())
		if err != nil {
			return nil, err
		}
		out.Candidates = append(out.Candidates, schedule.Candidate{
			Host: id, ServiceHost: c.GetServiceHost(), NodeName: c.GetNodename(), Zone: c.GetAvailabilityZone(),
			Raw: c.GetRaw(), Multipliers: c.GetMultipliers(), Weight: c.GetWeight(), Tie: c.GetTie(),
		})
	}
	return out, nil
}

func bounds(in []*cellv1.Bounds) (out []schedule.Bounds) {
	for _, b := range in {
		out = append(out, schedule.Bounds{Min: b.GetMin(), Max: b.GetMax()})
	}
	return out
}
