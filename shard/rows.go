package shard

import (
	"math"
	"time"

	"cellgate/schedule"
	"cellgate/schedule/hardware"
	"cellgate/schedule/placement"
)

// Host is a root provider with its tree, and the compute service on it, if any. A registration or a write of the
// Placement API writes this row. Rows are immutable once they are in a store or a view; a change is a new row.
type Host struct {
	// UUID is the root provider's and Nova's compute node uuid, in canonical text.
	UUID string
	// ServiceHost is empty for a root without a compute service, such as shared storage: no instance runs there.
	ServiceHost string
	NodeName    string
	Disabled    bool
	// DisabledReason is for people.
	DisabledReason string
	// Providers has the root first; each child names its parent.
	Providers         []Provider
	Aggregates        []Aggregate
	IOWorkload        int32
	FailedBuilds      int32
	HypervisorType    string
	HypervisorVersion int32
	HostIP            string
	// Facts are what Nova's filters compare; nil for none.
	Facts *Facts
	// AgentVersion is the version of the agent that registered the host; 0 for an imported host.
	AgentVersion int32
	// Imported: the row comes from Nova's tables or the Placement API, not from an agent; see Gone.
	Imported bool
	// PlacementTree: the Placement API reports the providers, and imports do not change them. Only with Imported;
	// WritePlacement sets it.
	PlacementTree bool
	// InstancesUnknown: the agent does not know which instances exist on its host.
	InstancesUnknown bool
	// Nova is what Nova's tables record of an agent's host; nil for nothing. It is already merged into Aggregates and
	// the root provider's ratios. Decide sets it.
	Nova *NovaHost
	// BootID and StateVersion identify the agent incarnation and its state that this row is.
	BootID       string
	StateVersion uint64
	// Generation is raised by every write to this row or to the host's Usage. Each row has the number of its own last
	// write; the host's generation is the higher of the two. Decide sets it.
	Generation int64
}

// Gone reports whether the row is the remainder of a host that an operator removed (RemoveHost) or that Nova's tables
// no longer have: imported, disabled, one provider without inventories. It has no room. The row stays for its
// generation and for claims on it; without claims it does not count as a host. A new registration makes it a host
// again.
func (h *Host) Gone() bool {
	return h.Imported && !h.PlacementTree && h.Disabled && len(h.Providers) == 1 && len(h.Providers[0].Inventories) == 0
}

// Registration identifies the state that the row is.
func (h *Host) Registration() Registration { return Registration{h.BootID, h.StateVersion} }

// Facts are JSON texts as in the columns of Nova's compute_nodes; empty for NULL. A store keeps them unchanged.
type Facts struct {
	CPUInfo            string
	SupportedInstances string
	Stats              string
	Metrics            string
	NUMATopology       string
	PCIStats           string
	// Namespaces are those that the host itself reports: a JSON object with one object for each name. They are
	// separate from Namespace rows.
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
	// Generation counts the Placement API's writes to the provider and to allocations of it, from 0. Aggregates are
	// the uuids of the aggregates that it put the provider in. Both are empty in trees that it does not report.
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
	// Unaccounted is in use on the host, but not by any reported instance. Unlike Reserved it is not multiplied by
	// the ratio.
	Unaccounted int64
	// Filled is what a file system has in use beyond all that. Weighers see that much less free; the rules of claims
	// do not read it.
	Filled int64
}

// Free is the amount that a claim can still take; below 0 if more is in use than the capacity.
func (i Inventory) Free(used int64) int64 { return i.Capacity() - i.Unaccounted - used }

// Capacity is what claims can take together. For amounts above 0, `used + amount <= Capacity()` is the same test as
// Placement's float comparison `used + amount <= (total - reserved) * allocation_ratio`.
func (i Inventory) Capacity() int64 {
	return placement.Capacity(i.Total, i.Reserved, i.AllocationRatio)
}

// MaxAmount is the greatest total and the greatest amount of one allocation
// (Placement's database integer).
const MaxAmount = math.MaxInt32

// Aggregate is an aggregate that a host is in.
type Aggregate struct {
	UUID     string
	Name     string
	Metadata map[string]string
}

// Zones are the aggregate's availability zones; see schedule.ZonesOf.
func (a *Aggregate) Zones() (zones []string, zoned bool) { return schedule.ZonesOf(a.Metadata) }

