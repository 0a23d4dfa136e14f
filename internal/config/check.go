package config

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// check reports what is wrong with the values of a section.
func (l *loader) check(section string) {
	c := l.config
	l.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	l.oneOf("log.format", c.Log.Format, "text", "json")
	l.checkTelemetry(c.Telemetry)
	switch section {
	case "gateway":
		l.checkGateway(c.Gateway)
	case "cell":
		l.checkCell(c.Cell)
	case "agent":
		l.checkAgent(c.Agent)
	case "dev":
		l.checkDev(c.Dev)
	}
}

func (l *loader) checkGateway(g Gateway) {
	l.checkServerTLS("gateway.tls", g.TLS)
	l.listen("gateway.http", g.HTTP, g.Insecure, exposes("gateway.tls", g.TLS))
	l.listen("gateway.grpc", g.GRPC, g.Insecure, exposes("gateway.tls", g.TLS))
	l.positive("gateway.propose_budget", g.ProposeBudget)
	l.positive("gateway.claim_budget", g.ClaimBudget)
	l.positive("gateway.max_deadline", g.MaxDeadline)
	l.atMost("gateway.propose_budget", g.ProposeBudget, "max_deadline", g.MaxDeadline)
	l.atMost("gateway.claim_budget", g.ClaimBudget, "max_deadline", g.MaxDeadline)
	l.checkBreaker(g)
	l.atLeast("gateway.max_in_flight", g.MaxInFlight, 1)
	l.atLeast("gateway.decision_queue", g.DecisionQueue, 1)
	l.drainDelay("gateway.drain_delay", g.DrainDelay)
	l.checkNova(g)
	l.novaRelease("gateway.nova.nova_release", g.Nova.Release)
	if len(g.Cells) == 0 {
		l.bad("gateway.cells", "a gateway needs at least one cell")
	}
	l.apart("gateway.http", g.HTTP, "gateway.grpc", g.GRPC)
	names, uuids, addresses := map[string]int{}, map[string]int{}, map[string]int{}
	for i, cell := range g.Cells {
		path := fmt.Sprintf("gateway.cells[%d]", i)
		l.needed(path+".name", cell.Name)
		if cell.UUID != "" {
			l.uuid(path+".uuid", cell.UUID)
		}
		l.unlike(path+".name", cell.Name, i, names)
		l.unlike(path+".uuid", cell.UUID, i, uuids)
		switch only := g.LegacyOnly(cell.Name); {
		case only && len(cell.Replicas) > 0:
			l.bad(path+".replicas", "a cell that is legacy_only has none: the gateway runs its scheduler")
		case only && cell.UUID == "":
			l.bad(path+".uuid", "must be set for a cell that is legacy_only: that of cell_mappings")
		case !only && len(cell.Replicas) == 0:
			l.bad(path+".replicas", "a cell needs the address of a replica")
		}
		for j, r := range cell.Replicas {
			l.address(fmt.Sprintf("%s.replicas[%d]", path, j), r)
			l.unlike(fmt.Sprintf("%s.replicas[%d]", path, j), r, i, addresses)
			l.secrecy("gateway.cell_tls", g.CellTLS, r)
		}
	}
	l.checkClientTLS("gateway.cell_tls", g.CellTLS)
	l.checkLegacy(g)
	for i, w := range g.Weighers {
		l.needed(fmt.Sprintf("gateway.weighers[%d].name", i), w.Name)
	}
	if g.WeighMultiplier != 1 && g.WeighExpression == "" {
		l.bad("gateway.weigh_multiplier", "is of use with weigh_expression only")
	}
}

