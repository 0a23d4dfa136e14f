package cell

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// opOf reads one operation. Uuids become canonical text.
func opOf(in *cellv1.ClaimOp) (shard.Op, error) {
	var r reader
	var op shard.Op
	switch in := in.GetOp().(type) {
	case *cellv1.ClaimOp_Claim:
		op.Claim = r.newClaim(in.Claim)
	case *cellv1.ClaimOp_Confirm:
		op.Confirm = r.claimRef("confirm", in.Confirm)
	case *cellv1.ClaimOp_Release:
		op.Release = r.claimRef("release", in.Release)
	case *cellv1.ClaimOp_TakeOver:
		op.TakeOver = r.claimRef("take_over", in.TakeOver)
		if op.TakeOver.Attempt == "" {
			r.Problem("take_over.attempt", "must not be empty")
		}
	case *cellv1.ClaimOp_Pin:
		op.Pin = &shard.NewPin{
			GroupUUID:   r.UUID("pin.group_uuid", in.Pin.GetGroupUuid()),
			ServiceHost: in.Pin.GetServiceHost(),
			ClaimID:     in.Pin.GetClaimId(),
			TTL:         r.ttl("pin.ttl", in.Pin.GetTtl().AsDuration(), shard.MaxPinTTL),
		}
	case *cellv1.ClaimOp_Unpin:
		op.Unpin = &shard.Unpin{
			GroupUUID: r.UUID("unpin.group_uuid", in.Unpin.GetGroupUuid()),
			ClaimID:   in.Unpin.GetClaimId(),
		}
	case *cellv1.ClaimOp_Swap:
		op.Swap = &shard.Swap{
			ClaimID:      in.Swap.GetClaimId(),
			ConsumerUUID: r.UUID("swap.consumer_uuid", in.Swap.GetConsumerUuid()),
			HostUUID:     r.UUID("swap.host_uuid", in.Swap.GetHostUuid()),
			Allocations:  r.allocations("swap.allocations", in.Swap.GetAllocations()),
			TTL:          r.ttl("swap.ttl", in.Swap.GetTtl().AsDuration(), shard.MaxClaimTTL),
			Answer:       in.Swap.GetAnswer(),
		}
		var err error
		if op.Swap.Mappings, err = wire.MappingsFrom(in.Swap.GetMappings()); err != nil {
			r.Problem("swap", "%v", err)
		}
	case *cellv1.ClaimOp_Transfer:
		op.Transfer = &shard.Transfer{
			ClaimID:      in.Transfer.GetClaimId(),
			ConsumerUUID: r.UUID("transfer.consumer_uuid", in.Transfer.GetConsumerUuid()),
			ToConsumer:   r.UUID("transfer.to_consumer", in.Transfer.GetToConsumer()),
		}
	default:
		r.Problem("op", "must be set")
	}
	return op, r.Err()
}

func (r *reader) newClaim(in *cellv1.NewClaim) *shard.NewClaim {
	c := &shard.NewClaim{
		ClaimID:       in.GetClaimId(),
		ConsumerUUID:  r.UUID("claim.consumer_uuid", in.GetConsumerUuid()),
		HostUUID:      r.UUID("claim.host_uuid", in.GetHostUuid()),
		TTL:           r.ttl("claim.ttl", in.GetTtl().AsDuration(), shard.MaxClaimTTL),
		ProjectID:     in.GetProjectId(),
		UserID:        in.GetUserId(),
		RequestID:     in.GetRequestId(),
		Fingerprint:   in.GetFingerprint(),
		DecisionID:    in.GetDecisionId(),
		InstanceIndex: in.GetInstanceIndex(),
		Answer:        in.GetAnswer(),
		Allocations:   r.allocations("claim.allocations", in.GetAllocations()),
		Moves:         in.GetMovesClaimId(),
		MovesCell:     in.GetMovesCell(),
		Attempt:       in.GetAttempt(),
	}
	if c.Moves == "" && c.MovesCell != "" {
		r.Problem("claim.moves_cell", "must be empty without moves_claim_id")
	}
	if g := in.GetGroup(); g != nil {
		c.Group = r.claimGroup(g)
	}
	c.Guest = r.guest(in.GetGuest())
	return c
}

