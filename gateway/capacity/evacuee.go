package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// evacuee is an instance that must leave its host.
type evacuee struct {
	id    schedule.ID
	about *cellgatev1.DrainInstance
	form  *selection.Form
	// unreadable is the error if the instance's request can no longer be placed; nil otherwise.
	unreadable error
	// share is the largest fraction of the cell's largest host that the instance takes, over all classes. bound: few
	// hosts are suitable for another reason.
	share float64
	bound bool
}

const (
	// claimsPage is how many claims are read at once.
	claimsPage = 1000
	// consumersPage is how many instances one call searches for other claims: each has at most two.
	consumersPage = 500
)

// collect reads the claims on a cell's drained hosts, and gives the instances to move, the hardest to place first: by
// the largest share of a host, then those bound by a group or hardware, then by uuid.
func (d *drain) collect(ctx context.Context, c *trialCell) ([]*evacuee, error) {
	var list []*evacuee
	largest := map[string]int64{}
	for _, x := range c.LastSummary().GetLargest() {
		largest[x.GetResourceClass()] = x.GetAmount()
	}
	for _, h := range c.trial.Started.GetDrained() {
		claims, needs, err := d.claimsOn(ctx, c, h.GetHostUuid())
		if err != nil {
			return nil, err
		}
		h.Instances = int32(len(claims))
		d.out.Hosts = append(d.out.Hosts, h)
		moving, err := d.moving(ctx, c, claims)
		if err != nil {
			return nil, err
		}
		for i, claim := range claims {
			about := describe(claim, needs[i], h)
			if reason := staying(claim, needs[i], moving); reason != cellgatev1.StayReason_STAY_REASON_UNSPECIFIED {
				stays := &cellgatev1.StayingInstance{Instance: about, Reason: reason}
				d.bytes += proto.Size(stays)
				d.out.Staying = append(d.out.Staying, stays)
				continue
			}
			e := &evacuee{about: about, share: shareOf(claim, h.GetHostUuid(), largest)}
			if e.id, err = schedule.ParseID(about.GetInstanceUuid()); err != nil {
				return nil, fault.Wrap(fault.Internal, err, "claim %s of cell %s", claim.GetClaimId(), c.Name())
			}
			e.form, err = d.formOf(ctx, c, e.id, claim, needs[i])
			switch kind := fault.KindOf(err); {
			case err == nil:
				e.bound = binds(e.form.Request)
				if d.specs[e.id.String()] != nil {
					about.Unknown = nil
					if e.form.Request.Group != nil && needs[i].GetGroup() == nil { // only the spec names the other members
						about.Unknown = []cellgatev1.UnknownNeed{cellgatev1.UnknownNeed_NEED_GROUP}
					}
				}
			case kind == fault.InvalidRequest || kind == fault.NoValidHost:
				e.unreadable = err
			default:
				return nil, err
			}
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *evacuee) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(boundFirst(a.bound), boundFirst(b.bound)), slices.Compare(a.id[:], b.id[:]))
	})
	return list, nil
}

// binds reports whether more than amounts decides which hosts are suitable.
func binds(r *schedule.Request) bool {
	hard := r.Group != nil && (r.Group.Policy == schedule.Affinity || r.Group.Policy == schedule.AntiAffinity)
	return hard || r.Tree != nil || r.Nova != nil && (r.Nova.NUMA != nil || len(r.Nova.PCI) > 0)
}

func boundFirst(bound bool) int {
	if bound {
		return 0
	}
	return 1
}

// shareOf gives the fraction of the largest host that a claim takes, for the class of which it takes most.
// Allocations from child providers count as a whole host: only hosts with such providers are suitable.
func shareOf(c *cellgatev1.Claim, host string, largest map[string]int64) float64 {
	share := 0.0
	for _, a := range c.GetAllocations() {
		of := largest[a.GetResourceClass()]
		if a.GetProviderUuid() != host || of <= 0 {
			return 1
		}
		share = max(share, min(1, float64(a.GetAmount())/float64(of)))
	}
	return share
}

// claimsOn reads the live claims on a host.
func (d *drain) claimsOn(ctx context.Context, c *trialCell, host string) (claims []*cellgatev1.Claim, needs []*cellv1.ClaimNeeds, err error) {
	for after := ""; ; after = claims[len(claims)-1].GetClaimId() {
		got, err := cellclient.Call(ctx, c.Cell, c.ClaimBudget, &cellv1.ListClaimsRequest{HostUuid: host, PageSize: claimsPage, After: after, WantNeeds: true}, cellv1.CellSchedulerClient.ListClaims)
		if err != nil {
			return nil, nil, unread(ctx, c, err)
		}
		if len(got.GetNeeds()) != len(got.GetClaims()) {
			return nil, nil, fault.New(fault.CellUnavailable, "cell %s runs a release that does not report what claims need: upgrade cells before gateways", c.Name()).With("cells", c.Name())
		}
		claims, needs = append(claims, got.GetClaims()...), append(needs, got.GetNeeds()...)
		if !got.GetMore() || len(got.GetClaims()) == 0 {
			return claims, needs, nil
		}
	}
}

