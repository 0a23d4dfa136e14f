package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// upgradePlan is the size of a run.
type upgradePlan struct {
	// kind is the kind of Nova's database server.
	kind        legacytest.Kind
	hosts, rate int
	lifetime    time.Duration
	// filled is the number of 2-VCPU instances on each compute at the start. With 0, some computes
	// have some 1-VCPU instances.
	filled int
	// faults: gateways and cells are stopped and killed during the upgrade; see upgradeFaults.
	faults bool
	// every is the time between the upgrades of two computes. rest is how long each state that was
	// reached is observed.
	every, rest time.Duration
	settle      time.Duration
	// refresh is how often gateways read the tables and report.
	refresh time.Duration
	// down is the silence of an agent after which its host is down, heartbeat the interval of
	// heartbeats. 0 means the cell's default.
	down, heartbeat time.Duration
}

// demonstrates reports whether this is `make demo-upgrade`, which is larger than the test.
func demonstrates() bool { return os.Getenv("CELLGATE_DEMO_UPGRADE") != "" }

func upgradePlanOf(k legacytest.Kind) upgradePlan {
	if demonstrates() {
		return upgradePlan{kind: k, hosts: 200, rate: 20, lifetime: 20 * time.Second, filled: 3, faults: true, every: 50 * time.Millisecond, rest: 8 * time.Second, settle: 5 * time.Second, refresh: 2 * time.Second}
	}
	return upgradePlan{kind: k, hosts: 8, rate: 5, lifetime: 3 * time.Second, every: 50 * time.Millisecond, rest: time.Second, settle: time.Second, refresh: 500 * time.Millisecond, down: 20 * time.Second, heartbeat: 2 * time.Second}
}

// TestI10_RollingUpgradeOfACloud upgrades three cells of a simulated Nova, compute by compute,
// under a steady load through two gateways. It uses real processes and a real MariaDB with Nova's
// schema, and with CELLGATE_LONG also PostgreSQL. Nothing is refused or over-allocated, and every
// answer uses complete tables. Then one compute is rolled back, and only its cell falls back. The
// demonstration (MariaDB only) fills the cells to some 90 %, restarts a gateway and kills a cell.
// It also rolls back a second compute while no gateway runs, so that Nova's rows decide.
func TestI10_RollingUpgradeOfACloud(t *testing.T) {
	t.Parallel() // most of it waits
	if demonstrates() {
		rollingUpgrade(t, upgradePlanOf(legacytest.MariaDB))
		return
	}
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		if k == legacytest.PostgreSQL && os.Getenv("CELLGATE_LONG") == "" {
			t.Skip("CELLGATE_LONG=1 runs it on PostgreSQL, too")
		}
		t.Parallel()
		rollingUpgrade(t, upgradePlanOf(k))
	})
}

func rollingUpgrade(t *testing.T, plan upgradePlan) {
	u := startUpgrade(t, plan)
	faults := &upgradeFaults{u: u}
	l := newUpgradeLoad(t, u.cells, u.conns, plan.lifetime)
	faults.load = l
	ctx, cancel := context.WithCancel(t.Context())
	var all, watched sync.WaitGroup
	watching, stop := context.WithCancel(t.Context())
	// Heartbeats continue to the end: a deleted row ends a claim only after a newer heartbeat was
	// read.
	watched.Go(func() { u.beat(watching) })
	watched.Go(func() { u.watch(watching, l) })

	for _, conn := range u.conns {
		u.awaitAt(conn, "every cell is LEGACY", func(states map[string]*cellgatev1.Gate) bool {
			return count(states, cellgatev1.Gate_LEGACY) == len(u.cells)
		})
		faults.awaitAvailable(conn)
	}
	all.Go(func() { l.run(ctx, plan.rate) })
	for _, c := range u.cells {
		u.awaitPlaced(l, c.name, cellgatev1.CellSource_LEGACY)
	}
	hold(ctx, plan.rest)
	for i, c := range u.cells {
		u.say("%s: computes are upgraded", c.name)
		for n, k := range c.order() {
			if plan.faults && i == 1 {
				switch n {
				case plan.hosts / 4:
					faults.restartGateway(1)
				case plan.hosts / 2:
					faults.killCell(i)
				}
			}
			k.upgrade(u.agents[i])
			hold(ctx, plan.every)
		}
		u.say("%s: all computes are new", c.name)
		u.await(c.name+" is NATIVE", func(states map[string]*cellgatev1.Gate) bool {
			return states[c.name].GetState() == cellgatev1.Gate_NATIVE
		})
		u.awaitPlaced(l, c.name, cellgatev1.CellSource_NATIVE)
		hold(ctx, plan.rest)
	}
	old := u.cells[1].order()[len(u.cells[1].computes)/2]
	u.say("%s: rolled back", old.host)
	began := time.Now()
	old.downgrade()
	u.await(old.cell.name+" fell back", func(states map[string]*cellgatev1.Gate) bool {
		return states[old.cell.name].GetState() == cellgatev1.Gate_LEGACY
	})
	back := time.Since(began)
	u.say("%s fell back after %v", old.cell.name, back.Round(10*time.Millisecond))
	hold(ctx, plan.rest)
	if n := count(u.gates(), cellgatev1.Gate_NATIVE); n != len(u.cells)-1 {
		t.Errorf("%d cells are NATIVE after one compute was rolled back", n)
	}
	if plan.faults {
		faults.rollBackUnseen(u.cells[2])
		hold(ctx, plan.rest)
	}
	cancel()
	all.Wait()
	u.awaitClaims()
	stop()
	watched.Wait()
	u.report(l, back)
}

