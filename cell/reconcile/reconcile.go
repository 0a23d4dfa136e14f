package reconcile

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/cell/agents"
	"cellgate/cell/replica"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

const (
	// maxFindings bounds the open findings that are listed, maxRepaired the repaired ones that are
	// remembered.
	maxFindings, maxRepaired = 1000, 256
	// maxRepairs bounds the repairs in one round, of claims and of hosts each.
	maxRepairs = 64
	// maxMovedIn are the moves from other cells that are listed.
	maxMovedIn = 10_000
)

// Reconciler periodically compares the shard, this replica's table, and the reports of the hosts with a
// stream to this replica. A mismatch that lasts longer than the grace is a finding. Every replica finds
// mismatches. Only the replica that the host's agent asks to write its states releases a claim or asks
// the agent. If two replicas do, the second repair changes nothing.
//
//	look: each host: rows × report ─► conditions ─ grace ─► findings ─► repairs
//	      some hosts: an Audit in the shard ─► findings, repairs
type Reconciler struct {
	cfg     Config
	rows    *replica.Rows
	queue   *replica.Queue
	journal *replica.Journal
	agents  *agents.Service
	now     func() time.Time
	// storeNow is approximately store time, in which claims are written.
	storeNow func() time.Time
	log      *slog.Logger
	tel      telemetry.Cell
	auditor  auditor

	mu sync.Mutex
	// open are the mismatches by key, including those within their grace.
	open map[findingKey]*condition
	// repaired are the newest repaired findings, the oldest first.
	repaired []*cellgatev1.Finding
	movedIn  []*cellv1.MovedIn
	// lastRound is when the last complete round began; hosts and compared are its counts. began is when
	// New made the reconciler.
	lastRound, began time.Time
	hosts, compared  int
}

// condition is a mismatch.
type condition struct {
	finding *cellgatev1.Finding
	// since is when the mismatch was first seen; asked is when a repair was last requested, zero for
	// never. repair describes the repair, or why there is none.
	since, asked time.Time
	repair       string
	// needsNoGrace: the mismatch is a finding at once.
	needsNoGrace bool
}

// Config is the part of cell.Config that concerns reconciling; Cell is the cell's name.
type Config struct {
	Cell                     string
	Interval, Grace, Release time.Duration
	ReportOnly               bool
	Now                      func() time.Time
	Log                      *slog.Logger
	Telemetry                telemetry.Cell
}

// New makes a reconciler of what a replica and its agents know.
func New(cfg Config, s *replica.State, agents *agents.Service) *Reconciler {
	r := &Reconciler{
		cfg: cfg, rows: s.Rows, queue: s.Queue, journal: s.Journal, agents: agents,
		now: cfg.Now, storeNow: s.StoreTime.Now, log: cfg.Log, tel: cfg.Telemetry, began: cfg.Now(), open: map[findingKey]*condition{},
	}
	r.auditor.Reconciler = r
	return r
}

// Run compares everything at every interval until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	return replica.Repeat(ctx, r.cfg.Interval, r.log, "the cell's shard, table and hosts could not be compared", r.CompareAll)
}

// round is the result of one round.
type round struct {
	now, storeNow time.Time
	// seen are the mismatches of this round; compared the comparable reports, by host.
	seen     map[findingKey]*cellgatev1.Finding
	compared map[string]*agents.Report
	present  map[string]struct{}
	movedIn  []*cellv1.MovedIn
}

// CompareAll compares everything once, and repairs.
func (r *Reconciler) CompareAll(ctx context.Context) error {
	// A table that is behind must not be compared: the replica may have stood still.
	if err := r.journal.AwaitFresh(ctx); err != nil {
		return err
	}
	rows := r.rows.HostsInService()
	slices.SortFunc(rows, func(a, b *replica.HostRow) int { return cmp.Compare(a.Host.UUID, b.Host.UUID) })
	l := &round{now: r.now(), storeNow: r.storeNow(), seen: map[findingKey]*cellgatev1.Finding{}, compared: map[string]*agents.Report{}, present: map[string]struct{}{}}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.present[row.Host.UUID] = struct{}{}
		r.examineHost(l, row.Host.UUID)
	}
	r.recordRound(l)
	r.repairClaims(ctx, l)
	r.repairHosts(l)
	err := r.auditor.audit(ctx, rows)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastRound, r.hosts, r.compared, r.movedIn = l.now, len(rows), len(l.compared), l.movedIn
	return nil
}