func (r *reader) allocations(list string, in []*cellgatev1.Allocation) []shard.Used {
	if len(in) == 0 {
		r.Problem(list, "must not be empty")
	}
	var out []shard.Used
	seen := map[shard.Used]struct{}{}
	for i, a := range in {
		path := fmt.Sprintf("%s[%d]", list, i)
		u := shard.Used{ProviderUUID: r.UUID(path+".provider_uuid", a.GetProviderUuid()), ResourceClass: a.GetResourceClass()}
		if u.ResourceClass == "" {
			r.Problem(path+".resource_class", "must not be empty")
		}
		if a.GetAmount() < 1 {
			r.Problem(path+".amount", "must be at least 1")
		}
		if _, ok := seen[u]; ok {
			r.Problem(path, "%s of that provider stands there already", u.ResourceClass)
		}
		seen[u] = struct{}{}
		u.Amount = int64(a.GetAmount())
		out = append(out, u)
	}
	return out
}

func (r *reader) claimGroup(g *cellv1.ClaimGroup) *shard.Group {
	switch schedule.Policy(g.GetPolicy()) {
	case schedule.Affinity, schedule.AntiAffinity, schedule.SoftAffinity, schedule.SoftAntiAffinity:
	default:
		r.Problem("claim.group.policy", "%q is not a server group policy", g.GetPolicy())
	}
	out := &shard.Group{
		UUID:       r.UUID("claim.group.uuid", g.GetUuid()),
		Policy:     g.GetPolicy(),
		MaxPerHost: max(g.GetMaxServerPerHost(), 1),
	}
	for _, id := range r.IDs("claim.group.members", g.GetMembers()) {
		out.Members = append(out.Members, id.String())
	}
	return out
}

func (r *reader) claimRef(path string, in *cellv1.ClaimRef) *shard.ClaimRef {
	ref := &shard.ClaimRef{
		ClaimID:      in.GetClaimId(),
		ConsumerUUID: r.UUID(path+".consumer_uuid", in.GetConsumerUuid()),
		PendingOnly:  in.GetPendingOnly(),
		Reinstate:    in.GetReinstate(),
		Attempt:      in.GetAttempt(),
	}
	if in.GetLease() != nil {
		lease := in.GetLease().AsTime()
		ref.Lease = &lease
	}
	if in.GetUnchangedSince() != nil {
		at := in.GetUnchangedSince().AsTime()
		ref.Unchanged = &at
	}
	return ref
}

func (r *reader) ttl(path string, ttl, most time.Duration) time.Duration {
	if ttl <= 0 || ttl > most {
		r.Problem(path, "must be above 0 and at most %v", most)
	}
	return ttl
}

// claimOf converts a claim for the API.
func claimOf(cell string, c *shard.Claim) *cellgatev1.Claim {
	out := &cellgatev1.Claim{
		ClaimId:      c.ClaimID,
		ConsumerUuid: c.ConsumerUUID,
		State:        claimState(c.State),
		Cell:         cell,
		HostUuid:     c.HostUUID,
		ServiceHost:  c.ServiceHost,
		Allocations:  make([]*cellgatev1.Allocation, len(c.Allocations)),
		ProjectId:    c.ProjectID,
		UserId:       c.UserID,
		RequestId:    c.RequestID,
		DecisionId:   c.DecisionID,
		ExpiresAt:    timeOf(c.ExpiresAt),
		CreatedAt:    timeOf(c.CreatedAt),
		UpdatedAt:    timeOf(c.UpdatedAt),
		Adopted:      c.Adopted,
		MovesClaimId: c.Moves, TransferredFrom: c.TransferredFrom,
	}
	if c.Verdict != nil {
		out.Verdict = verdictOf(c.Verdict)
	}
	for i := range c.Rejections {
		r := &c.Rejections[i]
		out.Rejections = append(out.Rejections, &cellgatev1.ClaimRejection{HostUuid: r.HostUUID, ServiceHost: r.ServiceHost, Verdict: verdictOf(&r.Verdict)})
	}
	if c.Group != nil {
		out.GroupUuid = c.Group.UUID
	}
	for i, a := range c.Allocations {
		out.Allocations[i] = &cellgatev1.Allocation{
			ProviderUuid: a.ProviderUUID, ResourceClass: a.ResourceClass, Amount: int32(a.Amount),
		}
	}
	return out
}