// upgradeSystem is the simulated Nova, and cells and gateways as processes.
type upgradeSystem struct {
	t       testing.TB
	api     *legacytest.Database
	cells   []*demoCell
	members []*member
	conns   []*grpc.ClientConn // to the gateways
	agents  []*grpc.ClientConn // to each cell's replica
	began   time.Time
	// configs are the gateways' files.
	configs []string

	mu    sync.Mutex
	lines []upgradeLine
	shown bool
}

// upgradeLine is a line of the table.
type upgradeLine struct {
	at        time.Duration
	what      string
	gates     []string
	sent, bad int
	p99       string
	full      float64
}

func startUpgrade(t testing.TB, plan upgradePlan) *upgradeSystem {
	t.Helper()
	server := plan.kind.Shared(t)
	api := legacytest.NewAPI(t, server)
	u := &upgradeSystem{t: t, api: api}
	dir := t.TempDir()
	var cells, tables strings.Builder
	t.Cleanup(func() {
		for _, c := range u.cells {
			for _, k := range c.computes {
				k.mu.Lock()
				k.stopAgent()
				k.mu.Unlock()
			}
		}
		for _, conn := range append(u.conns, u.agents...) {
			_ = conn.Close()
		}
		for _, m := range u.members {
			_ = m.signal(syscall.SIGKILL)
		}
		if t.Failed() {
			for _, m := range u.members {
				t.Log(m.tail())
			}
			if !u.shown {
				t.Log("\n" + u.table())
			}
		}
	})
	for i := range 3 {
		c := newDemoCell(t, server, api, i+1, plan.hosts)
		for n, k := range c.order() {
			for j := range plan.filled {
				k.build(fmt.Sprintf("d%07d-0000-4000-8000-%06d%06d", i+1, n, j), 2, 4096, 20)
			}
			if plan.filled > 0 {
				continue
			}
			for j := range n % 3 {
				k.build(fmt.Sprintf("d%07d-0000-4000-8000-%06d%06d", i+1, n, j), 1, 2048, 10)
			}
		}
		cellAddr := freePort(t)
		u.cells = append(u.cells, c)
		m := &member{t: t, name: c.name, log: filepath.Join(dir, c.name+".log"), args: []string{
			"cell", "--name", c.name, "--uuid", c.uuid, "--grpc", cellAddr, "--data", filepath.Join(dir, c.name),
			"--gate-settle", plan.settle.String(),
		}}
		if plan.down > 0 {
			m.args = append(m.args, "--service-down-time", plan.down.String(), "--heartbeat-every", plan.heartbeat.String())
		}
		u.members = append(u.members, m)
		u.agents = append(u.agents, u.dial(cellAddr))
		fmt.Fprintf(&cells, "    - {name: %s, uuid: %s, replicas: [%q]}\n", c.name, c.uuid, cellAddr)
		fmt.Fprintf(&tables, "    - {cell: %s, database: %q, api: %q, required_version: %d, refresh: %v}\n", c.name, c.db.URL, api.URL, newCompute, plan.refresh)
	}
	for i := range 2 {
		grpcAt, file := freePort(t), filepath.Join(dir, fmt.Sprintf("gateway%d.yaml", i+1))
		text := fmt.Sprintf("gateway:\n  grpc: %q\n  http: %q\n  max_deadline: 5m\n  propose_budget: 5s\n  claim_budget: 8s\n  breaker: {probe_budget: 8s}\n  cells:\n%s  legacy:\n%s", grpcAt, freePort(t), cells.String(), tables.String())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		u.configs = append(u.configs, file)
		m := &member{t: t, name: fmt.Sprintf("gateway%d", i+1), log: filepath.Join(dir, fmt.Sprintf("gateway%d.log", i+1)), args: []string{"gateway", "--config", file}}
		u.members = append(u.members, m)
		u.conns = append(u.conns, u.dial(grpcAt))
	}
	for _, m := range u.members {
		m.start()
	}
	u.began = time.Now()
	return u
}

