package shard

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Op is one operation of a batch: exactly one field is set.
type Op struct {
	PutHost *PutHost
	Claim   *NewClaim
	Confirm *ClaimRef
	Release *ClaimRef
	// TakeOver gives a live claim, also a CONFIRMED one, to an attempt. An ended claim is refused, CLAIM_EXPIRED. A
	// claim that already has the attempt is unchanged.
	TakeOver *ClaimRef
	// Expire ends a claim whose lease is over; it is a no-op when the claim is no longer PENDING or its lease is not
	// over in store time. If the Placement API has given the instance's former claim to another consumer (Nova's
	// migration), or had when this one was made (Claim.ForMigration), the claim is confirmed instead.
	Expire *ClaimRef
	Pin    *NewPin
	Unpin  *Unpin
	// Swap puts a claim on another host, Transfer gives it to another consumer.
	Swap          *Swap
	Transfer      *Transfer
	MoveGate      *MoveGate
	PutFacts      *PutFacts
	RecordVerdict *RecordVerdict
	Audit         *Audit
	// SetAdminState sets an operator's state of a host; EndMaintenance ends a maintenance whose time is over.
	// SetNovaState sets the state of the host's service in Nova; SetSilent records whether its agent is silent.
	SetAdminState  *SetAdminState
	EndMaintenance *EndMaintenance
	SetNovaState   *SetNovaState
	SetSilent      *SetSilent
	RemoveHost     *RemoveHost
	// WritePlacement, PutName and DeleteName are the Placement API's.
	WritePlacement *WritePlacement
	PutName        *NameRef
	DeleteName     *NameRef
}

// PutHost registers a host, or replaces its state. Instances are all instances that exist on it; their claims are
// found by Claim.Instance.
//
//   - If the instance's only claim on this host is PENDING, it is CONFIRMED as by Confirm, whatever the host's Verdict.
//     Of several claims on this host, a PENDING one is, if it alone has the reported amounts: the instance was resized.
//   - An instance without a live claim is adopted. An adopted claim takes the reported allocations. Of a tree that
//     the Placement API reports (Host.PlacementTree), it takes only classes that the tree has.
//   - An adopted claim whose instance is gone is RELEASED. With an imported state so is a CONFIRMED claim of a request
//     that is Seen. A transferred claim is not: its new consumer releases it. Nor is one whose instance has a claim
//     that a migration of Nova holds: Nova ends it itself.
//   - If an imported instance's only claim is PENDING on another host, and not for a migration, the claim is RELEASED, and
//     the instance adopted: Nova went on to an alternate.
//   - Any other instance whose live claims are all on other hosts, or were transferred to it, is left alone and counted
//     (Outcome.ClaimedElsewhere).
//   - Every claim whose instance is on the host is Seen, and no longer Guest.Awaited.
//
// With Host.InstancesUnknown claims do not change. What Nova records of an agent's host (Host.Nova) stays. When an
// agent registers an imported host, Host.Nova is filled from the imported row.
//
// An agent's state is not written if the row has the same BootID and the same or a higher StateVersion, or if the row
// is of an incarnation other than the state's own and ExpectedBootID (Outcome.CurrentBootID).
//
// The gate decides who reports a host. While it is LEGACY or SHADOW, an imported state (Host.Imported) replaces an
// agent's, and an agent's is refused (Outcome.Held). While it is NATIVE, an agent's state replaces an imported one of
// any version. An imported state then leaves an agent's host (Outcome.OwnedByAgent) and updates only Host.Nova. If
// that agent does not know its instances (Host.InstancesUnknown), the import also updates the claims
// (Outcome.InstancesTaken). An import of a lower version than the one that last changed Host.Nova changes
// nothing (Outcome.Outdated).
//
// An imported state that equals the row is not written (Outcome.Unchanged), but the claims are updated all the same.
// Only if it has the row's BootID and a lower version, nothing changes at all (Outcome.Outdated).
//
// With InstancesAt an import neither ends a claim that was written later nor reduces it: the import's rows may be
// older than the instance, as those of a lagging replica are. Such claims are counted (Outcome.NewerClaimsSkipped).
//
// An import does not change the providers of a host that the Placement API reports (Host.PlacementTree).
type PutHost struct {
	Host      Host
	Instances []Instance
	// ExpectedBootID, with an agent's state, is the BootID of the row that the state may replace, "" for no row. The
	// state does not replace the row of any other incarnation, except its own. nil: it replaces any.
	ExpectedBootID *string
	// InstancesAt, with an imported state, is a moment up to which its rows are complete: everything written before
	// it is in them. Zero: not known, and the rows count as newer than every claim.
	InstancesAt time.Time
}