// unread is the error of claims that could not be read.
func unread(ctx context.Context, c *trialCell, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.Wrap(fault.CellUnavailable, err, "the claims of cell %s cannot be read: %s", c.Name(), cellclient.ReasonOf(err)).With("cells", c.Name())
}

// moving gives the ids of those claims that another claim in the cell replaces.
func (d *drain) moving(ctx context.Context, c *trialCell, claims []*cellgatev1.Claim) (map[string]bool, error) {
	out := map[string]bool{}
	for some := range slices.Chunk(claims, consumersPage) {
		req := &cellv1.ListClaimsRequest{PageSize: claimsPage}
		for _, claim := range some {
			req.ConsumerUuids = append(req.ConsumerUuids, claim.GetConsumerUuid())
		}
		got, err := cellclient.Call(ctx, c.Cell, c.ClaimBudget, req, cellv1.CellSchedulerClient.ListClaims)
		if err != nil {
			return nil, unread(ctx, c, err)
		}
		for _, claim := range got.GetClaims() {
			out[claim.GetMovesClaimId()] = true
		}
	}
	return out, nil
}

// staying is why an instance cannot be moved now; unspecified when it can.
func staying(c *cellgatev1.Claim, n *cellv1.ClaimNeeds, moving map[string]bool) cellgatev1.StayReason {
	switch {
	case n.GetConsumerType() != "" && n.GetConsumerType() != "INSTANCE" && n.GetConsumerType() != "MIGRATION":
		return cellgatev1.StayReason_STAYS_NO_INSTANCE
	case c.GetTransferredFrom() != "" || n.GetConsumerType() == "MIGRATION" || moving[c.GetClaimId()]:
		return cellgatev1.StayReason_STAYS_MOVING
	case c.GetState() != cellgatev1.ClaimState_CONFIRMED:
		return cellgatev1.StayReason_STAYS_PENDING
	}
	return cellgatev1.StayReason_STAY_REASON_UNSPECIFIED
}

// describe gives what is known of an instance, and which needs are not known.
func describe(c *cellgatev1.Claim, n *cellv1.ClaimNeeds, on *cellgatev1.DrainedHost) *cellgatev1.DrainInstance {
	out := &cellgatev1.DrainInstance{
		InstanceUuid: cmp.Or(c.GetTransferredFrom(), c.GetConsumerUuid()), ClaimId: c.GetClaimId(),
		Cell: on.GetCell(), HostUuid: on.GetHostUuid(), ServiceHost: on.GetServiceHost(), Nodename: on.GetNodename(),
		ProjectId: c.GetProjectId(), FlavorId: n.GetGuest().GetFlavorId(), Resources: map[string]int64{},
		GroupUuid: n.GetGroup().GetUuid(), GroupPolicy: n.GetGroup().GetPolicy(),
		Unknown: []cellgatev1.UnknownNeed{cellgatev1.UnknownNeed_NEED_TRAITS, cellgatev1.UnknownNeed_NEED_AGGREGATES},
	}
	for _, a := range c.GetAllocations() {
		out.Resources[a.GetResourceClass()] += int64(a.GetAmount())
	}
	if n.GetGuest().GetImage() == nil {
		out.Unknown = append(out.Unknown, cellgatev1.UnknownNeed_NEED_IMAGE)
	}
	out.Unknown = append(out.Unknown, cellgatev1.UnknownNeed_NEED_HINTS)
	if c.GetAdopted() || n.GetAllocated() {
		out.Unknown = append(out.Unknown, cellgatev1.UnknownNeed_NEED_GROUP, cellgatev1.UnknownNeed_NEED_HARDWARE)
	}
	if out.GetFlavorId() == "" {
		out.Unknown = append(out.Unknown, cellgatev1.UnknownNeed_NEED_FLAVOR)
	}
	return out
}

// formOf makes the request to move a claim's instance within its cell, from its spec if there is one, else from the
// claim.
func (d *drain) formOf(ctx context.Context, c *trialCell, instance schedule.ID, claim *cellgatev1.Claim, n *cellv1.ClaimNeeds) (*selection.Form, error) {
	form, err := d.translated(ctx, c, instance, claim, n)
	if err != nil {
		return nil, err
	}
	if r := form.Request; r.Group != nil {
		form.Request = r.OfNewMembers()
		form.Request.Moving = instance
	}
	return form, nil
}

