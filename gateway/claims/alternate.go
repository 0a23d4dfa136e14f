package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// ClaimAlternate moves a live claim to one of the alternates in the claim's stored answer.
// The stored answer then selects the new host, so repeats of the request that made the claim
// get that host. A claim that is already on the host is not changed.
func (svc *Service) ClaimAlternate(ctx context.Context, req *cellgatev1.ClaimAlternateRequest) (*cellgatev1.Claim, error) {
	cells, err := svc.Cells.Selected(req.GetCell())
	if err != nil {
		return nil, err
	}
	h, err := svc.claimWithOrigin(ctx, cells, cellclient.Canonical(req.GetConsumerUuid()), req.GetClaimId())
	if err != nil {
		return nil, err
	}
	host := cellclient.Canonical(req.GetHostUuid())
	if isOn(h.claim, host) {
		return h.claim, nil
	}
	answer := &cellgatev1.Destinations{}
	if err := proto.Unmarshal(h.origin.GetAnswer(), answer); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the stored answer of claim %s cannot be read", req.GetClaimId())
	}
	if host, err = alternateOf(answer.GetAlternates(), host); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the stored alternates of claim %s cannot be read", req.GetClaimId())
	}
	swap, err := swapTo(h.claim, answer, host)
	if err != nil {
		return nil, err
	}
	ttl := DefaultTTL
	if req.GetClaimTtl() != nil {
		ttl = req.GetClaimTtl().AsDuration()
	}
	swap.Ttl = durationpb.New(ttl)
	undo := func() {}
	if boundByAffinity(h) {
		if undo, err = svc.moveAffinity(ctx, h, answer.GetSelected().GetServiceHost(), ttl); err != nil {
			return nil, err
		}
	}
	op := &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Swap{Swap: swap}}
	out, err := h.in.ChangeClaim(ctx, svc.Cells.ClaimBudget, op)
	if err != nil {
		// If the outcome is unknown, the group stays pinned for both hosts until the pins expire.
		if fault.KindOf(err) != fault.OutcomeUnknown && ctx.Err() == nil {
			undo()
		}
		return nil, err
	}
	return out.GetClaim(), nil
}

// claimIn is a live claim, its cell, and what the claim keeps of its request.
type claimIn struct {
	in     *cellclient.Cell
	claim  *cellgatev1.Claim
	origin *cellv1.ClaimOrigin
}

// claimWithOrigin finds a live claim in the cells. A claim id is unique, so the first cell
// that has it ends the search.
func (svc *Service) claimWithOrigin(ctx context.Context, cells []*cellclient.Cell, consumer, id string) (claimIn, error) {
	has := func(r *cellv1.ListClaimsResponse) bool { return hasClaim(r.GetClaims(), id) }
	replies := cellclient.Search(ctx, svc.Cells, cells, 0, has, func(ctx context.Context, c *cellclient.Cell) (*cellv1.ListClaimsResponse, error) {
		return cellclient.Call(ctx, c, svc.Cells.ClaimBudget, &cellv1.ListClaimsRequest{ConsumerUuids: []string{consumer}, WantOrigins: true},
			cellv1.CellSchedulerClient.ListClaims)
	})
	if ctx.Err() != nil {
		return claimIn{}, ctx.Err()
	}
	for _, r := range replies {
		for i, c := range r.Got.GetClaims() {
			if c.GetClaimId() == id && i < len(r.Got.GetClaimOrigins()) {
				return claimIn{r.Cell, c, r.Got.GetClaimOrigins()[i]}, nil
			}
		}
	}
	return claimIn{}, cellclient.NotFound(replies, fmt.Sprintf("live claim %s of consumer %s", id, consumer))
}

// isOn reports whether the claim is on a host, or allocates from a provider.
func isOn(c *cellgatev1.Claim, provider string) bool {
	return c.GetHostUuid() == provider ||
		slices.ContainsFunc(c.GetAllocations(), func(a *cellgatev1.Allocation) bool { return a.GetProviderUuid() == provider })
}

// alternateOf gives the host of the alternate that is, or allocates from, a provider. If none
// does, it returns the provider itself.
func alternateOf(alternates []*cellgatev1.Selection, provider string) (string, error) {
	if slices.ContainsFunc(alternates, func(a *cellgatev1.Selection) bool { return a.GetComputeNodeUuid() == provider }) {
		return provider, nil
	}
	for _, a := range alternates {
		takes, _, err := readAllocations(a.GetAllocationRequest())
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(takes, func(x *cellgatev1.Allocation) bool { return x.GetProviderUuid() == provider }) {
			return a.GetComputeNodeUuid(), nil
		}
	}
	return provider, nil
}

// swapTo gives the operation that puts a claim on an alternate of its answer, without the
// lease. It changes answer: the alternate becomes the selected host, and leaves the list of
// alternates.
func swapTo(c *cellgatev1.Claim, answer *cellgatev1.Destinations, host string) (*cellv1.SwapClaim, error) {
	at := slices.IndexFunc(answer.GetAlternates(), func(a *cellgatev1.Selection) bool { return a.GetComputeNodeUuid() == host })
	if at < 0 {
		return nil, fault.Invalid("host_uuid", "%s is none of the alternates of claim %s: %s", host, c.GetClaimId(), alternatesOf(answer))
	}
	chosen := proto.CloneOf(answer.GetAlternates()[at])
	chosen.Claimed, chosen.ClaimId, chosen.ClaimState = true, c.GetClaimId(), cellgatev1.ClaimState_PENDING
	answer.Selected, answer.Alternates = chosen, slices.Delete(answer.GetAlternates(), at, at+1)
	text, err := proto.Marshal(answer)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the answer of claim %s cannot be marshalled", c.GetClaimId())
	}
	swap := &cellv1.SwapClaim{ClaimId: c.GetClaimId(), ConsumerUuid: c.GetConsumerUuid(), HostUuid: host, Answer: text}
	if swap.Allocations, swap.Mappings, err = readAllocations(chosen.GetAllocationRequest()); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the stored alternate of claim %s cannot be read", c.GetClaimId())
	}
	return swap, nil
}

func alternatesOf(answer *cellgatev1.Destinations) string {
	var names []string
	for _, a := range answer.GetAlternates() {
		names = append(names, a.GetComputeNodeUuid()+" ("+a.GetServiceHost()+")")
	}
	if len(names) == 0 {
		return "it has none left"
	}
	return strings.Join(names, ", ")
}

// readAllocations parses the allocation request that package selection stored in an answer.
func readAllocations(text string) ([]*cellgatev1.Allocation, []*cellv1.GroupProviders, error) {
	var form struct {
		Mappings    map[string][]string `json:"mappings"`
		Allocations map[string]struct {
			Resources map[string]int32 `json:"resources"`
		} `json:"allocations"`
	}
	if err := json.Unmarshal([]byte(text), &form); err != nil {
		return nil, nil, err
	}
	var out []*cellgatev1.Allocation
	for _, provider := range slices.Sorted(maps.Keys(form.Allocations)) {
		resources := form.Allocations[provider].Resources
		for _, class := range slices.Sorted(maps.Keys(resources)) {
			out = append(out, &cellgatev1.Allocation{ProviderUuid: provider, ResourceClass: class, Amount: resources[class]})
		}
	}
	var mappings []*cellv1.GroupProviders
	for _, suffix := range slices.Sorted(maps.Keys(form.Mappings)) {
		mappings = append(mappings, &cellv1.GroupProviders{Suffix: suffix, ProviderUuids: form.Mappings[suffix]})
	}
	return out, mappings, nil
}