// Registration identifies a state that an agent incarnation reported.
type Registration struct {
	BootID       string
	StateVersion uint64
}

// Instance is an instance that exists on a host.
type Instance struct {
	UUID        string
	Allocations []Used
	ProjectID   string
	UserID      string
}

// NewClaim asks for resources. If the claim_id exists with the same consumer, host, allocations, group and Moves, the
// answer is that claim unchanged.
//
// With Moves the claim may be made beside the consumer's live claim of that id; the consumer can have no third. It is
// also made if the consumer has no live claim in this shard: the claim that it moves is in another cell, or has
// ended. Any other live claim of the consumer on a compute refuses it, ALREADY_EXISTS; a claim on a root without a
// compute service does not.
type NewClaim struct {
	ClaimID       string
	ConsumerUUID  string
	HostUUID      string
	Allocations   []Used
	TTL           time.Duration
	Group         *Group
	ProjectID     string
	UserID        string
	RequestID     string
	Fingerprint   []byte
	DecisionID    string
	InstanceIndex int32
	Answer        []byte
	Moves         string
	MovesCell     string
	Guest         *Guest
	// Attempt is the run of the request that makes the claim. Sent again after another attempt took the claim over,
	// the claim is answered unchanged.
	Attempt string
}

// Swap moves a PENDING or EXPIRED claim to a host, PENDING with a new lease, with the checks of a new claim. The same
// transaction gives back what the claim held before. If Swap is refused, the claim does not change. A live claim that
// is already on the host is answered unchanged.
//
// A CONFIRMED claim elsewhere is refused, ALREADY_EXISTS: its instance is there, and is moved by NewClaim.Moves. A
// RELEASED or REJECTED claim is refused, CLAIM_EXPIRED; so is an EXPIRED claim of an affinity group, as for a late
// Confirm. An EXPIRED claim comes back only if its consumer has no live claim, or only the one that it moves or that
// moves it.
type Swap struct {
	ClaimID      string
	ConsumerUUID string
	HostUUID     string
	Allocations  []Used
	TTL          time.Duration
	// Answer replaces the claim's.
	Answer []byte
	// Mappings say which providers the request groups of the instance's PCI devices get.
	Mappings []schedule.Mapping
}

// Transfer gives a live claim to another consumer. If that one has a live claim in this shard, it is refused:
// ALREADY_EXISTS. State, lease, host, group and allocations stay. The claim keeps its first consumer in
// TransferredFrom, until it is transferred back. A claim that ToConsumer already has is answered unchanged; an ended
// one is refused, CLAIM_EXPIRED.
type Transfer struct {
	ClaimID      string
	ConsumerUUID string
	ToConsumer   string
}

// ClaimRef names a claim. The consumer is named too so that a release may come
// before its claim.
type ClaimRef struct {
	ClaimID      string
	ConsumerUUID string
	// PendingOnly, with Release: a CONFIRMED claim is refused, ALREADY_EXISTS.
	PendingOnly bool
	// Reinstate, with Confirm: an EXPIRED claim that still fits becomes PENDING again instead of CONFIRMED, for
	// ReinstateTTL or its own TTL, whichever is shorter. All callers see it then, and a second Confirm
	// confirms it.
	Reinstate bool
	// Lease, with Confirm: a PENDING claim that is no longer in its first lease is CONFIRMED only if its lease ends
	// then; else it is unchanged. A caller that reads the consumer's other claims names the lease that it knew before
	// it read them. nil: any lease.
	Lease *time.Time
	// Attempt, with TakeOver, is the attempt that gets the claim. With Release, unless empty: a claim that is
	// CONFIRMED or has another attempt is refused, ALREADY_EXISTS. So a run that gives up does not release a claim
	// that a later run has answered with.
	Attempt string
	// Unchanged, with Release: the claim's UpdatedAt when the caller read it. A live or expired claim that was
	// written since is refused, STALE_GENERATION. So a late release does not end a claim that was transferred, and
	// transferred back, since.
	Unchanged *time.Time
	// ReportedGoneBy, with Release: a report of this registration no longer has the claim's instance. An unknown
	// claim is refused, NOT_FOUND. STALE_GENERATION: the host's row is of another registration, or the claim is not
	// CONFIRMED, was never in a report, was transferred, or its instance has another live claim.
	ReportedGoneBy *Registration
	// Deleted, with ReportedGoneBy: Nova's row of the instance is deleted, as read at this moment. Then a claim that
	// was never in a report, or whose instance has another live claim, is released too. A claim written later is
	// refused, STALE_GENERATION. ReportedGoneBy does not matter on an imported host, nor where the agent does not know
	// its instances: Nova's tables are the authority.
	Deleted time.Time
}