// Usage is what live claims take from a host: claims write this row.
type Usage struct {
	HostUUID string
	// Generation is the host's generation after this write; the higher one is newer.
	Generation int64
	// Used has one entry for each (provider, class) with a use above 0, by
	// provider, then class.
	Used []Used
	// Pending and Confirmed are the numbers of live claims in these states.
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

// TombstoneTTL is how long an ended claim's row is kept. A store that bounds the bytes of such rows drops the oldest
// sooner, but none before MinTombstoneTTL.
const (
	TombstoneTTL    = 24 * time.Hour
	MinTombstoneTTL = 10 * time.Minute
)

// MaxClaimTTL bounds a lease; DefaultClaimTTL is a usual lease. A reinstated claim (ClaimRef.Reinstate)
// has a lease of ReinstateTTL, or of its own TTL if that is shorter.
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
	// RequestID, Fingerprint, DecisionID and InstanceIndex identify the request that made the claim. Answer is the
	// answer to the same request if it is sent again.
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
	// Guest is what later requests read of the instance; nil for nothing.
	Guest *Guest
	// Attempt is the run of the request that has the claim: the one that made it, or the last one that took it over.
	// May be empty.
	Attempt string
	// TransferredFrom is the claim's first consumer when Transfer gave it to
	// another one; else empty.
	TransferredFrom string
	// Adopted: the claim was made for an instance that its host reported.
	Adopted bool
	// Allocated: the Placement API wrote it.
	Allocated bool
	// ConsumerGeneration counts the writes to what the consumer holds. The consumer's generation is the highest of
	// its live claims.
	ConsumerGeneration int64
	// ConsumerType is the one given through the Placement API; empty for none.
	ConsumerType string
	// ForMigration: when the claim was made, a migration of Nova held what its instance had (Claim.Allocated). Nova ends
	// such a claim itself, however the migration ends.
	ForMigration bool
	// Seen: a report of its host has had the instance since the claim has been on the host. Rows older than this
	// field are not Seen until the next report.
	Seen bool
	// Verdict is the host's newest verdict on the claim (RecordVerdict); nil for none. A claim that a report
	// confirmed has none. A claim that its host gave back (GaveBack) has no Allocations.
	Verdict *Verdict
	// Rejections are those of the hosts that rejected the claim before Swap moved it, oldest first, the newest
	// MaxRejections. The rules do not read them.
	Rejections []Rejection
	// TTL is the requested duration of the lease, from the claim or its last Swap; 0 for an adopted claim, and in
	// rows older than this field.
	TTL time.Duration
	// ExpiresAt is the end of the lease while PENDING, else zero. From that moment on the lease is over. Like the
	// other times it is store time.
	ExpiresAt time.Time
	CreatedAt time.Time
	// UpdatedAt is later than in the previous row, even if the store's time is not.
	UpdatedAt time.Time
}

// Instance is the instance that the claim's resources are for: its consumer, or its first consumer if it was
// transferred. Group members and hosts' reports refer to it.
func (c *Claim) Instance() string {
	if c.TransferredFrom != "" {
		return c.TransferredFrom
	}
	return c.ConsumerUUID
}

// Guest is what a claim keeps of its instance beyond amounts. The rules read Hardware, and set Awaited and Assigned.
type Guest struct {
	// FlavorID is empty when it is not known.
	FlavorID string
	// Image are the weighed properties, as the cell serializes them; empty for none.
	Image []byte
	// Hardware are the NUMA cells and devices asked for, a hardware.Check encoded;
	// empty for none.
	Hardware []byte
	// Awaited: the claim's caller confirmed it, and no report of its host has had the instance since. The claim takes
	// its Hardware until such a report counts it. Never set without Hardware.
	Awaited bool
	// Assigned are the NUMA cells and devices that the claim takes of its host while it does (Claim.TakesHardware).
	// It is then nil only if a report of the host left nothing for the claim. Decide sets it.
	Assigned *hardware.Assignment
}

// MaxGuest bounds the bytes of each part of a Guest.
const MaxGuest = 1 << 16

// Group is a claim's place in a server group.
type Group struct {
	UUID string
	// Policy is affinity, anti-affinity, soft-affinity or soft-anti-affinity. Other claims of the claim's own
	// instance do not count as members: it may be moving.
	Policy string
	// MaxPerHost is anti-affinity's limit, at least 1.
	MaxPerHost int32
	// Members are instances that the caller knows to be in the group. They count like those of claims in the group.
	Members []string
}

// Pin binds an affinity group to a service host, in the group's arbiter shard.
type Pin struct {
	GroupUUID   string
	ServiceHost string
	// Holders are the claims that pinned the group, with the end of each hold. The pin is live while one hold is.
	Holders []Holder
}

// Holder is one claim's hold of a pin.
type Holder struct {
	ClaimID   string
	ExpiresAt time.Time
}

// Change is one row after a transaction; exactly one field is set. Backends write it, the journal carries it, and
// Load gives it.
type Change struct {
	Host  *Host
	Usage *Usage
	Claim *Claim
	// Pin without Holders is deleted.
	Pin  *Pin
	Gate *Gate
	// Namespace without Facts is deleted (Namespace.Deleted); the one with an empty name stays.
	Namespace  *Namespace
	AdminState *AdminState
	// Name with Gone is deleted. The later Entry.At wins, as for pins.
	Name *CustomName
}
