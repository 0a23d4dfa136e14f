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
	// TakeOver gives a live claim, CONFIRMED too, to an attempt; an ended one is refused,
	// CLAIM_EXPIRED. A claim that has the attempt is answered unchanged.
	TakeOver *ClaimRef
	// Expire ends a claim whose lease is over; it is a no-op when the claim is
	// no longer PENDING or its lease is not over in store time.
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
	// SetAdminState is an operator's state of a host; EndMaintenance ends a maintenance whose
	// time is over. SetNovaState is the state of its service in Nova; SetSilent says whether
	// its agent is silent.
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

// PutHost registers a host, or replaces its state. Instances are those that
// exist on it; their claims are found by Claim.Instance. A PENDING claim on this
// host that is the instance's only one here is CONFIRMED, with what Confirm does,
// whatever the host's Verdict on it was;
// an instance without a live claim is adopted, an adopted claim takes the
// allocations reported, and one whose instance is gone is RELEASED, unless it was
// transferred: then it is its new consumer's to release. With an imported state a
// CONFIRMED claim of a request that is Seen is RELEASED too. An instance whose live
// claims are all on other hosts, or were transferred to it, is left alone and
// counted (Outcome.ClaimedElsewhere). A CONFIRMED claim whose instance is awaited
// (Guest.Awaited) is so no more; every claim whose instance is on the host is Seen.
// What Nova says of an agent's host (Host.Nova) stays, whatever its agent reports; of one that
// was imported until now that is what its row says.
// With Host.InstancesUnknown no claim is adopted, confirmed, released or Seen.
// Nothing changes when the stored state has the same BootID and a StateVersion
// that is not lower. Nor does it while the host's row is of an incarnation of the agent that is
// neither the state's own nor ExpectedBootID (Outcome.CurrentBootID).
//
// The gate says who speaks for a host. While it is LEGACY or SHADOW an imported state
// (Host.Imported) replaces an agent's, and an agent's is not taken (Outcome.Held). Else
// an agent's state replaces an imported one, of whatever version, and an imported one leaves a host
// that an agent registered to it (Outcome.OwnedByAgent): only what Nova says of it (Host.Nova) is taken,
// and where that agent does not know its instances (Host.InstancesUnknown) the claims are
// brought in line with the import's (Outcome.InstancesTaken).
// One that says what the row says does not write it, whatever its
// version (Outcome.Unchanged), and brings the claims in line all the same; only one of
// the same BootID and a lower version changes nothing at all (Outcome.Outdated).
//
// With InstancesAt an import neither ends a claim that was written later nor takes from it:
// its rows may be older than the instance, as those of a replica that is behind are. Such
// claims are counted (Outcome.NewerClaimsSkipped).
//
// An import leaves the providers of a host that the Placement API reports (Host.PlacementTree) as they are.
type PutHost struct {
	Host      Host
	Instances []Instance
	// ExpectedBootID, with an agent's state, is the BootID of the row that the agent was asked for
	// its state over, "" for no row: the state does not replace the row of another incarnation.
	// nil: it replaces that of any.
	ExpectedBootID *string
	// InstancesAt, with an imported state, is a moment up to which its rows are whole: all
	// that was written before is in them. Zero: not known, and they count as newer than
	// every claim.
	InstancesAt time.Time
}

// Registration says which state of which agent incarnation a host's row is.
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

// NewClaim asks for resources. The same claim_id again, with the same consumer,
// host, allocations, group and Moves, is answered with the claim unchanged.
//
// With Moves it may be made beside the consumer's live claim of that id: the two
// are one set, and the consumer has no third. A consumer without a live claim in
// this shard gets it too: the claim it moves is in another cell, or has ended
// since. Any other live claim of the consumer on a compute is in the way, ALREADY_EXISTS; one on a
// root without a compute service is not.
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
	// Attempt is the run of the request that makes the claim. Sent again after another
	// one kept it, the claim is answered unchanged.
	Attempt string
}

// Swap puts a PENDING or EXPIRED claim on a host, PENDING with a new lease,
// checked as a new claim is; what it held before is given back in the same
// transaction. Refused, it does not change. A live claim that is on the host
// already is answered unchanged.
//
// A CONFIRMED claim elsewhere is refused, ALREADY_EXISTS: its instance is there,
// and moving it is NewClaim's Moves. A RELEASED or REJECTED claim is CLAIM_EXPIRED; so is an
// EXPIRED one of an affinity group, as for a late Confirm. An EXPIRED claim comes
// back beside the claim it moves or is moved by, and beside no other.
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