func (r *Reconciler) examineHost(l *round, host string) {
	row := r.rows.Host(host)
	if f := r.agents.OtherIncarnation(row); f != nil {
		l.seen[keyOf(f)] = f
	}
	if f := r.agents.RefusedState(row); f != nil {
		l.seen[keyOf(f)] = f
	}
	rep := r.agents.ComparableReport(row)
	var ids []string
	var instances map[string]*agentv1.Instance
	if rep != nil {
		ids, instances = agents.InstancesOf(rep)
		l.compared[host] = rep
	}
	v := r.rows.ViewOfHost(host, ids)
	for _, f := range CompareHost(v, instances) {
		l.seen[keyOf(f)] = f
	}
	if rep != nil && len(rep.Gone) > 0 {
		r.agents.Reports.KeepGone(host, rep, func(id string) bool { return len(v.Of[id]) > 0 })
	}
	for _, c := range v.Claims {
		if c.MovesCell != "" && c.MovesCell != r.cfg.Cell && c.State == shard.Confirmed && c.Seen && c.TransferredFrom == "" &&
			len(l.movedIn) < maxMovedIn && l.storeNow.Sub(c.UpdatedAt) >= r.cfg.Grace {
			l.movedIn = append(l.movedIn, &cellv1.MovedIn{
				ClaimId: c.ClaimID, ConsumerUuid: c.ConsumerUUID, HostUuid: c.HostUUID, ServiceHost: c.ServiceHost,
				FromCell: c.MovesCell, FromClaimId: c.Moves, Since: timestamppb.New(c.UpdatedAt),
			})
		}
	}
}

// recordRound records a round. A mismatch that the round did not see is resolved. While the host is in service,
// two kinds stay: differences of usage, until an audit resolves them, and mismatches that only a report shows,
// while there is no comparable report and their claim is live.
func (r *Reconciler) recordRound(l *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, c := range r.open {
		_, present := l.present[key.host]
		switch f, seen := l.seen[key]; {
		case seen:
			c.finding = f
		case present && key.kind == cellgatev1.Finding_USAGE_DIFFERS:
		case present && key.fromReports() && l.compared[key.host] == nil && (key.claim == "" || r.rows.Claim(key.claim) != nil):
		default:
			if !c.asked.IsZero() {
				r.rememberLocked(c, l.now)
			}
			delete(r.open, key)
		}
	}
	for key, f := range l.seen {
		if r.open[key] != nil {
			continue
		}
		r.open[key] = &condition{finding: f, since: l.now}
		if since := f.GetSince(); since != nil {
			r.open[key].since, r.open[key].needsNoGrace = since.AsTime(), true
		}
	}
}

// isFindingLocked reports whether a condition is a finding.
func (r *Reconciler) isFindingLocked(c *condition, now time.Time) bool {
	return c.needsNoGrace || now.Sub(c.since) >= r.cfg.Grace
}

// rememberLocked keeps a resolved finding.
func (r *Reconciler) rememberLocked(c *condition, now time.Time) {
	f := r.shownLocked(c)
	f.RepairedAt = timestamppb.New(now)
	if r.repaired = append(r.repaired, f); len(r.repaired) > maxRepaired {
		r.repaired = slices.Delete(r.repaired, 0, len(r.repaired)-maxRepaired)
	}
}

func (r *Reconciler) shownLocked(c *condition) *cellgatev1.Finding {
	f := proto.CloneOf(c.finding)
	f.Cell, f.Since, f.Repair = r.cfg.Cell, timestamppb.New(c.since), c.repair
	return f
}

// openFindings returns the open findings of a kind, by host and claim.
func (r *Reconciler) openFindings(kind cellgatev1.Finding_Kind, now time.Time) []findingKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []findingKey
	for key, c := range r.open {
		if key.kind == kind && r.isFindingLocked(c, now) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b findingKey) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.claim, b.claim), cmp.Compare(a.instance, b.instance))
	})
	return keys
}

// noteRepair records what was done about a condition, or why nothing was done.
func (r *Reconciler) noteRepair(key findingKey, asked time.Time, repair string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.open[key]; c != nil {
		c.repair = repair
		if !asked.IsZero() {
			c.asked = asked
		}
	}
}

// noteRepaired records that a condition was repaired.
func (r *Reconciler) noteRepaired(key findingKey, now time.Time, repair string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.open[key]; c != nil {
		c.repair = repair
		r.rememberLocked(c, now)
		delete(r.open, key)
	}
}

// Reading returns the open findings by kind, the number of compared hosts, and the time since the last
// complete round, or since New when there was none.
func (r *Reconciler) Reading() (by map[string]int, compared int, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by = map[string]int{}
	for key, c := range r.open {
		if r.isFindingLocked(c, r.now()) {
			by[kindName(key.kind)]++
		}
	}
	last := r.lastRound
	if last.IsZero() {
		last = r.began
	}
	return by, r.compared, r.now().Sub(last)
}