// NewPin pins an affinity group to a service host, or joins its pin.
type NewPin struct {
	GroupUUID   string
	ServiceHost string
	ClaimID     string
	TTL         time.Duration
}

// Unpin removes a claim's hold of a pin; idempotent.
type Unpin struct {
	GroupUUID string
	ClaimID   string
}

// Outcome is the result of one operation. Refusal nil means done, or already done.
type Outcome struct {
	Refusal *Refusal
	// Claim is the claim after Claim, Confirm, Release, TakeOver, Expire, Swap, Transfer and RecordVerdict. After an
	// ALREADY_EXISTS refusal it is the claim in the way.
	Claim *Claim
	// PinnedTo is the service host of the group's live pin, after Pin. If it differs from the requested one, the pin
	// was refused (Refusal is set too).
	PinnedTo string
	// PinHolders are the claims with live holds of a pin that refused another one.
	PinHolders []string
	// Adopted, Confirmed, Released, ClaimedElsewhere: after PutHost, how many instances were adopted, how many claims
	// were confirmed and released, and how many instances have a live claim elsewhere.
	Adopted          int
	Confirmed        int
	Released         int
	ClaimedElsewhere int
	// OwnedByAgent: after PutHost with an imported state, an agent reports the host. Held: after PutHost with an
	// agent's state, Nova's tables are the authority, and nothing was done. Followed, with OwnedByAgent: Nova's
	// aggregates or ratios changed.
	OwnedByAgent bool
	Held         bool
	Followed     bool
	// CurrentBootID, after PutHost with ExpectedBootID, is the BootID of the row that was not replaced; else empty.
	CurrentBootID string
	// InstancesTaken, with OwnedByAgent: the agent does not know its instances (Host.InstancesUnknown), and the
	// claims were updated from the import's. Unchanged: the row already equals the imported state.
	InstancesTaken bool
	Unchanged      bool
	// Outdated, with Unchanged: the row, or what it has of Nova, is of a newer import, and nothing was done. NewerClaimsSkipped is how many
	// claims were left as they are because they are newer than the import's rows.
	Outdated           bool
	NewerClaimsSkipped int
	// Gate is the gate after MoveGate, refused or not; nil for none.
	Gate *Gate
	// Namespace is the stored one after PutFacts, refused or not; nil for none.
	Namespace *Namespace
	// Audited is what Audit found.
	Audited *Audited
	// AdminState is the host's after SetAdminState, EndMaintenance, SetNovaState and
	// SetSilent; nil for none.
	AdminState *AdminState
	// Created: PutName made the name.
	Created bool
	// Newest is the host's generation, after a SetAdminState or PutFacts that was refused for its AsOf.
	Newest int64
	// Overcommitted: after PutHost, how many (provider, class) pairs are used beyond capacity.
	Overcommitted int
}

// Refusal is why an operation was not done: a result, not an error.
type Refusal struct {
	Kind    fault.Kind
	Message string
	// Filter and Detail say what did not fit, in the terms of reject counts: ("ResourceFilter", "VCPU"),
	// ("ServerGroupAntiAffinityFilter", "").
	Filter string
	Detail string
	// GroupHosts, in a refusal for the group, are the service hosts of its members, each once, by name.
	GroupHosts []string
	// Placement is the refusal for the Placement API.
	Placement *PlacementRefusal
}
