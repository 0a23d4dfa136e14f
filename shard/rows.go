package shard

import (
	"math"
	"time"

	"cellgate/schedule"
)

// Host is a root provider with its tree, and the compute service that runs on it, if one does: the row that a
// registration or a write of the Placement API writes. Rows
// are immutable once they are in a store or a view; a change is a new row.
type Host struct {
	// UUID is the root provider's, Nova's compute node uuid. Canonical text.
	UUID string
	// ServiceHost is empty for a root without a compute service, as a shared storage: no instance goes there.
	ServiceHost string
	NodeName    string
	Disabled    bool
	// DisabledReason is for people.
	DisabledReason string
	// Providers has the root first; a child names its parent.
	Providers         []Provider
	Aggregates        []Aggregate
	IOWorkload        int32
	FailedBuilds      int32
	HypervisorType    string
	HypervisorVersion int32
	HostIP            string
	// Facts are what Nova's filters compare; nil for nothing.
	Facts *Facts
	// AgentVersion is of the agent that registered the host; 0 for an imported one.
	AgentVersion int32
	// Imported: the row is what Nova's tables say, not an agent; see Gone.
	Imported bool
	// PlacementTree: the Placement API reports the providers, and imports leave them alone. Only with Imported;
	// WritePlacement sets it.
	PlacementTree bool
	// InstancesUnknown: the agent does not know which instances exist on its host.
	InstancesUnknown bool
	// Nova is what Nova's tables say of an agent's host. Aggregates and the ratios of the root
	// provider are merged with it: all who read the row see what counts. nil for nothing.
	// Decide sets it.
	Nova *NovaHost
	// BootID and StateVersion say which state of which agent incarnation this is.
	BootID       string
	StateVersion uint64
	// Generation is bumped by every write to the host's rows, this one or its
	// Usage: each row carries the number of its own last write, and the host's
	// generation is the higher of the two. Decide sets it.
	Generation int64
}

// Gone reports whether the row is what is left of a host that an operator removed
// (RemoveHost), or that Nova's tables do not have any more: an imported one that is disabled, of one provider without inventories. It
// has no room; the row stays for its generation, and for what claims hold there. Without
// claims it is no host. Another registration makes it one again.
func (h *Host) Gone() bool {
	return h.Imported && !h.PlacementTree && h.Disabled && len(h.Providers) == 1 && len(h.Providers[0].Inventories) == 0
}

// Registration is that of the row.
func (h *Host) Registration() Registration { return Registration{h.BootID, h.StateVersion} }

// Facts are JSON texts as the columns of Nova's compute_nodes have them; empty for
// NULL. A store keeps them as they are.
type Facts struct {
	CPUInfo            string
	SupportedInstances string
	Stats              string
	Metrics            string
	NUMATopology       string
	PCIStats           string
	// Namespaces are those that the host reports itself: one object with an object a
	// name. They are kept apart from Namespace rows.
	Namespaces string
}

// MaxFact bounds the bytes of each of the Facts.
const MaxFact = 1 << 20

// Provider is a resource provider of a host's tree.
type Provider struct {
	UUID string
	// ParentUUID is empty for the root.
	ParentUUID  string
	Name        string
	Traits      []string
	Inventories []Inventory
	// Generation counts the writes of the Placement API to the provider and to allocations of it, from 0; Aggregates are
	// the uuids that it put the provider in. Of a tree that it does not report, both are empty.
	Generation int64
	Aggregates []string
}

// Inventory is Placement's: what a provider has of one resource class. Nothing
// is defaulted here: MinUnit and StepSize are at least 1, AllocationRatio > 0.
type Inventory struct {
	ResourceClass   string
	Total           int64
	Reserved        int64
	MinUnit         int64
	MaxUnit         int64
	StepSize        int64
	AllocationRatio float64
	// Unaccounted is in use on the host by what no instance that is reported holds. Unlike
	// Reserved it counts without the ratio.
	Unaccounted int64
	// Filled is what a file system has in use beyond all that. Weighers see that much less
	// free, the rules of claims do not read it.
	Filled int64
}

// Free is what a claim could have besides used; below 0 where more is in use than there is.
func (i Inventory) Free(used int64) int64 { return i.Capacity() - i.Unaccounted - used }