func (d *drain) translated(ctx context.Context, c *trialCell, instance schedule.ID, claim *cellgatev1.Claim, n *cellv1.ClaimNeeds) (*selection.Form, error) {
	spec := d.specs[instance.String()]
	if spec == nil {
		return d.formOfClaim(ctx, c, instance, claim, n)
	}
	form, err := d.svc.Selector.Translate(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{instance.String()}, Operation: cellgatev1.Operation_LIVE_MIGRATE, DryRun: true,
		Spec: &cellgatev1.SelectDestinationsRequest_NovaRequestSpec{NovaRequestSpec: spec},
	})
	if err != nil {
		return nil, err
	}
	// Nova's conductor sets these fields anew for each move.
	r := *form.Request
	r.ForceHosts, r.ForceNodes, r.IgnoreHosts, r.Destination = nil, nil, nil, &schedule.Destination{Cell: c.UUID()}
	if r.Nova != nil {
		nova := *r.Nova
		nova.Retry = nil
		r.Nova = &nova
	}
	if g := n.GetGroup(); g != nil {
		var fields wire.Fields
		r.Group = &schedule.Group{UUID: fields.ID("group", g.GetUuid()), Policy: schedule.Policy(g.GetPolicy()), MaxPerHost: int(g.GetMaxServerPerHost()), Members: fields.IDs("members", g.GetMembers())}
		if err := fields.Err(); err != nil {
			return nil, err
		}
	}
	form.Request = &r
	return form, nil
}

// formOfClaim makes the request from what the claim knows.
func (d *drain) formOfClaim(ctx context.Context, c *trialCell, instance schedule.ID, claim *cellgatev1.Claim, n *cellv1.ClaimNeeds) (*selection.Form, error) {
	form, err := d.svc.Selector.Translate(ctx, &cellgatev1.SelectDestinationsRequest{
		InstanceUuids: []string{instance.String()}, Operation: cellgatev1.Operation_LIVE_MIGRATE, DryRun: true,
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: specOfClaim(c.Name(), claim, n.GetGroup())},
	})
	if err != nil {
		return nil, err
	}
	r := form.Request
	if g := n.GetGuest(); g != nil {
		var fields wire.Fields
		guest, nova := fields.Guest(g), schedule.NovaRequest{}
		if err := fields.Err(); err != nil {
			return nil, err
		}
		if r.Nova != nil {
			nova = *r.Nova
		}
		nova.Flavor.ID, nova.NUMA, nova.PCI, nova.Networks = g.GetFlavorId(), guest.NUMA, devicesInGroups(guest.PCI, claim), guest.Networks
		if g.GetImage() != nil {
			nova.Image = &schedule.Image{ID: g.GetImage().GetId(), Properties: wire.Properties(g.GetImage().GetProperties())}
		}
		with := *r
		with.Nova = &nova
		r = &with
	}
	form.Request = r
	return form, nil
}

// childrenOf gives the child providers from which a claim allocates, sorted.
func childrenOf(c *cellgatev1.Claim) []string {
	var out []string
	for _, a := range c.GetAllocations() {
		if a.GetProviderUuid() != c.GetHostUuid() {
			out = append(out, a.GetProviderUuid())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// groupOf gives the suffix of the resource group for a child provider's allocations.
func groupOf(children []string, provider string) string {
	return strconv.Itoa(slices.Index(children, provider) + 1)
}

// devicesInGroups makes a claim's devices from child providers refer to the resource groups of these providers
// (specOfClaim).
func devicesInGroups(devices []hardware.PCIRequest, c *cellgatev1.Claim) []hardware.PCIRequest {
	children, out := childrenOf(c), slices.Clone(devices)
	for i := range out {
		r := &out[i]
		r.Groups = nil
		for _, provider := range r.Providers {
			r.Groups = append(r.Groups, groupOf(children, provider))
		}
		r.Providers = nil
	}
	return out
}

// specOfClaim gives the request to move a claim's instance within its cell, as far as the claim knows it. Each child
// provider's allocations become a resource group.
func specOfClaim(cell string, c *cellgatev1.Claim, group *cellv1.ClaimGroup) *cellgatev1.RequestSpec {
	spec := &cellgatev1.RequestSpec{
		ProjectId: c.GetProjectId(), UserId: c.GetUserId(), Flavor: &cellgatev1.Flavor{ExtraSpecs: map[string]string{}},
		Resources:            map[string]int32{"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0},
		RequestedDestination: &cellgatev1.Destination{Cell: cell},
	}
	children := childrenOf(c)
	for _, a := range c.GetAllocations() {
		if a.GetProviderUuid() == c.GetHostUuid() {
			spec.Resources[a.GetResourceClass()] += a.GetAmount()
			continue
		}
		suffix := groupOf(children, a.GetProviderUuid())
		spec.Flavor.ExtraSpecs[fmt.Sprintf("resources%s:%s", suffix, a.GetResourceClass())] = fmt.Sprint(a.GetAmount())
	}
	if len(children) > 1 {
		spec.Flavor.ExtraSpecs["group_policy"] = "none"
	}
	if group != nil {
		spec.InstanceGroup = &cellgatev1.InstanceGroup{Uuid: group.GetUuid(), Policy: group.GetPolicy(), Members: group.GetMembers()}
		if group.GetPolicy() == string(schedule.AntiAffinity) {
			spec.InstanceGroup.MaxServerPerHost = group.GetMaxServerPerHost()
		}
	}
	return spec
}