func (u *upgradeSystem) dial(addr string) *grpc.ClientConn {
	conn, err := rpc.Dial(addr)
	if err != nil {
		u.t.Fatal(err)
	}
	return conn
}

// beat writes the heartbeats of every nova-compute.
func (u *upgradeSystem) beat(ctx context.Context) {
	for ctx.Err() == nil {
		for _, c := range u.cells {
			c.beat()
		}
		hold(ctx, 10*time.Second)
	}
}

// gates returns the gates as the first gateway shows them.
func (u *upgradeSystem) gates() map[string]*cellgatev1.Gate { return u.gatesAt(u.conns[0]) }

func (u *upgradeSystem) gatesAt(conn *grpc.ClientConn) map[string]*cellgatev1.Gate {
	ctx, cancel := context.WithTimeout(u.t.Context(), testwait.Limit)
	defer cancel()
	list, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
	states := map[string]*cellgatev1.Gate{}
	if err != nil {
		return states
	}
	for _, c := range list.GetCells() {
		states[c.GetCell()] = c.GetGate()
	}
	return states
}

func count(states map[string]*cellgatev1.Gate, s cellgatev1.Gate_State) (n int) {
	for _, g := range states {
		if g.GetState() == s {
			n++
		}
	}
	return n
}

// await waits until done accepts the gates.
func (u *upgradeSystem) await(what string, done func(map[string]*cellgatev1.Gate) bool) {
	u.t.Helper()
	u.awaitAt(u.conns[0], what, done)
}

// awaitPlaced waits until an instance was placed in a cell by candidates of a source.
func (u *upgradeSystem) awaitPlaced(l *upgradeLoad, cell string, s cellgatev1.CellSource) {
	u.t.Helper()
	u.await(fmt.Sprintf("an instance is placed in %s, %s", cell, s), func(map[string]*cellgatev1.Gate) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.placed[cell][s] > 0
	})
}

func (u *upgradeSystem) awaitAt(conn *grpc.ClientConn, what string, done func(map[string]*cellgatev1.Gate) bool) {
	u.t.Helper()
	end := time.Now().Add(testwait.Limit)
	for {
		states := u.gatesAt(conn)
		if done(states) {
			return
		}
		if time.Now().After(end) {
			var tails []string
			for _, m := range u.members {
				tails = append(tails, m.tail())
			}
			u.t.Fatalf("%s: not within %v: %v\n%s", what, testwait.Limit, states, strings.Join(tails, "\n"))
		}
		hold(u.t.Context(), 50*time.Millisecond)
	}
}

// awaitClaims waits until the live claims are exactly those of the existing instances, each on its
// host and without a lease: none is lost or left over.
func (u *upgradeSystem) awaitClaims() {
	u.t.Helper()
	want := map[string]string{}
	for _, c := range u.cells {
		for _, k := range c.computes {
			k.mu.Lock()
			for id := range k.instances {
				want[id] = k.uuid + " CONFIRMED"
			}
			k.mu.Unlock()
		}
	}
	last := len(u.members) - 1
	s := &realSystem{t: u.t, conn: u.conns[0], cells: u.members[:last], gateway: u.members[last]}
	s.await(testwait.Limit, "claims are of the instances", func(context.Context) (bool, string) {
		claims, err := s.claims()
		if err != nil {
			return false, err.Error()
		}
		var wrong []string
		for _, c := range claims {
			if got := c.GetHostUuid() + " " + c.GetState().String(); want[c.GetConsumerUuid()] != got {
				wrong = append(wrong, fmt.Sprintf("%s is %s, want %q", c.GetConsumerUuid(), got, want[c.GetConsumerUuid()]))
			}
		}
		return len(claims) == len(want) && len(wrong) == 0, fmt.Sprintf("%d claims, %d instances, %v", len(claims), len(want), wrong)
	})
	u.say("%d instances are left, with a confirmed claim each", len(want))
}

