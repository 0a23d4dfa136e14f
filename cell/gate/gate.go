package gate

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// KeepReports is how long a gateway's report counts.
	KeepReports = 15 * time.Second
	// ImportLease is how long a gateway may import after the cell's answer.
	ImportLease = 5 * time.Second
	// importPatience is how long a gateway may import without having imported all rows, if another one asks.
	importPatience = 2 * time.Minute
)

// Keeper is what a replica knows of the cell's upgrade: gateways' reports, and which gateway imports.
// Everything that must survive a restart is in the gate's row.
type Keeper struct {
	Rules Rules
	Now   func() time.Time

	mu       sync.Mutex
	gateways map[string]*gatewayReport
	// importer is the gateway that may import until the time in until. Its newest full import is from imported, at the
	// earliest from the begin of its lease.
	importer    string
	until       time.Time
	imported    time.Time
	Comparisons hostComparisons
	// judgement is the newest judgement, for metrics.
	judgement Judgement

	// News has one element when a report arrived.
	News chan struct{}

	// Judging is a semaphore: of two concurrent judgements one would only conflict with the other.
	Judging chan struct{}
}

// gatewayReport is the last report of a gateway; revision is of its services.
type gatewayReport struct {
	Report
	revision uint64
	sent     bool
}

// NewKeeper makes a keeper without reports.
func NewKeeper(rules Rules, now func() time.Time) *Keeper {
	return &Keeper{Rules: rules, Now: now, gateways: map[string]*gatewayReport{}, Judging: make(chan struct{}, 1), News: make(chan struct{}, 1)}
}

// AddReport records a report. known is false if the report refers to a revision of the gateway's
// services that this replica does not have; then the report is ignored.
func (k *Keeper) AddReport(r Report, revision uint64, unchanged bool) (known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	g := k.gateways[r.Gateway]
	if g == nil {
		g = &gatewayReport{}
	}
	switch {
	case r.unreadable != "":
		r.Services = g.Services
	case unchanged && (!g.sent || g.revision != revision):
		return false
	case unchanged:
		r.Services = g.Services
	default:
		g.revision, g.sent = revision, true
	}
	r.received = k.Now()
	g.Report = r
	k.gateways[r.Gateway] = g
	select {
	case k.News <- struct{}{}:
	default: // the last element is not read yet
	}
	return true
}

// forget drops reports that are older than KeepReports. The caller holds mu.
func (k *Keeper) forget() {
	for name, g := range k.gateways {
		if k.Now().Sub(g.received) > KeepReports {
			delete(k.gateways, name)
		}
	}
}

// IsImporter reports whether a gateway is the one that imports.
func (k *Keeper) IsImporter(gateway string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.importer == gateway && k.Now().Before(k.until)
}

// Evidence returns what is known at now, a moment of store time.
func (k *Keeper) Evidence(now time.Time, node func(string) Registration) Evidence {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	e := Evidence{now: now, node: node}
	for _, g := range k.gateways {
		e.reports = append(e.reports, g.Report)
	}
	return e
}

// LendImport reports whether a gateway may import for ImportLease. age is how old the rows are that it has fully
// imported; nil for none. One gateway may import at a time: it keeps the lease as long as it asks, unless its imports
// fail and another one asks.
func (k *Keeper) LendImport(gateway string, age *durationpb.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if k.importer != gateway || !now.Before(k.until) {
		if now.Before(k.until) && now.Sub(k.imported) <= importPatience {
			return false
		}
		k.imported = now
	}
	if at := now.Add(-age.AsDuration()); age != nil && at.After(k.imported) {
		k.imported = at
	}
	k.importer, k.until = gateway, now.Add(ImportLease)
	return true
}

// NoteJudgement keeps the newest judgement for metrics.
func (k *Keeper) NoteJudgement(v Judgement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.judgement = v
}