func (l *loader) checkBreaker(g Gateway) {
	b := g.Breaker
	l.atLeast("gateway.breaker.failures", b.Failures, 1)
	l.positive("gateway.breaker.open_for", b.OpenFor)
	l.positive("gateway.breaker.probe_every", b.ProbeEvery)
	l.positive("gateway.breaker.probe_budget", b.ProbeBudget)
	if longest := max(g.ProposeBudget, g.ClaimBudget, b.ProbeBudget); b.Window <= longest {
		l.bad("gateway.breaker.window", "%v is not longer than every budget (%v): calls that take as long would not count", b.Window, longest)
	}
}

// apart: two addresses to listen on that are not the same port of one machine.
func (l *loader) apart(pathA, a, pathB, b string) {
	hostA, portA, errA := splitAddress(a, 0)
	hostB, portB, errB := splitAddress(b, 0)
	if errA != nil || errB != nil || portA == 0 || portA != portB {
		return
	}
	if wild := func(h string) bool { return h == "" || h == "0.0.0.0" || h == "::" }; hostA == hostB || wild(hostA) || wild(hostB) {
		l.bad(pathB, "%s is the port of %s (%s) too", b, pathA, a)
	}
}

func (l *loader) checkCell(c Cell) {
	l.needed("cell.name", c.Name)
	l.uuid("cell.uuid", c.UUID)
	l.shard("cell", c.Data, c.Store, c.Insecure)
	if c.Store == "" && (c.StorePasswordFile != "" || c.StoreMigrate) {
		l.bad("cell.store", "is needed with store_password_file and store_migrate")
	}
	l.checkServerTLS("cell.tls", c.TLS)
	l.listen("cell.grpc", c.GRPC, c.Insecure, exposes("cell.tls", c.TLS))
	l.apart("cell.grpc", c.GRPC, "cell.metrics", c.Metrics)
	l.between("cell.heartbeat_every", c.HeartbeatEvery, minHeartbeat, maxHeartbeat)
	if c.ServiceDownTime <= c.HeartbeatEvery {
		l.bad("cell.service_down_time", "%v is not longer than heartbeat_every (%v): every host would count as down", c.ServiceDownTime, c.HeartbeatEvery)
	}
	l.positive("cell.pin_for", c.PinFor)
	l.between("cell.lease_scan", c.LeaseScan, minLeaseScan, maxLeaseScan)
	l.atLeast("cell.max_batch", c.MaxBatch, minBatch)
	if !slices.Contains([]string{"async", "sync", "shadow"}, c.VerifyMode) {
		l.bad("cell.verify_mode", "%q is not async, sync or shadow", c.VerifyMode)
	}
	l.between("cell.verify_wait", c.VerifyWait, minVerifyWait, maxVerifyWait)
	l.between("cell.reconcile_interval", c.ReconcileInterval, minReconcile, maxReconcile)
	l.positive("cell.reconcile_grace", c.ReconcileGrace)
	if c.ReconcileRelease < c.ReconcileGrace {
		l.bad("cell.reconcile_release", "%v is shorter than reconcile_grace (%v)", c.ReconcileRelease, c.ReconcileGrace)
	}
	l.atLeast("cell.max_queue", c.MaxQueue, minQueue)
	l.positive("cell.decisions_keep", c.DecisionsKeep)
	l.atLeast("cell.max_hosts", c.MaxHosts, 1)
	l.atLeast("cell.max_hosts_mib", c.MaxHostsMiB, 1)
	l.atLeast("cell.max_agent_hosts", c.MaxAgentHosts, 1)
	l.atLeast("cell.max_agent_hosts_mib", c.MaxAgentHostsMiB, 1)
	l.atLeast("cell.max_decisions", c.MaxDecisions, 1)
	l.atLeast("cell.max_decision_mib", c.DecisionMiB, 16)
	l.positive("cell.max_clock_jump", c.MaxClockJump)
	l.atLeast("cell.max_journal_mib", c.JournalMiB, 16)
	l.atLeast("cell.max_ended_mib", c.EndedMiB, 16)
	l.between("cell.gate_settle", c.GateSettle, minGateSettle, maxGateSettle)
	l.atLeast("cell.gate_compared", c.GateCompared, 1)
	if !(c.GateMaxDifference > 0 && c.GateMaxDifference <= 1) {
		l.bad("cell.gate_max_difference", "%v is not above 0 and at most 1", c.GateMaxDifference)
	}
	l.atLeast("cell.gate_agent_version", c.GateAgentVersion, 1)
	if len(c.GateClasses) == 0 || slices.Contains(c.GateClasses, "") {
		l.bad("cell.gate_classes", "must name resource classes, and at least one")
	}
	l.drainDelay("cell.drain_delay", c.DrainDelay)
	l.metrics("cell.metrics", c.Metrics, c.Insecure, exposes("cell.tls", c.TLS))
}