// say adds a line to the table.
func (u *upgradeSystem) say(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lines = append(u.lines, upgradeLine{at: time.Since(u.began), what: fmt.Sprintf(format, args...)})
}

// full returns the fraction of all VCPUs that is in use, and the sum of each cell's maximum.
func (u *upgradeSystem) full() (now, peak float64) {
	for _, c := range u.cells {
		n, p := c.full()
		now, peak = now+n/float64(len(u.cells)), peak+p/float64(len(u.cells))
	}
	return now, peak
}

// watch adds a line whenever a gate is another one.
func (u *upgradeSystem) watch(ctx context.Context, l *upgradeLoad) {
	last := ""
	for ; ctx.Err() == nil; hold(ctx, 100*time.Millisecond) {
		gates := u.gates()
		line := upgradeLine{}
		var reasons []string
		for _, c := range u.cells {
			g := gates[c.name]
			if g.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
				line.gates = append(line.gates, "?")
				continue
			}
			line.gates = append(line.gates, g.GetState().String())
			reasons = append(reasons, c.name+": "+g.GetReason())
		}
		now := strings.Join(line.gates, " ")
		if now == last {
			continue
		}
		last = now
		for i := range line.gates {
			line.gates[i] += fmt.Sprintf(" %d/%d", u.cells[i].upgraded(), len(u.cells[i].computes))
		}
		u.mu.Lock()
		line.at = time.Since(u.began)
		line.sent, line.bad, line.p99 = l.sums()
		line.full, _ = u.full()
		u.lines = append(u.lines, line)
		u.mu.Unlock()
		u.t.Log(line.at.Round(time.Second), strings.Join(reasons, "; "))
	}
}

// table returns the lines so far.
func (u *upgradeSystem) table() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.shown = true
	var text page
	rows := text.table("TIME", "CELL1, NEW COMPUTES", "CELL2", "CELL3", "VCPUS USED", "SENT", "FAILED", "P99", "")
	for _, line := range u.lines {
		at := line.at.Round(100 * time.Millisecond).String()
		if line.gates == nil {
			rows.row(at, "", "", "", "", "", "", "", line.what)
			continue
		}
		rows.row(at, line.gates[0], line.gates[1], line.gates[2], fmt.Sprintf("%.0f %%", 100*line.full), line.sent, line.bad, line.p99, "")
	}
	rows.print()
	return text.String()
}

// report prints the table, and checks the results.
func (u *upgradeSystem) report(l *upgradeLoad, back time.Duration) {
	t := u.t
	var text strings.Builder
	text.WriteString(u.table())
	var over []string
	for _, c := range u.cells {
		over = append(over, c.over()...)
	}
	sent, failed, p99 := l.sums()
	_, peak := u.full()
	half := 0
	for _, n := range l.half {
		half += n
	}
	fmt.Fprintf(&text, "\n%d instances asked for, %d failed, p99 %v; %d answers of a cell from LEGACY, %d NATIVE, %d of a table that was not whole; %d hosts over-allocated; fell back after %v; at most %.0f %% of all VCPUs in use\n",
		sent, failed, p99, l.sources[cellgatev1.CellSource_LEGACY], l.sources[cellgatev1.CellSource_NATIVE], half, len(over), back.Round(10*time.Millisecond), 100*peak)
	if l.again+l.without > 0 {
		fmt.Fprintf(&text, "while something was broken on purpose: %d calls were sent again, %d answers were of the other cells\n", l.again, l.without)
	}
	t.Logf("\n%s", text.String())
	if path := os.Getenv("CELLGATE_DEMO_TABLE"); path != "" {
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
	l.demand()
	for _, h := range over {
		t.Errorf("over-allocated: %s", h)
	}
	if demonstrates() && back > 5*time.Second {
		t.Errorf("the cell fell back after %v", back)
	}
	if demonstrates() && peak < 0.87 {
		t.Errorf("at most %.0f %% of the VCPUs were in use: a cloud with that much room shows little", 100*peak)
	}
	if l.sources[cellgatev1.CellSource_LEGACY] == 0 || l.sources[cellgatev1.CellSource_NATIVE] == 0 {
		t.Errorf("answers by source: %v", l.sources)
	}
}