// IsAsWanted reports whether a gate's row already matches want.
func IsAsWanted(g *shard.Gate, want *shard.MoveGate) bool {
	return g != nil && g.State == want.State && g.Reason == want.Reason && g.Pin == want.Pin && g.PinReason == want.PinReason &&
		g.HeldSince.Equal(want.HeldSince) && g.HeldUntil.Equal(want.HeldUntil) && g.Falls == want.Falls && !want.RowsAt.After(g.RowsAt)
}

// MaxLag is how much older a gateway's rows may be than another gateway's. Nova raises a
// service_down_time that is too short to 2.5 heartbeat intervals. So half of it is longer than the lag
// of any up-to-date copy of Nova's database.
func (k *Keeper) MaxLag() time.Duration { return k.Rules.DownTime / 2 }

// lag is how much older the gateway's rows are than the newest rows of any gateway; 0 if unknown. The
// caller holds mu.
func (k *Keeper) lag(g *gatewayReport) (lag time.Duration) {
	if g.readTo.IsZero() {
		return 0
	}
	for _, other := range k.gateways {
		lag = max(lag, other.readTo.Sub(g.readTo))
	}
	return lag
}

// readersMessage lists the gateways whose reports count, the one furthest behind first.
func (k *Keeper) readersMessage() []*cellgatev1.GateReader {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	now := k.Now()
	var list []*cellgatev1.GateReader
	for _, g := range k.gateways {
		m := &cellgatev1.GateReader{Gateway: g.displayName(), Unreadable: g.unreadable, Imports: g.Gateway == k.importer && now.Before(k.until), RequiredVersion: proto.Int32(g.required)}
		if g.downTime > 0 {
			m.ServiceDownTime = durationpb.New(g.downTime)
		}
		if !g.readTo.IsZero() && g.unreadable == "" {
			m.ReadTo, m.Lag = timestamppb.New(g.readTo), durationpb.New(k.lag(g))
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *cellgatev1.GateReader) int {
		return cmp.Or(cmp.Compare(b.GetLag().AsDuration(), a.GetLag().AsDuration()), cmp.Compare(a.GetGateway(), b.GetGateway()))
	})
	return list
}

// Reading is what metrics show of the gate: the number of hosts that are not new, and the largest lag
// of a gateway's rows behind the newest.
type Reading struct {
	Lagging int
	Lag     time.Duration
}

// Reading gives what metrics show of the gate.
func (k *Keeper) Reading() (r Reading) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	for _, g := range k.gateways {
		if g.unreadable == "" {
			r.Lag = max(r.Lag, k.lag(g))
		}
	}
	r.Lagging = k.judgement.laggingHosts
	return r
}

// IsRead reports whether a gateway whose report counts reads Nova's tables.
func (k *Keeper) IsRead() bool { return len(k.ReadableReports()) > 0 }

// HasGateways reports whether a gateway's report counts.
func (k *Keeper) HasGateways() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	return len(k.gateways) > 0
}

// StatusOfNewHost is the status of a host that the cell did not know before an agent reported it. It
// counts until reports bring another status (StatusChanges). It cannot wait for the next report:
// requests choose an empty host first.
func (k *Keeper) StatusOfNewHost(uuid string) serviceStatus {
	hasGateways := k.HasGateways() // first: a report that comes in between is readable
	reports := k.ReadableReports()
	named := false
	for _, r := range reports {
		for i := range r.Services {
			if slices.Contains(r.Services[i].named(), uuid) {
				return serviceStatus{}
			}
			named = named || len(r.Services[i].named()) > 0
		}
	}
	switch {
	case named:
		return serviceStatus{shard.ConditionDisabled, UnknownToNova}
	case len(reports) == 0 && hasGateways:
		return serviceStatus{shard.ConditionDisabled, UnreadableToNova}
	}
	return serviceStatus{}
}

// ReadableReports returns the reports with services. Gateways that cannot read Nova's tables report
// none.
func (k *Keeper) ReadableReports() []Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forget()
	var reports []Report
	for _, g := range k.gateways {
		if g.unreadable == "" {
			reports = append(reports, g.Report)
		}
	}
	return reports
}