func (l *loader) checkAgent(a Agent) {
	l.atLeast("agent.hosts", a.Hosts, 0)
	l.atLeast("agent.hosts_per_conn", a.HostsPerConn, 1)
	if a.HostsPerConn > MaxStreams {
		l.bad("agent.hosts_per_conn", "%d is above %d, the most streams that a cell takes on a connection", a.HostsPerConn, MaxStreams)
	}
	l.checkClientTLS("agent.tls", a.TLS)
	l.metrics("agent.metrics", a.Metrics, a.Insecure, "an agent serves its metrics without TLS to anyone who reaches it")
	if a.Socket != "" {
		switch {
		case a.Hosts > 0:
			l.bad("agent.socket", "is of one host: simulated ones have none")
		case !filepath.IsAbs(a.Socket):
			l.bad("agent.socket", "%q is not an absolute path", a.Socket)
		}
	}
	switch {
	case a.Print && a.Hosts > 0:
		l.bad("agent.print", "is of use without hosts only: simulated ones are not printed")
	case a.Print: // what is only printed goes nowhere
	default:
		l.needed("agent.cell", a.Cell)
		if len(a.Replicas) == 0 {
			l.bad("agent.replicas", "an agent needs the address of a replica of its cell")
		}
	}
	if a.Hosts == 0 {
		l.checkHost(a.Host, a.Print)
	}
	for i, r := range a.Replicas {
		l.address(fmt.Sprintf("agent.replicas[%d]", i), r)
		l.secrecy("agent.tls", a.TLS, r)
	}
}

func (l *loader) checkDev(d Dev) {
	l.novaRelease("dev.nova_release", d.NovaRelease)
	if len(d.NovaConf) > 0 {
		l.checkNova(l.config.Gateway) // that of dev is made of nova.conf
	}
	l.atLeast("dev.cells", d.Cells, 1)
	l.atLeast("dev.hosts", d.Hosts, 1)
	l.shard("dev", d.Data, d.Store, d.Insecure)
	const noTLS = "dev has no TLS and no authentication; run gateway, cell and agent with theirs"
	l.listen("dev.http", d.HTTP, d.Insecure, noTLS)
	l.listen("dev.grpc", d.GRPC, d.Insecure, noTLS)
	l.apart("dev.http", d.HTTP, "dev.grpc", d.GRPC)
	if last := d.CellBasePort + d.Cells - 1; d.CellBasePort < 0 || last > 65535 {
		l.bad("dev.cell_base_port", "ports %d to %d are not all between 0 and 65535", d.CellBasePort, last)
	}
	if d.Pprof != "" {
		switch host, _, err := splitAddress(d.Pprof, 0); {
		case err != nil:
			l.bad("dev.pprof", "%v", err)
		case !IsLoopback(host):
			l.bad("dev.pprof", "%s is not a loopback address: profiles tell too much to be served elsewhere", d.Pprof)
		}
	}
	if d.Once && !d.Sample {
		l.bad("dev.once", "is of use with sample only")
	}
}

