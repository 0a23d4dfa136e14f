package shard

import (
	"time"

	"cellgate/internal/fault"
)

// Op is one operation of a batch: exactly one field is set.
type Op struct {
	PutHost *PutHost
	Claim   *NewClaim
	Confirm *ClaimRef
	Release *ClaimRef
	// Expire ends a claim whose lease is over; it is a no-op when the claim is
	// no longer PENDING or its lease is not over in store time.
	Expire *ClaimRef
	Pin    *NewPin
	Unpin  *Unpin
}

// PutHost registers a host, or replaces its state. Instances are those that
// exist on it: a PENDING claim of such an instance on this host is CONFIRMED, an
// instance without a live claim is adopted, an adopted claim takes the
// allocations reported, and one whose instance is gone is RELEASED. A consumer
// with a live claim on another host is left alone and counted
// (Outcome.Conflicts). Nothing changes when the stored state has the same BootID
// and a StateVersion that is not lower.
type PutHost struct {
	Host      Host
	Instances []Instance
}

// Instance is an instance that exists on a host.
type Instance struct {
	UUID        string
	Allocations []Used
	ProjectID   string
	UserID      string
}

// NewClaim asks for resources.
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
}

// ClaimRef names a claim. The consumer is named too so that a release may come
// before its claim.
type ClaimRef struct {
	ClaimID      string
	ConsumerUUID string
	// PendingOnly, with Release: a CONFIRMED claim is refused, ALREADY_EXISTS.
	PendingOnly bool
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
	// Claim is the claim after Claim, Confirm, Release and Expire; after an
	// ALREADY_EXISTS refusal the claim that is in the way.
	Claim *Claim
	// PinnedTo is the service host of the group's live pin, after Pin. When it
	// is not the one asked for, the pin was refused (Refusal is set too).
	PinnedTo string
	// Adopted, Conflicts: after PutHost, how many instances were adopted, and
	// how many have a live claim on another host.
	Adopted   int
	Conflicts int
	// Overcommitted: after PutHost, how many (provider, class) are used beyond
	// capacity.
	Overcommitted int
}

// Refusal is an operation's "no": a result, not an error.
type Refusal struct {
	Kind    fault.Kind
	Message string
	// Filter and Detail say what did not fit, in the words of reject counts:
	// ("ResourceFilter", "VCPU"), ("ServerGroupAntiAffinityFilter", "").
	Filter string
	Detail string
}
