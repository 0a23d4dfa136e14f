package importer

import "time"

// Report is what a step found and did.
type Report struct {
	// At is the time of the database's server when compute_nodes was read.
	At time.Time `json:"at"`
	// Full: the pass read all live instances; otherwise it read those written since the last
	// pass.
	Full bool `json:"full"`
	// Hosts of the snapshot, and instances that hold something of a host.
	Hosts     int `json:"hosts"`
	Instances int `json:"instances"`
	// Of the Sent hosts, Taken were written, Unchanged were in the cell already,
	// OwnedByAgents belong to an agent, and Refused were not accepted; LeftOut has the
	// reasons.
	Sent          int `json:"sent"`
	Taken         int `json:"taken"`
	Unchanged     int `json:"unchanged"`
	OwnedByAgents int `json:"owned_by_agents"`
	Refused       int `json:"refused"`
	// Outdated hosts of the snapshot are not taken: the cell has an import of newer data. Behind is how much older
	// the data are than those of an earlier step; if it is not 0, the step did nothing.
	Outdated int           `json:"outdated"`
	Behind   time.Duration `json:"behind"`
	// AgentHosts counts the hosts that are left to agents now.
	AgentHosts int `json:"agent_hosts"`
	// Waiting hosts are sent by a later step. Of these, Held have instances that count only
	// from the next pass, and Repeated have the rows that the cell already took.
	Waiting  int `json:"waiting"`
	Held     int `json:"held"`
	Repeated int `json:"repeated"`
	// Missing hosts are held, or were refused for a transient reason, and the cell has taken
	// no state of them yet.
	Missing int `json:"missing"`
	// Gone hosts have no row any more, or none that is a host. They are disabled in the
	// shard, and keep the claims of instances whose rows still exist.
	Gone int `json:"gone"`
	// From the cell's answers, over all hosts that were sent.
	Adopted          int `json:"adopted"`
	Confirmed        int `json:"confirmed"`
	Released         int `json:"released"`
	ClaimedElsewhere int `json:"claimed_elsewhere"`
	// NewerClaimsSkipped counts claims that are newer than the rows of instances that were read; only newer rows may
	// change them.
	NewerClaimsSkipped int `json:"newer_claims_skipped"`
	// Overcommitted counts the (host, class) pairs used beyond capacity, of the hosts that were sent.
	Overcommitted int `json:"overcommitted"`
	// Unclaimed counts the instances that two searches in a row found without a claim;
	// FirstUnclaimed has some of them. Only a Worker's steps set both.
	Unclaimed      int      `json:"unclaimed"`
	FirstUnclaimed []string `json:"first_unclaimed"`
	// LeftOut are the first hosts and instances that cannot be imported; LeftOutBy counts all
	// of them. Rows that are no hosts at all are in the snapshot's own list.
	LeftOut   []LeftOut      `json:"left_out"`
	LeftOutBy map[Reason]int `json:"left_out_by"`
}

// LeftOut is a host or an instance that is not imported.
type LeftOut struct {
	// Instance: it is an instance; otherwise a host.
	Instance bool   `json:"instance"`
	UUID     string `json:"uuid"`
	Host     string `json:"host"`
	Reason   Reason `json:"reason"`
	Detail   string `json:"detail"`
}

// Reason is why a host or an instance is not imported.
type Reason string

// The reasons.
const (
	// NullAmount: vcpus, memory_mb, root_gb or ephemeral_gb of the instance is NULL.
	NullAmount Reason = "null_amount"
	// BadAmount: an amount of the instance is negative or beyond 2^31.
	BadAmount Reason = "bad_amount"
	// BadUUID: the uuid of the instance is invalid.
	BadUUID Reason = "bad_uuid"
	// NoRow: no row of compute_nodes that is a host has the instance's host and node.
	NoRow Reason = "no_compute_node"
	// BadHost: the row of the host has a value that a report cannot carry.
	BadHost Reason = "bad_host"
	// RefusedByCell: the cell did not take the host.
	RefusedByCell Reason = "refused_by_cell"
)

func (r *Report) leave(most int, l LeftOut) {
	if r.LeftOutBy == nil {
		r.LeftOutBy = map[Reason]int{}
	}
	r.LeftOutBy[l.Reason]++
	if len(r.LeftOut) < most {
		r.LeftOut = append(r.LeftOut, l)
	}
}