// bad adds a problem of a key and says where the value, or the list it is in,
// came from; a default comes from nowhere.
func (l *loader) bad(path, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	for p := path; strings.Contains(p, "."); p = p[:strings.LastIndexAny(p, ".[")] {
		if from, ok := l.origin[p]; ok {
			l.problems.add("%s: %s: %s", from, path, what)
			return
		}
	}
	l.problems.add("%s: %s", path, what)
}

func (l *loader) needed(path, value string) {
	if value == "" {
		l.bad(path, "must be set")
	}
}

func (l *loader) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		l.bad(path, "%q is none of %v", value, allowed)
	}
}

func (l *loader) positive(path string, d time.Duration) {
	if d <= 0 {
		l.bad(path, "%v is not above 0", d)
	}
}

const (
	// Agents that beat more often do nothing else; those that beat less often than
	// once in an hour are not watched.
	minHeartbeat, maxHeartbeat = 100 * time.Millisecond, time.Hour
	// What a lease holds is held a scan longer.
	minLeaseScan, maxLeaseScan   = 10 * time.Millisecond, time.Minute
	minGateSettle, maxGateSettle = 100 * time.Millisecond, 24 * time.Hour
	// A look costs some ms a 1,000 hosts.
	minReconcile, maxReconcile = 100 * time.Millisecond, time.Hour
	// A caller of a selection waits for it.
	minVerifyWait, maxVerifyWait = time.Millisecond, 200 * time.Millisecond
	// minBatch has room for a registration beside claims.
	minBatch = 2
	// minQueue has room for a gateway's shared call, of 128 operations, while another waits:
	// a call is queued or refused as a whole.
	minQueue = 256
)

func (l *loader) between(path string, d, least, most time.Duration) {
	if d < least || d > most {
		l.bad(path, "%v is not between %v and %v", d, least, most)
	}
}

// atMost: a duration is no longer than another key's.
func (l *loader) atMost(path string, d time.Duration, key string, most time.Duration) {
	if most > 0 && d > most {
		l.bad(path, "%v is longer than %s (%v)", d, key, most)
	}
}

// MaxDrainDelay is the longest drain_delay.
const MaxDrainDelay = time.Minute

// drainDelay: whoever stops a process waits for it, and kills it in the end.
func (l *loader) drainDelay(path string, d time.Duration) {
	if d < 0 || d > MaxDrainDelay {
		l.bad(path, "%v is not between 0s and 1m", d)
	}
}

func (l *loader) atLeast(path string, n, least int) {
	if n < least {
		l.bad(path, "%d is below %d", n, least)
	}
}

func (l *loader) uuid(path, value string) {
	if _, err := uuid.Parse(value); err != nil || len(value) != 36 {
		l.bad(path, "%q is not a uuid", value)
	}
}

// unlike: no two cells share a value.
func (l *loader) unlike(path, value string, i int, seen map[string]int) {
	if first, dup := seen[value]; dup && value != "" {
		l.bad(path, "%q is that of cells[%d] already", value, first)
		return
	}
	seen[value] = i
}

// CheckAddress checks an address to connect to.
func CheckAddress(value string) error {
	host, port, err := splitAddress(value, 1)
	if err == nil && host == "" {
		err = fmt.Errorf("%q has no host; write it as host:%d", value, port)
	}
	return err
}

// splitAddress reads host:port.
func splitAddress(value string, leastPort int) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(value)
	if err != nil || strings.ContainsFunc(host, unicode.IsSpace) {
		return "", 0, fmt.Errorf("%q is not an address; write it as host:port", value)
	}
	if port, err = strconv.Atoi(text); err != nil || port < leastPort || port > 65535 {
		return "", 0, fmt.Errorf("%q has no port between %d and 65535", value, leastPort)
	}
	return host, port, nil
}

// address checks an address to connect to.
func (l *loader) address(path, value string) {
	if err := CheckAddress(value); err != nil {
		l.bad(path, "%v", err)
	}
}

// IsLoopback reports whether a host part names this machine only.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
