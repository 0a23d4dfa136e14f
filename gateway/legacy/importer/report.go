package importer

import "time"

// Report is what a step found and did.
type Report struct {
	// At is the time of the database's server when compute_nodes was read.
	At time.Time `json:"at"`
	// Full: all live instances were passed over; else those that were written since the
	// pass before.
	Full bool `json:"full"`
	// Hosts of the snapshot, and instances that hold something of a host.
	Hosts     int `json:"hosts"`
	Instances int `json:"instances"`
	// Of the hosts that were sent: Taken were written, Unchanged were there already,
	// OwnedByAgents are an agent's, Refused were not taken, and LeftOut says why.
	Sent          int `json:"sent"`
	Taken         int `json:"taken"`
	Unchanged     int `json:"unchanged"`
	OwnedByAgents int `json:"owned_by_agents"`
	Refused       int `json:"refused"`
	// Outdated hosts of the snapshot are not taken: the cell has an import of newer data. Behind: the
	// data are older by that than those of a step before, and nothing was done.
	Outdated int           `json:"outdated"`
	Behind   time.Duration `json:"behind"`
	// AgentHosts are the hosts that were left to agents by now.
	AgentHosts int `json:"agent_hosts"`
	// Waiting hosts are to be sent by a later step. Held are those of them that have
	// instances which count from the next pass.
	Waiting int `json:"waiting"`
	Held    int `json:"held"`
	// Missing hosts are held, or were refused for a reason that passes, and the cell has taken
	// nothing of them yet.
	Missing int `json:"missing"`
	// Gone hosts have no row any more, or none that is a host; they are disabled in the
	// shard, and keep the claims of instances whose rows are still there.
	Gone int `json:"gone"`
	// As the cell answered, over all hosts that were sent.
	Adopted          int `json:"adopted"`
	Confirmed        int `json:"confirmed"`
	Released         int `json:"released"`
	ClaimedElsewhere int `json:"claimed_elsewhere"`
	// NewerClaimsSkipped are claims that are newer than the rows of instances that were read: newer rows decide.
	NewerClaimsSkipped int `json:"newer_claims_skipped"`
	// Overcommitted are (host, class) used beyond capacity, of the hosts that were sent.
	Overcommitted int `json:"overcommitted"`
	// Unclaimed is how many instances two searches have found without a claim, FirstUnclaimed
	// some of them; of a Worker's steps.
	Unclaimed      int      `json:"unclaimed"`
	FirstUnclaimed []string `json:"first_unclaimed"`
	// LeftOut are the first hosts and instances that cannot be imported; LeftOutBy
	// counts all of them. Rows that are no hosts at all are in the snapshot's own list.
	LeftOut   []LeftOut      `json:"left_out"`
	LeftOutBy map[Reason]int `json:"left_out_by"`
}

// LeftOut is a host or an instance that is not imported.
type LeftOut struct {
	// Instance, else a host.
	Instance bool   `json:"instance"`
	UUID     string `json:"uuid"`
	Host     string `json:"host"`
	Reason   Reason `json:"reason"`
	Detail   string `json:"detail"`
}

// Reason says why a host or an instance is not imported.
type Reason string

// The reasons.
const (
	// NullAmount: vcpus, memory_mb, root_gb or ephemeral_gb of the instance is NULL.
	NullAmount Reason = "null_amount"
	// BadAmount: an amount of the instance is negative or beyond 2^31.
	BadAmount Reason = "bad_amount"
	// BadUUID: the uuid of the instance is none.
	BadUUID Reason = "bad_uuid"
	// NoRow: no compute_nodes row that is a host has the instance's host and node.
	NoRow Reason = "no_compute_node"
	// BadHost: the row of the host has what a report cannot say.
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
