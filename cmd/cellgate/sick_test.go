package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// sickPlan is the length of each phase, and how many selections per second are sent, whether
// earlier ones are answered or not.
type sickPlan struct {
	phase    time.Duration
	rate     int
	hosts    int
	measures bool
	// budget is a proposal's time budget. In a test it is long enough for a busy machine.
	budget time.Duration
}

// sickPlanOf returns the plan. With CELLGATE_SICK=1 (`make sick`) the run measures, otherwise it
// checks what must hold.
func sickPlanOf() sickPlan {
	if os.Getenv("CELLGATE_SICK") != "" {
		return sickPlan{phase: 10 * time.Second, rate: 100, hosts: 1000, measures: true, budget: 250 * time.Millisecond}
	}
	return sickPlan{phase: time.Second, rate: 20, hosts: 50, budget: 5 * time.Second}
}

// TestI7_StoppedAndFrozenCellsOfRealProcesses sends selections at a steady rate. One of three cell
// processes is stopped and restarted, then frozen (SIGSTOP) and thawed. Every selection is
// answered. Without the sick cell the answer is partial and names it. The cell is used again soon
// after its return. Answer times are printed by phase.
func TestI7_StoppedAndFrozenCellsOfRealProcesses(t *testing.T) {
	testlong.Only(t, "the I7 tests of gateway")
	plan := sickPlanOf()
	s := startSystem(t, 3, plan.hosts, func(kind string) []string {
		if kind == "gateway" {
			return []string{"--propose-budget", plan.budget.String()}
		}
		return nil
	})
	sick := s.cells[2]
	// This cleanup runs before the system is killed: a frozen process must be thawed.
	t.Cleanup(func() {
		if sick.cmd != nil {
			_ = sick.cmd.Process.Signal(syscall.SIGCONT)
		}
	})
	l := &sickLoad{t: t, api: cellgatev1.NewSchedulerClient(s.conn), claims: cellgatev1.NewClaimsClient(s.conn), measures: plan.measures}
	l.openDisk()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(ctx, plan.rate) }()

	freeze := func(sig syscall.Signal) func() {
		return func() {
			if err := sick.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}
	}
	var marks []sickMark
	step := func(name string, healthy bool, do func()) {
		m := sickMark{name: name, at: time.Now(), healthy: healthy}
		do()
		s.await(testwait.Limit, name+": the gateway knows", func(context.Context) (ok bool, why string) {
			m.known, ok = l.knownFrom(m)
			return ok, "every answer is as before"
		})
		marks = append(marks, m)
		hold(ctx, plan.phase)
	}
	hold(ctx, time.Second) // connections and caches
	step("before", true, func() {})
	step("stopped (SIGTERM)", false, func() {
		if err := sick.signal(syscall.SIGTERM); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	step("started again", true, sick.start)
	step("killed (SIGKILL)", false, sick.kill)
	step("started again", true, sick.start)
	step("frozen (SIGSTOP)", false, freeze(syscall.SIGSTOP))
	step("thawed (SIGCONT)", true, freeze(syscall.SIGCONT))
	cancel()
	<-ended

	l.report(marks, time.Now())
}

// sickMark is the beginning of a phase.
type sickMark struct {
	name    string
	at      time.Time
	healthy bool // all cells run
	// known is when the first answer showed the change: partial because of an open breaker, or not
	// partial any more.
	known time.Time
}

// knownFrom gives a mark's known.
func (l *sickLoad) knownFrom(m sickMark) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		open := strings.Contains(a.named, "cell3: breaker open since ")
		if a.sent.After(m.at) && a.err == nil && !a.restricted && a.partial != m.healthy && open != m.healthy {
			return a.sent.Add(a.took), true
		}
	}
	return time.Time{}, false
}

// sickAnswer is one selection.
type sickAnswer struct {
	sent time.Time
	took time.Duration
	// restricted: the request allows only hosts of the two healthy cells.
	restricted bool
	partial    bool
	named      string // the report of the sick cell, when partial
	in         string // the cell of the selection
	err        error
	// synced is how long a disk write took at the same moment. Every claim is a disk write, and the
	// disk is shared with other processes.
	synced time.Duration
}

// sickLoad sends selections at a fixed rate and releases their claims. Every other selection may
// only go to cell1 or cell2. With each it also writes to the disk, to measure what the machine
// adds.
type sickLoad struct {
	t      *testing.T
	api    cellgatev1.SchedulerClient
	claims cellgatev1.ClaimsClient
	// measures: slow answers are reported, not judged.
	measures bool
	// disk are files on the shards' file system, one per concurrent sync.
	disk chan *os.File

	mu      sync.Mutex
	answers []sickAnswer
}

func (l *sickLoad) run(ctx context.Context, rate int) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			all.Go(func() { l.one(n) })
		}
	}
}

