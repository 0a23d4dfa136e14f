package selection

import (
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// maxAnswerHosts bounds the hosts in an answer, alternates included. With the longest names, so many are just below
// the message limit of gRPC clients (rpc.MaxMessageBytes).
const maxAnswerHosts = 3000

// checkAnswerSize refuses a request whose answer may be too large for a client: each repetition would have the same
// answer.
func (s *selection) checkAnswerSize() error {
	if n := len(s.instances) * (1 + s.alternates); n > maxAnswerHosts {
		return fault.Invalid("max_alternates", "is %d: with %d instances the answer has %d hosts, the most is %d: ask for fewer",
			s.alternates, len(s.instances), n, maxAnswerHosts)
	}
	return nil
}

// allocationVersion is the Placement microversion of allocation_request.
const allocationVersion = "1.36"

// destinationsOf gives an instance's answer before its claim: all but the claim's lease. claimID is "" in a dry run.
func (s *selection) destinationsOf(instance schedule.ID, c *cellclient.Cell, pick merge.Pick, claimID string) *cellgatev1.Destinations {
	d := &cellgatev1.Destinations{InstanceUuid: instance.String(), Selected: s.selectionOf(c, &pick.Candidate)}
	if s.claims() {
		d.Selected.Claimed, d.Selected.ClaimId, d.Selected.ClaimState = true, claimID, cellgatev1.ClaimState_PENDING
	}
	for i := range pick.Alternates {
		d.Alternates = append(d.Alternates, s.selectionOf(c, &pick.Alternates[i]))
	}
	return d
}

func (s *selection) selectionOf(c *cellclient.Cell, h *schedule.Candidate) *cellgatev1.Selection {
	sel := &cellgatev1.Selection{
		ComputeNodeUuid:  h.Host.String(),
		ServiceHost:      h.ServiceHost,
		Nodename:         h.NodeName,
		CellUuid:         c.UUID(),
		Limits:           limitsOf(h.Limits, s.request.Nova),
		AvailabilityZone: h.Zone,
		Cell:             c.Name(),
		Weight:           h.Weight,
	}
	// A rebuild allocates nothing; in Nova too, both fields are null then.
	if !s.rebuilds() {
		sel.AllocationRequest, sel.AllocationRequestVersion = allocationRequest(s.allocationOn(h)), allocationVersion
	}
	return sel
}

// allocationOn gives what an instance allocates on a candidate.
func (s *selection) allocationOn(h *schedule.Candidate) *schedule.Allocation {
	if h.Allocation != nil {
		return h.Allocation
	}
	return schedule.AtRoot(h.Host, s.request.Resources)
}

// allocationRequest gives the JSON of a Placement allocation request, as Nova's conductor reads it.
func allocationRequest(of *schedule.Allocation) string {
	type allocation struct {
		Resources map[string]int64 `json:"resources"`
	}
	allocations := map[string]allocation{}
	for _, a := range of.Amounts {
		id := a.Provider.String()
		if _, ok := allocations[id]; !ok {
			allocations[id] = allocation{Resources: map[string]int64{}}
		}
		allocations[id].Resources[a.Class] = a.N
	}
	mappings := map[string][]string{}
	for _, m := range of.Mappings {
		mappings[m.Suffix] = wire.IDTexts(m.Providers)
	}
	// Strings and whole numbers always marshal.
	text, _ := json.Marshal(struct {
		Allocations map[string]allocation `json:"allocations"`
		Mappings    map[string][]string   `json:"mappings"`
	}{Allocations: allocations, Mappings: mappings})
	return string(text)
}

// respond gives the answer once every instance has its place. Claims show their present
// state. A host that was selected for one instance is no alternate of another.
func (s *selection) respond() *cellgatev1.SelectDestinationsResponse {
	r := &cellgatev1.SelectDestinationsResponse{DecisionId: s.decision, IgnoredFields: s.ignored}
	selected := map[string]bool{}
	for _, p := range s.places {
		selected[p.answer.GetSelected().GetComputeNodeUuid()] = true
	}
	for _, p := range s.places {
		d := proto.CloneOf(p.answer)
		d.Alternates = slices.DeleteFunc(d.Alternates, func(a *cellgatev1.Selection) bool { return selected[a.GetComputeNodeUuid()] })
		if c := p.claim; c != nil {
			d.Selected.Claimed, d.Selected.ClaimId = true, c.GetClaimId()
			d.Selected.ClaimState, d.Selected.ClaimExpiresAt = c.GetState(), c.GetExpiresAt()
		}
		r.Destinations = append(r.Destinations, d)
	}
	r.Cells, r.Partial = s.cellReports()
	r.Exact = s.inexact == "" && !r.Partial
	return r
}
