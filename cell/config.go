package cell

import (
	"fmt"
	"log/slog"
	"time"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/schedule"
	"cellgate/shard"
)

// Config says which cell this is and how it behaves. Zero durations and counts
// mean the default in brackets.
type Config struct {
	// Name and UUID of the cell; Replica names this process among the cell's.
	Name    string
	UUID    string
	Replica string
	// ServiceDownTime is how long a host may be silent before it counts as down (60 s).
	ServiceDownTime time.Duration
	// HeartbeatEvery is the heartbeat interval that agents are asked for (10 s).
	HeartbeatEvery time.Duration
	// SnapshotTTL is how long a version named in a proposal can be queried (2 s).
	SnapshotTTL time.Duration
	// LeaseScan is how often the replica scans for expired leases (1 s).
	LeaseScan time.Duration
	// TailEvery is how often the journal is read for other replicas' entries (100 ms).
	TailEvery time.Duration
	// DecisionsKeep is how long decisions are kept (24 h), and MaxDecisions how many (100,000). The
	// limit that is reached first applies.
	DecisionsKeep time.Duration
	MaxDecisions  int
	// MaxBatch is how many operations one transaction takes at most (256).
	MaxBatch int
	// MaxQueue is how many operations of a kind wait at most (8,192).
	MaxQueue int
	// MaxHosts (50,000) and MaxHostsMiB (1,024) bound the hosts of the cell, by number and by the
	// approximate size of their rows. MaxAgentHosts (1,024) and MaxAgentHostsMiB (64) bound the hosts
	// of one agent's credential. Imported hosts count, but are never refused.
	MaxHosts, MaxHostsMiB           int
	MaxAgentHosts, MaxAgentHostsMiB int
	// ColdHosts is how many hosts at most answer a query while the table is being loaded (1,000).
	ColdHosts int
	// GateSettle is how long all services and hosts must be new before the gate moves on (60 s). It
	// doubles with each fall-back, up to 16 times. GateClasses are the classes that a host's inventory
	// must have (VCPU, MEMORY_MB, DISK_GB). GateAgentVersion is the least version of a host's agent
	// (1).
	GateSettle       time.Duration
	GateClasses      []string
	GateAgentVersion int
	// VerifyMode is the effect of hosts' verdicts on claims (async). VerifyWait is how long sync waits
	// for verdicts (200 ms, also the maximum).
	VerifyMode agents.VerifyMode
	VerifyWait time.Duration
	// ReconcileInterval is how often the shard, the table and the hosts' reports are compared (60 s).
	// ReconcileGrace is how long a mismatch must last before it is a finding (10 m). ReconcileRelease
	// is how long an instance must be missing before its claim is released (1 h, the longest lease: a
	// move of the instance has ended by then). With ReconcileReportOnly nothing is repaired.
	ReconcileInterval   time.Duration
	ReconcileGrace      time.Duration
	ReconcileRelease    time.Duration
	ReconcileReportOnly bool
	// Version is the version of the binary, which operators compare; it may be empty.
	Version string
}

// Deps are what a cell works with. All but Store may be nil.
type Deps struct {
	Store shard.Store
	// Synchronizer brings the states of hosts to this replica; nil means the store's own.
	Synchronizer shard.Synchronizer
	Log          *slog.Logger
	// The server that the cell is registered with has the options of Telemetry.
	Telemetry *telemetry.Cell
	// Now is the replica's clock; leases go by the store's.
	Now func() time.Time
}

// withDefaults fills in the defaults and names every field that is wrong.
func (c Config) withDefaults() (Config, error) {
	var bad []fault.Field
	if c.Name == "" {
		bad = append(bad, fault.Field{Path: "name", Problem: "must not be empty"})
	}
	if _, err := schedule.ParseID(c.UUID); err != nil {
		bad = append(bad, fault.Field{Path: "uuid", Problem: err.Error()})
	}
	if c.Replica == "" {
		bad = append(bad, fault.Field{Path: "replica", Problem: "must not be empty"})
	}
	durations := []struct {
		path  string
		value *time.Duration
		unset time.Duration
	}{
		{"service_down_time", &c.ServiceDownTime, 60 * time.Second},
		{"heartbeat_every", &c.HeartbeatEvery, 10 * time.Second},
		{"snapshot_ttl", &c.SnapshotTTL, 2 * time.Second},
		{"lease_scan", &c.LeaseScan, time.Second},
		{"tail_every", &c.TailEvery, 100 * time.Millisecond},
		{"decisions_keep", &c.DecisionsKeep, 24 * time.Hour},
		{"gate_settle", &c.GateSettle, 60 * time.Second},
		{"verify_wait", &c.VerifyWait, agents.MaxVerifyWait},
		{"reconcile_interval", &c.ReconcileInterval, time.Minute},
		{"reconcile_grace", &c.ReconcileGrace, 10 * time.Minute},
		{"reconcile_release", &c.ReconcileRelease, shard.MaxClaimTTL},
	}
	for _, d := range durations {
		if *d.value < 0 {
			bad = append(bad, fault.Field{Path: d.path, Problem: "must not be negative"})
		}
		if *d.value == 0 {
			*d.value = d.unset
		}
	}
	counts := []struct {
		path  string
		value *int
		unset int
	}{
		{"max_batch", &c.MaxBatch, 256},
		{"max_queue", &c.MaxQueue, 8192},
		{"max_hosts", &c.MaxHosts, 50_000},
		{"max_hosts_mib", &c.MaxHostsMiB, 1024},
		{"max_agent_hosts", &c.MaxAgentHosts, 1024},
		{"max_agent_hosts_mib", &c.MaxAgentHostsMiB, 64},
		{"max_decisions", &c.MaxDecisions, 100_000},
		{"cold_hosts", &c.ColdHosts, replica.ColdHosts},
		{"gate_agent_version", &c.GateAgentVersion, 1},
	}
	for _, n := range counts {
		if *n.value < 0 {
			bad = append(bad, fault.Field{Path: n.path, Problem: "must not be negative"})
		}
		if *n.value == 0 {
			*n.value = n.unset
		}
	}
	if len(c.GateClasses) == 0 {
		c.GateClasses = []string{"VCPU", "MEMORY_MB", "DISK_GB"}
	}
	switch c.VerifyMode {
	case "":
		c.VerifyMode = agents.VerifyAsync
	case agents.VerifyAsync, agents.VerifySync, agents.VerifyShadow:
	default:
		bad = append(bad, fault.Field{Path: "verify_mode", Problem: fmt.Sprintf("is %q, must be %s, %s or %s", c.VerifyMode, agents.VerifyAsync, agents.VerifySync, agents.VerifyShadow)})
	}
	if c.VerifyWait > agents.MaxVerifyWait {
		bad = append(bad, fault.Field{Path: "verify_wait", Problem: fmt.Sprintf("must be at most %v", agents.MaxVerifyWait)})
	}
	if c.MaxBatch == 1 {
		bad = append(bad, fault.Field{Path: "max_batch", Problem: "must be at least 2: registrations go beside claims"})
	}
	if c.ReconcileRelease < c.ReconcileGrace {
		bad = append(bad, fault.Field{Path: "reconcile_release", Problem: "must not be less than reconcile_grace"})
	}
	if c.HeartbeatEvery >= c.ServiceDownTime {
		bad = append(bad, fault.Field{Path: "heartbeat_every", Problem: "must be less than service_down_time"})
	}
	return c, fault.InvalidFields(bad)
}
