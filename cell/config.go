package cell

import (
	"cmp"
	"log/slog"
	"time"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
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
	Telemetry telemetry.Cell
	// Now is the replica's clock; leases go by the store's.
	Now func() time.Time
}

// withDefaults fills in the defaults. It checks only what every caller must set: ranges are checked where the
// configuration is read (internal/config).
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || c.Replica == "" {
		return c, fault.Invalid("name", "the cell and its replica must have names")
	}
	c.ServiceDownTime = cmp.Or(c.ServiceDownTime, 60*time.Second)
	c.HeartbeatEvery = cmp.Or(c.HeartbeatEvery, 10*time.Second)
	c.SnapshotTTL = cmp.Or(c.SnapshotTTL, 2*time.Second)
	c.LeaseScan = cmp.Or(c.LeaseScan, time.Second)
	c.TailEvery = cmp.Or(c.TailEvery, 100*time.Millisecond)
	c.DecisionsKeep = cmp.Or(c.DecisionsKeep, 24*time.Hour)
	c.GateSettle = cmp.Or(c.GateSettle, 60*time.Second)
	c.VerifyMode = cmp.Or(c.VerifyMode, agents.VerifyAsync)
	c.VerifyWait = cmp.Or(c.VerifyWait, agents.MaxVerifyWait)
	c.ReconcileInterval = cmp.Or(c.ReconcileInterval, time.Minute)
	c.ReconcileGrace = cmp.Or(c.ReconcileGrace, 10*time.Minute)
	c.ReconcileRelease = cmp.Or(c.ReconcileRelease, shard.MaxClaimTTL)
	c.MaxBatch = cmp.Or(c.MaxBatch, 256)
	c.MaxQueue = cmp.Or(c.MaxQueue, 8192)
	c.MaxHosts = cmp.Or(c.MaxHosts, 50_000)
	c.MaxHostsMiB = cmp.Or(c.MaxHostsMiB, 1024)
	c.MaxAgentHosts = cmp.Or(c.MaxAgentHosts, 1024)
	c.MaxAgentHostsMiB = cmp.Or(c.MaxAgentHostsMiB, 64)
	c.MaxDecisions = cmp.Or(c.MaxDecisions, 100_000)
	c.ColdHosts = cmp.Or(c.ColdHosts, replica.ColdHosts)
	c.GateAgentVersion = cmp.Or(c.GateAgentVersion, 1)
	if len(c.GateClasses) == 0 {
		c.GateClasses = []string{"VCPU", "MEMORY_MB", "DISK_GB"}
	}
	return c, nil
}
