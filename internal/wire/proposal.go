package wire

import (
	"fmt"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// EncodeProposal encodes a table's answer, without its version and claims.
func EncodeProposal(p *schedule.Proposal) *cellv1.Proposal {
	out := &cellv1.Proposal{
		Hosts:      int32(p.Hosts),
		Passed:     int32(p.Passed),
		Rejects:    EncodeRejects(p.Rejects),
		GroupHosts: make([]*cellv1.GroupHost, len(p.GroupHosts)),
		Bounds:     boundsOf(p.Bounds), Candidates: columnsOf(p.Candidates), Multipliers: boundsOf(p.Multipliers), Warnings: EncodeWarnings(p.Warnings),
	}
	for i, g := range p.GroupHosts {
		out.GroupHosts[i] = &cellv1.GroupHost{
			HostUuid: g.Host.String(), ServiceHost: g.ServiceHost, Members: int32(g.Members),
		}
	}
	out.NearMisses = EncodeNearMisses(p.NearMisses)
	out.Forecast = forecastOf(p.Forecast)
	if r := p.NovaException; r != nil {
		out.NovaException = &cellv1.NovaException{Stage: r.Stage, Filter: r.Filter, Host: r.Host, Class: r.Class, Message: r.Message}
	}
	return out
}

// DecodeProposal decodes a cell's answer. Its error names the malformed field.
func DecodeProposal(p *cellv1.Proposal) (*schedule.Proposal, error) {
	out := &schedule.Proposal{Hosts: int(p.GetHosts()), Passed: int(p.GetPassed()), NovaException: novaExceptionFrom(p.GetNovaException())}
	var err error
	if out.Bounds, err = boundsFrom(p.GetBounds()); err != nil {
		return nil, fmt.Errorf("bounds: %w", err)
	}
	if out.Multipliers, err = boundsFrom(p.GetMultipliers()); err != nil {
		return nil, fmt.Errorf("multipliers: %w", err)
	}
	for _, w := range p.GetWarnings() {
		out.Warnings = append(out.Warnings, schedule.Warning{
			Key: w.GetKey(), Hosts: int(w.GetHosts()), Example: w.GetExample(), Class: w.GetExceptionClass(), Message: w.GetExceptionMessage(),
		})
	}
	out.Rejects = rejectsFrom(p.GetRejects())
	for i, g := range p.GetGroupHosts() {
		id, err := schedule.ParseID(g.GetHostUuid())
		if err != nil {
			return nil, fmt.Errorf("group_hosts[%d].host_uuid: %w", i, err)
		}
		out.GroupHosts = append(out.GroupHosts, schedule.GroupHost{Host: id, ServiceHost: g.GetServiceHost(), Members: int(g.GetMembers())})
	}
	if out.NearMisses, err = nearMissesFrom(p.GetNearMisses()); err != nil {
		return nil, fmt.Errorf("near_misses: %w", err)
	}
	if out.Candidates, err = candidatesFrom(p.GetCandidates(), len(out.Bounds)); err != nil {
		return nil, fmt.Errorf("candidates: %w", err)
	}
	if out.Forecast, err = forecastFrom(p.GetForecast(), len(out.Bounds)); err != nil {
		return nil, fmt.Errorf("forecast: %w", err)
	}
	return out, nil
}

func forecastOf(f *schedule.Forecast) *cellv1.Forecast {
	if f == nil {
		return nil
	}
	out := &cellv1.Forecast{Rest: boundsOf(f.Rest), At: make([]int32, len(f.Steps)), Passes: make([]bool, len(f.Steps)), Raw: make([]float64, 0, len(f.Steps)*len(f.Rest))}
	for i, step := range f.Steps {
		out.At[i], out.Passes[i] = int32(step.At), step.Passes
		out.Raw = append(out.Raw, step.Raw...)
	}
	return out
}

// forecastFrom decodes a forecast; nil for none. Its raw weights share the message's memory.
func forecastFrom(in *cellv1.Forecast, weighers int) (*schedule.Forecast, error) {
	if in == nil {
		return nil, nil
	}
	if len(in.GetPasses()) != len(in.GetAt()) {
		return nil, fmt.Errorf("passes has %d, must have %d", len(in.GetPasses()), len(in.GetAt()))
	}
	out := &schedule.Forecast{Steps: make([]schedule.Step, len(in.GetAt()))}
	var err error
	if out.Rest, err = boundsFrom(in.GetRest()); err != nil {
		return nil, fmt.Errorf("rest: %w", err)
	}
	raw := in.GetRaw()
	for i, at := range in.GetAt() {
		out.Steps[i] = schedule.Step{At: int(at), Passes: in.GetPasses()[i]}
		if !out.Steps[i].Passes {
			continue
		}
		if len(raw) < weighers {
			return nil, fmt.Errorf("raw has %d, too few for %d weighers", len(in.GetRaw()), weighers)
		}
		out.Steps[i].Raw, raw = raw[:weighers:weighers], raw[weighers:]
	}
	if len(raw) > 0 {
		return nil, fmt.Errorf("raw has %d more than the steps that pass", len(raw))
	}
	return out, nil
}

func novaExceptionFrom(r *cellv1.NovaException) *schedule.NovaException {
	if r == nil {
		return nil
	}
	return &schedule.NovaException{
		Stage: r.GetStage(), Filter: r.GetFilter(), Host: r.GetHost(), Class: r.GetClass(), Message: r.GetMessage(),
	}
}

// EncodeWarnings encodes what cannot be read of hosts that pass; nil for none.
func EncodeWarnings(warnings []schedule.Warning) (out []*cellgatev1.WarningCount) {
	for _, w := range warnings {
		out = append(out, &cellgatev1.WarningCount{
			Key: w.Key, Hosts: int32(w.Hosts), Example: w.Example, ExceptionClass: w.Class, ExceptionMessage: w.Message,
		})
	}
	return out
}

// EncodeRejects encodes the reasons why hosts did not pass.
func EncodeRejects(rejects []schedule.Reject) []*cellgatev1.RejectCount {
	out := make([]*cellgatev1.RejectCount, len(rejects))
	for i, r := range rejects {
		out[i] = &cellgatev1.RejectCount{
			Filter: r.Filter, Detail: r.Detail, Hosts: int32(r.Hosts),
			Example: r.Example, ExceptionClass: r.Class, ExceptionMessage: r.Message,
		}
	}
	return out
}

// rejectsFrom reverses EncodeRejects; nil for none.
func rejectsFrom(in []*cellgatev1.RejectCount) []schedule.Reject {
	if len(in) == 0 {
		return nil
	}
	out := make([]schedule.Reject, len(in))
	for i, r := range in {
		out[i] = schedule.Reject{
			Filter: r.GetFilter(), Detail: r.GetDetail(), Hosts: int(r.GetHosts()),
			Example: r.GetExample(), Class: r.GetExceptionClass(), Message: r.GetExceptionMessage(),
		}
	}
	return out
}