// Capacity is (Total - Reserved) * AllocationRatio, rounded down. For whole
// amounts `used + amount <= Capacity()` is the same test as Placement's float
// comparison `used + amount <= (total - reserved) * allocation_ratio`. A product
// beyond an int64 is the largest int64.
func (i Inventory) Capacity() int64 {
	c := float64(i.Total-i.Reserved) * i.AllocationRatio
	if c >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Floor(c))
}

// MaxAmount is the greatest total and the greatest amount of one allocation
// (Placement's database integer).
const MaxAmount = math.MaxInt32

// Aggregate is an aggregate a host is in.
type Aggregate struct {
	UUID     string
	Name     string
	Metadata map[string]string
}

// Usage is what live claims take from a host: the row that claims write.
type Usage struct {
	HostUUID string
	// Generation is the host's after the write; the higher one is newer.
	Generation int64
	// Used has one entry for each (provider, class) with a use above 0, by
	// provider, then class.
	Used []Used
	// Pending and Confirmed count the live claims.
	Pending   int32
	Confirmed int32
}

// Used is an amount in use.
type Used struct {
	ProviderUUID  string
	ResourceClass string
	Amount        int64
}

// ClaimState is the state of a claim.
//
//	              Confirm
//	PENDING ------------------> CONFIRMED
//	  |  \ Release               | Release   ^
//	  |   \--------> RELEASED <--/           |
//	  | lease over      ^ Release            | Confirm, if it still fits
//	  +-------------> EXPIRED ---------------/
//	  | RecordVerdict, End
//	  +-------------> REJECTED
//
// Confirm with Reinstate makes an EXPIRED claim PENDING first. Swap makes a PENDING or
// EXPIRED claim PENDING on another host. Transfer changes the consumer of a live claim
// and nothing else, TakeOver its attempt. RecordVerdict without End changes no state, but a CONFIRMED
// claim that its host gives back (ReasonAborted) is REJECTED.
type ClaimState string

// The states. EXPIRED, RELEASED and REJECTED rows are tombstones: they hold nothing and
// are kept for TombstoneTTL so that a late message with the claim_id is refused.
const (
	Pending   ClaimState = "PENDING"
	Confirmed ClaimState = "CONFIRMED"
	Expired   ClaimState = "EXPIRED"
	Released  ClaimState = "RELEASED"
	Rejected  ClaimState = "REJECTED"
)

// Live reports whether the claim holds resources.
func (s ClaimState) Live() bool { return s == Pending || s == Confirmed }

// TombstoneTTL is how long an ended claim's row is kept. A store that bounds the bytes of
// such rows drops the oldest sooner, but none before MinTombstoneTTL.
const (
	TombstoneTTL    = 24 * time.Hour
	MinTombstoneTTL = 10 * time.Minute
)

// MaxClaimTTL and DefaultClaimTTL bound a lease. An expired claim that is on its
// way to be confirmed (ClaimRef.Reinstate) has one of ReinstateTTL, or of its own TTL when
// that is shorter.
const (
	DefaultClaimTTL = 300 * time.Second
	MaxClaimTTL     = 3600 * time.Second
	ReinstateTTL    = 30 * time.Second
	// MaxPinTTL bounds a hold of a pin: a little longer than the lease of the
	// claim it belongs to.
	MaxPinTTL = MaxClaimTTL + 60*time.Second
)

