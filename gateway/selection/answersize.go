package selection

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

const (
	// maxAnswerBytes is the most that an answer may become: what a gRPC client
	// takes when nothing else is said.
	maxAnswerBytes = rpc.MaxMessageBytes
	// maxName is the longest name of a host, a node or a zone, which a cell takes
	// up to 255 characters. Names of nothing but multi-byte characters can be
	// longer in bytes; three such names at once, on every host, are not reckoned
	// with.
	maxName = 255
)

// answerFits refuses a request whose answer could be more than a client takes: by
// then its claims would be made, and each repetition would have the same answer.
// Of a host it assumes the longest names there may be.
func (s *selection) answerFits() error {
	cells, ignored := s.reportBytes(), 0
	for _, path := range s.ignored {
		ignored += len(path) + fieldBytes
	}
	one := s.selectionBytes()
	left := maxAnswerBytes - cells - ignored
	perInstance := left / len(s.instances)
	switch fits := perInstance/one - 1; {
	case s.alternates > 0 && s.alternates > fits && fits >= 0:
		return fault.Invalid("max_alternates",
			"is %d; with %d instances the answer could pass %d bytes, the most a client takes: at most %d then, or fewer instances",
			s.alternates, len(s.instances), maxAnswerBytes, fits)
	case fits < 0 && left/one > 0:
		return fault.Invalid("instance_uuids", "has %d; with as many resource classes the answer could pass %d bytes, the most a client takes: at most %d then",
			len(s.instances), maxAnswerBytes, left/one)
	case fits < 0:
		return fault.Invalid(s.form(), "has so many fields that bear on nothing, or so many names, that the answer could pass %d bytes, the most a client takes",
			maxAnswerBytes)
	}
	return nil
}

// form is the field that the request's needs are in.
func (s *selection) form() string {
	if s.req.GetNovaRequestSpec() != nil {
		return "nova_request_spec"
	}
	return "request_spec"
}

// fieldBytes is more than the tag and the length of a field take.
const fieldBytes = 8

// selectionBytes is the most that a selection or an alternate takes, with its part
// of what is around it.
func (s *selection) selectionBytes() int {
	name := strings.Repeat("n", maxName)
	cell := ""
	for _, c := range s.svc.cells.All {
		if len(c.Name()) > len(cell) {
			cell = c.Name()
		}
	}
	id := schedule.ID{}.String()
	d := &cellgatev1.Destinations{InstanceUuid: id, Selected: &cellgatev1.Selection{
		ComputeNodeUuid: id, ServiceHost: name, Nodename: name, CellUuid: id, Limits: limitsOf(s.mostLimits(), s.request.Nova),
		AllocationRequest: allocationRequest(s.largest()), AllocationRequestVersion: allocationVersion,
		AvailabilityZone: name, Cell: cell, Weight: 1, Claimed: true, ClaimId: id,
		ClaimState: cellgatev1.ClaimState_RELEASED, ClaimExpiresAt: timestamppb.New(s.svc.now()),
	}}
	return proto.Size(d) + fieldBytes
}

// reportBytes is the most that the reports of all cells take: each names what it
// rejected by, or why it was left out, in the request's names.
func (s *selection) reportBytes() int {
	names := 0
	count := func(more ...string) {
		for _, name := range more {
			names += len(name) + rejectBytes
		}
	}
	for _, a := range s.request.Resources {
		count(a.Class)
	}
	if f := s.request.Fallback; f != nil {
		for _, a := range f.Resources {
			count(a.Class)
		}
	}
	if t := s.request.Tree; t != nil {
		for _, g := range t.Groups {
			for _, a := range g.Resources {
				count(a.Class)
			}
		}
	}
	count(s.request.Required...)
	count(s.request.Forbidden...)
	for _, set := range s.request.AnyOf {
		count(set...)
	}
	for _, set := range s.request.MemberOf {
		count(set...)
	}
	count(s.svc.rules.Filters()...)
	total := 0
	for _, c := range s.svc.cells.All {
		total += reportBytes + len(c.Name()) + names
	}
	return total
}

const (
	// reportBytes is what a report takes without names: counts, and a reason of
	// ours.
	reportBytes = 1024
	// rejectBytes is what a reject takes without its detail: the longest filter's
	// name and a count.
	rejectBytes = 64
)

// largest is no smaller than what an instance may take of any host: where child
// providers count, every amount of another provider.
func (s *selection) largest() *schedule.Allocation {
	out := s.spreadOut(s.request.Resources)
	if f := s.request.Fallback; f != nil {
		if other := s.spreadOut(f.Resources); len(allocationRequest(other)) > len(allocationRequest(out)) {
			return other
		}
	}
	return out
}

// spreads reports whether some cell tells of a class on child providers.
func (s *selection) spreads(resources []schedule.Amount) bool {
	for _, c := range s.svc.cells.All {
		told := s.svc.cells.FreshSummary(c)
		if told != nil && slices.ContainsFunc(resources, func(a schedule.Amount) bool { return slices.Contains(told.GetChildClasses(), a.Class) }) {
			return true
		}
	}
	return false
}

func (s *selection) spreadOut(resources []schedule.Amount) *schedule.Allocation {
	t := s.request.Tree
	if t == nil || len(t.Groups) == 0 && !s.spreads(resources) {
		return atRoot(schedule.ID{}, resources)
	}
	out, n := &schedule.Allocation{}, byte(0)
	take := func(suffix string, amounts []schedule.Amount, apart bool) {
		m := schedule.Mapping{Suffix: suffix}
		for i, a := range amounts {
			if i == 0 || apart {
				n++
				m.Providers = append(m.Providers, schedule.ID{n})
			}
			out.Amounts = append(out.Amounts, schedule.ProviderAmount{Provider: schedule.ID{n}, Class: a.Class, N: a.N})
		}
		out.Mappings = append(out.Mappings, m)
	}
	take("", resources, true)
	for _, g := range t.Groups {
		take(g.Suffix, g.Resources, false)
	}
	return out
}