func verdictOf(v *shard.Verdict) *cellgatev1.ClaimVerdict {
	return &cellgatev1.ClaimVerdict{Outcome: string(v.Outcome), Reason: v.Reason, Detail: v.Detail, At: timeOf(v.At)}
}

// originOf is the part of a claim that identifies the request that made it.
func originOf(c *shard.Claim) *cellv1.ClaimOrigin {
	o := &cellv1.ClaimOrigin{Fingerprint: c.Fingerprint, Answer: c.Answer, InstanceIndex: c.InstanceIndex, MovesCell: c.MovesCell, Attempt: c.Attempt}
	if c.Group != nil {
		o.GroupPolicy = c.Group.Policy
	}
	return o
}

// needsOf is the part of a claim that describes its instance's needs.
func needsOf(c *shard.Claim) (*cellv1.ClaimNeeds, error) {
	out := &cellv1.ClaimNeeds{ConsumerType: c.ConsumerType, Allocated: c.Allocated}
	if g := c.Group; g != nil {
		out.Group = &cellv1.ClaimGroup{Uuid: g.UUID, Policy: g.Policy, MaxServerPerHost: g.MaxPerHost, Members: g.Members}
	}
	g := c.Guest
	if g == nil {
		return out, nil
	}
	out.Guest = &cellv1.Guest{FlavorId: g.FlavorID}
	if len(g.Image) > 0 {
		out.Guest.Image = &cellv1.NovaImage{}
		if err := proto.Unmarshal(g.Image, out.Guest.Image); err != nil {
			return nil, fmt.Errorf("guest.image: %w", err)
		}
	}
	if len(g.Hardware) > 0 {
		check, err := hardware.DecodeCheck(g.Hardware)
		if err != nil {
			return nil, fmt.Errorf("guest.hardware: %w", err)
		}
		out.Guest.Numa, out.Guest.PciRequests, out.Guest.Networks = wire.NUMAOf(check.NUMA), wire.PCIOf(check.PCI), wire.NetworksOf(check.Networks)
	}
	return out, nil
}

// claimStates are in the order of cellgatev1.ClaimState.
var claimStates = []shard.ClaimState{"", shard.Pending, shard.Confirmed, shard.Expired, shard.Released, shard.Rejected}

func claimState(s shard.ClaimState) cellgatev1.ClaimState {
	return cellgatev1.ClaimState(max(0, slices.Index(claimStates, s)))
}

func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// guest reads the part of a claim that describes its instance; nil for nothing.
func (r *reader) guest(in *cellv1.Guest) *shard.Guest {
	if in == nil {
		return nil
	}
	g := &shard.Guest{FlavorID: in.GetFlavorId()}
	if in.GetImage() != nil {
		g.Image = r.serialized("claim.guest.image", &cellv1.NovaImage{Properties: in.GetImage().GetProperties()})
	}
	if in.GetNuma() != nil || len(in.GetPciRequests()) > 0 {
		check := hardware.Check{Guest: r.Guest(in), JudgeNUMA: in.GetJudgeNuma(), JudgePCI: in.GetJudgePci()}
		g.Hardware = r.bounded("claim.guest", check.Encode())
	}
	return g
}

// serialized encodes a part of a guest as rows of claims store it.
func (r *reader) serialized(path string, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		r.Problem(path, "%v", err)
	}
	return r.bounded(path, b)
}

func (r *reader) bounded(path string, b []byte) []byte {
	if len(b) > shard.MaxGuest {
		r.Problem(path, "has %d bytes, the most is %d", len(b), shard.MaxGuest)
	}
	return b
}

// reader reads what gateways and agents send.
type reader struct{ wire.Fields }