// one selects within 5 s, and releases at once.
func (l *sickLoad) one(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	spec := &cellgatev1.RequestSpec{Flavor: &cellgatev1.Flavor{Vcpus: 1, MemoryMb: 1024, RootGb: 10}, ProjectId: "sick"}
	a := sickAnswer{restricted: n%2 == 0}
	if a.restricted {
		spec.RequestedDestination = &cellgatev1.Destination{Cell: fmt.Sprintf("c0000000-0000-4000-8000-%012d", 1+n/2%2)}
	}
	req := &cellgatev1.SelectDestinationsRequest{
		RequestId: uuid.NewString(), InstanceUuids: []string{uuid.NewString()},
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: spec},
	}
	synced := make(chan time.Duration, 1)
	go func() { synced <- l.sync() }()
	a.sent = time.Now()
	resp, err := l.api.SelectDestinations(ctx, req)
	a.took, a.err, a.partial = time.Since(a.sent), err, resp.GetPartial()
	for _, c := range resp.GetCells() {
		if c.GetOutcome() == cellgatev1.CellOutcome_UNAVAILABLE {
			a.named += c.GetCell() + ": " + c.GetReason() + " "
		}
	}
	if err == nil {
		got := resp.GetDestinations()[0]
		a.in = got.GetSelected().GetCell()
		// If the cell has gone, it keeps the claim until the lease ends.
		_, _ = l.claims.ReleaseClaim(ctx, &cellgatev1.ReleaseClaimRequest{ConsumerUuid: got.GetInstanceUuid(), ClaimId: got.GetSelected().GetClaimId()})
	}
	a.synced = <-synced
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

func (l *sickLoad) openDisk() {
	l.t.Helper()
	l.disk = make(chan *os.File, 16)
	dir := l.t.TempDir()
	for n := range cap(l.disk) {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { _ = f.Close() })
		l.disk <- f
	}
}

// sync writes a little and waits until the disk has it.
func (l *sickLoad) sync() time.Duration {
	f := <-l.disk
	defer func() { l.disk <- f }()
	began := time.Now()
	_, err := f.WriteAt(make([]byte, 512), 0)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		l.t.Error(err)
	}
	return time.Since(began)
}

// report prints the answers by phase, with those before the gateway knew separately. It checks what
// does not depend on the machine's load.
func (l *sickLoad) report(marks []sickMark, end time.Time) {
	t := l.t
	slices.SortFunc(l.answers, func(a, b sickAnswer) int { return a.sent.Compare(b.sent) })
	var text page
	rows := text.table("PHASE", "SENT", "ANSWERED", "PARTIAL", "P50", "P99", "LONGEST", "RESTRICTED: P50", "P99", "LONGEST", "FSYNC: P50", "P99", "LONGEST", "GATEWAY")
	for i, m := range marks {
		until := end
		if i+1 < len(marks) {
			until = marks[i+1].at
		}
		known := "knew after " + m.known.Sub(m.at).Round(10*time.Millisecond).String()
		if i == 0 {
			l.row(rows, m.name, m.at, until, "")
			continue
		}
		l.row(rows, m.name, m.at, m.known, known)
		l.row(rows, "  from then on", m.known, until, "")
		if !m.healthy {
			l.demandPartial(m, until)
		}
	}
	rows.print()
	reasons, unanswered := map[string]int{}, 0
	for _, a := range l.answers {
		if a.err != nil {
			reasons["no answer: "+a.err.Error()]++
			unanswered++
		}
		if a.restricted && a.in == "cell3" {
			t.Error("restricted to another cell, placed in cell3")
		}
		if kind, _, _ := strings.Cut(a.named, " since"); kind != "" {
			reasons[kind]++
		}
	}
	t.Logf("\n%s\n%v", text.String(), reasons)
	// On a busy machine, a healthy cell may occasionally miss its budget.
	if !l.measures && unanswered > len(l.answers)/20 {
		t.Errorf("%d of %d selections were not answered", unanswered, len(l.answers))
	}
	if path := os.Getenv("CELLGATE_SICK_TABLE"); path != "" {
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// demandPartial checks that, from when the gateway knows that the cell is sick, nothing is placed
// there, and every answer that could have used the cell names it.
func (l *sickLoad) demandPartial(m sickMark, until time.Time) {
	n := 0
	for _, a := range l.answers {
		if a.sent.Before(m.known) || a.sent.After(until) || a.restricted || a.err != nil {
			continue
		}
		n++
		if !a.partial || !strings.Contains(a.named, "cell3: breaker open since ") || a.in == "cell3" {
			l.t.Errorf("%s: an answer of %v is in %s, partial %v, %q", m.name, a.sent.Sub(m.at), a.in, a.partial, a.named)
		}
	}
	if n == 0 {
		l.t.Errorf("%s: no answers", m.name)
	}
}

func (l *sickLoad) row(rows *table, name string, from, until time.Time, known string) {
	var all, restricted, synced []time.Duration
	sent, answered, partial := 0, 0, 0
	for _, a := range l.answers {
		if a.sent.Before(from) || !a.sent.Before(until) {
			continue
		}
		sent++
		if a.err != nil {
			continue
		}
		answered++
		synced = append(synced, a.synced)
		if a.partial {
			partial++
		}
		if a.restricted {
			restricted = append(restricted, a.took)
		} else {
			all = append(all, a.took)
		}
	}
	rows.row(name, sent, answered, partial, quantile(all, 0.5), quantile(all, 0.99), quantile(all, 1),
		quantile(restricted, 0.5), quantile(restricted, 0.99), quantile(restricted, 1),
		quantile(synced, 0.5), quantile(synced, 0.99), quantile(synced, 1), known)
}

func quantile(took []time.Duration, q float64) string {
	if len(took) == 0 {
		return ""
	}
	slices.Sort(took)
	at := took[max(0, int(math.Ceil(q*float64(len(took))))-1)]
	return fmt.Sprintf("%.1f ms", float64(at.Microseconds())/1000)
}