// Transfer gives a live claim to another consumer, which must have no live claim
// in this shard: ALREADY_EXISTS. State, lease, host, group and allocations stay;
// the claim remembers its first consumer, and transferred back to it forgets. A
// claim that is ToConsumer's already is answered unchanged; an ended one is
// CLAIM_EXPIRED.
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
	// Reinstate, with Confirm: an EXPIRED claim that still fits becomes PENDING again
	// instead of CONFIRMED, for ReinstateTTL or its own TTL, whichever is shorter. All see
	// it then, and it is confirmed by a Confirm that finds it PENDING.
	Reinstate bool
	// Lease, with Confirm: a PENDING claim that is not in the lease it was made with is
	// CONFIRMED only when its lease ends then, and else answered unchanged. A caller that
	// reads other claims of the consumer names the lease that it knew before that. nil: under any lease.
	Lease *time.Time
	// Attempt, with TakeOver: who has the claim from now on. With Release, unless empty:
	// a claim that another attempt has, or that is CONFIRMED, is refused,
	// ALREADY_EXISTS. The run of a request that gives up so leaves alone what a later
	// one has answered with.
	Attempt string
	// Unchanged, with Release: the claim's UpdatedAt as it was read. One that was written since
	// is refused, STALE_GENERATION, unless it has ended: a release that comes late ends no
	// claim that was transferred, and transferred back, since.
	Unchanged *time.Time
	// ReportedGoneBy, with Release: a report of this registration does not have the claim's
	// instance any more. Any other row of its host, and a claim that is not a CONFIRMED
	// one that a report had before, that was transferred, or whose instance has another
	// live claim, is refused, STALE_GENERATION; a claim that is not known, NOT_FOUND.
	ReportedGoneBy *Registration
	// Deleted, with ReportedGoneBy: Nova's row of the instance is deleted, as was read at this
	// moment. Then a claim that no report had before, or whose instance has another live
	// claim, is released too, and one that was written later is refused, STALE_GENERATION. On an
	// imported host ReportedGoneBy does not matter: Nova's tables say what is there.
	Deleted time.Time
}

// NewPin pins an affinity group to a service host, or joins its pin.
type NewPin struct {
	GroupUUID   string
	ServiceHost string
	ClaimID     string
	TTL         time.Duration
}

// Unpin takes a claim's hold away; idempotent.
type Unpin struct {
	GroupUUID string
	ClaimID   string
}

// Outcome answers one operation. Refusal nil means done (or already done).
type Outcome struct {
	Refusal *Refusal
	// Claim is the claim after Claim, Confirm, Release, TakeOver, Expire, Swap, Transfer and RecordVerdict; after an
	// ALREADY_EXISTS refusal the claim that is in the way.
	Claim *Claim
	// PinnedTo is the service host of the group's live pin, after Pin. When it
	// is not the one asked for, the pin was refused (Refusal is set too).
	PinnedTo string
	// Adopted, Confirmed, Released, ClaimedElsewhere: after PutHost, how many instances were
	// adopted, how many claims it confirmed and released, and how many instances have a
	// live claim on another host.
	Adopted          int
	Confirmed        int
	Released         int
	ClaimedElsewhere int
	// OwnedByAgent, Unchanged: after PutHost with an imported state, that an agent speaks
	// for the host, and that the row says so already. Held: after PutHost with an agent's, that
	// Nova's tables speak for the host, and nothing was done.
	// Followed, with OwnedByAgent: what Nova says of the host was another.
	OwnedByAgent bool
	Held         bool
	Followed     bool
	// CurrentBootID, after PutHost with ExpectedBootID, is the BootID of the row when nothing was done
	// for it.
	CurrentBootID string
	// InstancesTaken, with OwnedByAgent: the agent does not know its instances
	// (Host.InstancesUnknown), and the claims were brought in line with the import's.
	InstancesTaken bool
	Unchanged      bool
	// Outdated, with Unchanged: the row is of a newer import, and nothing was done. NewerClaimsSkipped is
	// how many claims were not brought in line, for they are newer than the import's rows.
	Outdated           bool
	NewerClaimsSkipped int
	// Gate is the gate after MoveGate, refused or not; nil for none.
	Gate *Gate
	// Namespace is the one after PutFacts, refused or not; nil for none.
	Namespace *Namespace
	// Audited is what Audit found.
	Audited *Audited
	// AdminState is the host's after SetAdminState, EndMaintenance, SetNovaState and
	// SetSilent; nil for none.
	AdminState *AdminState
	// Created: PutName made the name.
	Created bool
	// Newest is the host's generation after SetAdminState and PutFacts that were refused for
	// their AsOf.
	Newest int64
	// Overcommitted: after PutHost, how many (provider, class) are used beyond
	// capacity.
	Overcommitted int
}

// Refusal is an operation's "no": a result, not an error.
type Refusal struct {
	Kind    fault.Kind
	Message string
	// Filter and Detail say what did not fit, as reject counts have it:
	// ("ResourceFilter", "VCPU"), ("ServerGroupAntiAffinityFilter", "").
	Filter string
	Detail string
	// GroupHosts are the service hosts of the members, of a refusal for the group: each
	// once, by name.
	GroupHosts []string
	// Placement is the refusal that the Placement API answers with.
	Placement *PlacementRefusal
}