// Claim holds resources of one consumer on one host's providers.
type Claim struct {
	ClaimID      string
	ConsumerUUID string
	State        ClaimState
	HostUUID     string
	ServiceHost  string
	Allocations  []Used
	Group        *Group
	ProjectID    string
	UserID       string
	// RequestID, Fingerprint, DecisionID and InstanceIndex say which request
	// made it; Answer is what to answer to the same request again.
	RequestID     string
	Fingerprint   []byte
	DecisionID    string
	InstanceIndex int32
	Answer        []byte
	// Moves names the claim of the same consumer that this one replaces
	// when it is confirmed, in this shard or another cell's; empty for none.
	// MovesCell is the cell's name, for callers: the rules do not read it.
	Moves     string
	MovesCell string
	// Guest is what later requests ask about the instance; nil for nothing.
	Guest *Guest
	// Attempt is the run of the request that has the claim: the one that made it, or
	// the last one that kept it. Empty for a claim without.
	Attempt string
	// TransferredFrom is the claim's first consumer when Transfer gave it to
	// another one; else empty.
	TransferredFrom string
	// Adopted: made from an instance its host reported.
	Adopted bool
	// Allocated: the Placement API wrote it.
	Allocated bool
	// ConsumerGeneration counts the writes to what the consumer holds; the consumer's is the highest of its live claims.
	ConsumerGeneration int64
	// ConsumerType is the one given through the Placement API; empty for none.
	ConsumerType string
	// Seen: a report of its host has had the instance since the claim is on the host.
	// Rows from before it was kept are not Seen until the next report.
	Seen bool
	// Verdict is the newest of its host on it (RecordVerdict); nil for none.
	// A claim that a report confirmed has none. What its host gave back (GaveBack) has no
	// Allocations.
	Verdict *Verdict
	// Rejections are of the hosts that rejected it before Swap put it on another one, the
	// newest MaxRejections, oldest first. The rules do not read them.
	Rejections []Rejection
	// TTL is how long a lease was asked for, by the claim or its last Swap; 0 for an
	// adopted claim, and for one from before it was kept.
	TTL time.Duration
	// ExpiresAt is the end of the lease while PENDING, else zero; the lease is
	// over from that moment on. Store time, as are the others.
	ExpiresAt time.Time
	CreatedAt time.Time
	// UpdatedAt is later than that of the row before, even when the store's time is
	// not.
	UpdatedAt time.Time
}

// Instance is the instance that the claim's resources are for: its consumer, or
// the one it was transferred from. Group members are counted, and hosts'
// reports are read, by it.
func (c *Claim) Instance() string {
	if c.TransferredFrom != "" {
		return c.TransferredFrom
	}
	return c.ConsumerUUID
}

// Guest is what a claim keeps of its instance beyond amounts. The rules read Hardware, and
// set Awaited and Assigned.
type Guest struct {
	// FlavorID is empty when it is not known.
	FlavorID string
	// Image are the weighed properties, as the cell serializes them; empty for none.
	Image []byte
	// Hardware are the NUMA cells and devices asked for, a schedule.GuestCheck encoded;
	// empty for none.
	Hardware []byte
	// Awaited: the claim was confirmed by its caller, and no report of its host has
	// had the instance since. Such a report has what Hardware takes; until then only
	// the claim does. Never set without Hardware.
	Awaited bool
	// Assigned is what the claim takes of its host's NUMA cells and devices while it does
	// (Claim.TakesHardware). Nil then only for a claim that a report of its host left
	// without. Decide's to set.
	Assigned *schedule.Assignment
}

// MaxGuest bounds the bytes of each part of a Guest.
const MaxGuest = 1 << 16

// Group is a claim's place in a server group.
type Group struct {
	UUID string
	// Policy is affinity, anti-affinity, soft-affinity or soft-anti-affinity. What
	// an instance holds elsewhere is no member beside its own claim: it may move.
	Policy string
	// MaxPerHost is anti-affinity's limit, at least 1.
	MaxPerHost int32
	// Members are instances known to be in the group from elsewhere; those
	// with a live claim on the host count against MaxPerHost too.
	Members []string
}

// Pin binds an affinity group to a service host, in the group's arbiter shard.
type Pin struct {
	GroupUUID   string
	ServiceHost string
	// Holders are the claims that pinned it, with the end of each hold. The pin
	// is live while one of them is.
	Holders []Holder
}

// Holder is one claim's hold of a pin.
type Holder struct {
	ClaimID   string
	ExpiresAt time.Time
}

// Change is one row after a transaction: exactly one field is set. It
// is what backends write, what the journal carries, and what Load gives.
type Change struct {
	Host  *Host
	Usage *Usage
	Claim *Claim
	// Pin with no Holders is gone.
	Pin  *Pin
	Gate *Gate
	// Namespace with no Facts is gone.
	Namespace  *Namespace
	AdminState *AdminState
	// Name that is Gone is not there any more. Of one name the later Entry.At wins, as of a pin.
	Name *CustomName
}
