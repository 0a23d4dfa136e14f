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
	// maxFindings that stand are listed, maxRepaired that were put right are remembered.
	maxFindings, maxRepaired = 1000, 256
	// maxRepairs are made in one look, of claims and of hosts each.
	maxRepairs = 64
	// maxMovedIn are the moves from other cells that are listed.
	maxMovedIn = 10_000
)

// Reconciler periodically compares the shard, this replica's table and the reports of the
// hosts with a stream to it. What disagrees for longer than the grace is a finding. Every
// replica finds; only the replica that the host's agent asks to write its states releases a
// claim or asks the agent. Nothing depends on that: each repair is an operation that does
// nothing the second time.
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
	log     *slog.Logger
	tel     *telemetry.Cell
	auditor auditor

	mu sync.Mutex
	// open are what disagrees, by key; those within their grace too.
	open map[findingKey]*condition
	// repaired are the newest of those put right, the oldest first.
	repaired []*cellgatev1.Finding
	movedIn  []*cellv1.MovedIn
	// looked is when the last whole look ended, by hosts and compared as it saw them.
	looked          time.Time
	hosts, compared int
}

// condition is something that disagrees.
type condition struct {
	finding *cellgatev1.Finding
	// since is when it was seen first; asked when something was last done about it, zero
	// for never. repair says what, or why nothing is.
	since, asked time.Time
	repair       string
	// needsNoGrace: it needs no grace.
	needsNoGrace bool
}

// Config is what cell.Config says of reconciling; Cell is the cell's name.
type Config struct {
	Cell                     string
	Interval, Grace, Release time.Duration
	ReportOnly               bool
	Now                      func() time.Time
	Log                      *slog.Logger
	Telemetry                *telemetry.Cell
}

// New makes a reconciler of what a replica and its agents know.
func New(cfg Config, s *replica.State, agents *agents.Service) *Reconciler {
	r := &Reconciler{
		cfg: cfg, rows: s.Rows, queue: s.Queue, journal: s.Journal, agents: agents,
		now: cfg.Now, log: cfg.Log, tel: cfg.Telemetry, open: map[findingKey]*condition{},
	}
	r.auditor.Reconciler = r
	return r
}

// Run compares everything at every interval until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error {
	return replica.Repeat(ctx, r.cfg.Interval, r.log, "the cell's shard, table and hosts could not be compared", r.CompareAll)
}

// lookResult is one look: what it saw of each host that has something to repair.
type lookResult struct {
	now time.Time
	// seen are the conditions of this look; compared the reports that could be compared.
	seen     map[findingKey]*cellgatev1.Finding
	compared map[string]*agents.Report
	present  map[string]struct{}
	movedIn  []*cellv1.MovedIn
}

// CompareAll compares everything once, and repairs.
func (r *Reconciler) CompareAll(ctx context.Context) error {
	// Not from a table that is behind: the replica may have stood still.
	if err := r.journal.AwaitFresh(ctx); err != nil {
		return err
	}
	rows := r.rows.HostsInService()
	slices.SortFunc(rows, func(a, b *replica.HostRow) int { return cmp.Compare(a.Host.UUID, b.Host.UUID) })
	l := &lookResult{now: r.now(), seen: map[findingKey]*cellgatev1.Finding{}, compared: map[string]*agents.Report{}, present: map[string]struct{}{}}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.present[row.Host.UUID] = struct{}{}
		r.lookAt(l, row.Host.UUID)
	}
	r.noteLook(l)
	r.repairClaims(ctx, l)
	r.repairHosts(l)
	err := r.auditor.audit(ctx, rows)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looked, r.hosts, r.compared, r.movedIn = l.now, len(rows), len(l.compared), l.movedIn
	return nil
}

func (r *Reconciler) lookAt(l *lookResult, host string) {
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
			len(l.movedIn) < maxMovedIn && l.now.Sub(c.UpdatedAt) >= r.cfg.Grace {
			l.movedIn = append(l.movedIn, &cellv1.MovedIn{
				ClaimId: c.ClaimID, ConsumerUuid: c.ConsumerUUID, HostUuid: c.HostUUID, ServiceHost: c.ServiceHost,
				FromCell: c.MovesCell, FromClaimId: c.Moves, Since: timestamppb.New(c.UpdatedAt),
			})
		}
	}
}

// noteLook takes in what a look saw. What it did not see any more is gone; what only a
// report shows stays while there is none to compare, and its claim lives.
func (r *Reconciler) noteLook(l *lookResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, c := range r.open {
		switch f, seen := l.seen[key]; {
		case seen:
			c.finding = f
		case key.kind == cellgatev1.Finding_USAGE_DIFFERS:
			if _, there := l.present[key.host]; !there {
				delete(r.open, key)
			}
		case key.fromReports() && l.compared[key.host] == nil && (key.claim == "" || r.rows.Claim(key.claim) != nil):
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

// standsLocked reports whether a condition is a finding.
func (r *Reconciler) standsLocked(c *condition, now time.Time) bool {
	return c.needsNoGrace || now.Sub(c.since) >= r.cfg.Grace
}

// rememberLocked keeps a finding that is right again.
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

// standing gives the conditions of a kind that are findings, by host and claim.
func (r *Reconciler) standing(kind cellgatev1.Finding_Kind, now time.Time) []findingKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []findingKey
	for key, c := range r.open {
		if key.kind == kind && r.standsLocked(c, now) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b findingKey) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.claim, b.claim), cmp.Compare(a.instance, b.instance))
	})
	return keys
}

// noteRepair writes down what was done about a condition, or why nothing is.
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

// noteRepaired notes that a condition was put right.
func (r *Reconciler) noteRepaired(key findingKey, now time.Time, repair string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.open[key]; c != nil {
		c.repair = repair
		r.rememberLocked(c, now)
		delete(r.open, key)
	}
}

// Reading gives the findings that stand by kind, the hosts compared, and the time since
// the last whole look, or since the start of the process's clock for none.
func (r *Reconciler) Reading() (by map[string]int, compared int, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by = map[string]int{}
	for key, c := range r.open {
		if r.standsLocked(c, r.now()) {
			by[kindName(key.kind)]++
		}
	}
	if !r.looked.IsZero() {
		age = r.now().Sub(r.looked)
	}
	return by, r.compared, age
}
