package config

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
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
	for _, part := range []string{"log", "telemetry", section} {
		v, _ := fieldByKey(reflect.ValueOf(c).Elem(), part)
		l.checkRanges(v, part)
	}
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
	l.checkIngress("gateway.ingress", g.Ingress)
	l.listen("gateway.http", g.HTTP, g.Insecure, exposes("gateway.tls", g.TLS), placeAndRelease)
	l.listen("gateway.grpc", g.GRPC, g.Insecure, exposes("gateway.tls", g.TLS), placeAndRelease)
	l.atMost("gateway.propose_budget", g.ProposeBudget, "max_deadline", g.MaxDeadline)
	l.atMost("gateway.claim_budget", g.ClaimBudget, "max_deadline", g.MaxDeadline)
	l.checkNova(g)
	l.novaRelease("gateway.nova.nova_release", g.Nova.Release)
	if len(g.Cells) == 0 {
		l.bad("gateway.cells", "a gateway needs at least one cell")
	}
	l.apart("gateway.http", g.HTTP, "gateway.grpc", g.GRPC)
	names, uuids, addresses := map[string]int{}, map[string]int{}, map[string]int{}
	for i, cell := range g.Cells {
		path := fmt.Sprintf("gateway.cells[%d]", i)
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
	l.checkBus(g.Bus)
	l.checkPlacement(g)
	if g.WeighMultiplier != 1 && g.WeighExpression == "" {
		l.bad("gateway.weigh_multiplier", "is of use with weigh_expression only")
	}
}

// checkBus checks the bus keys that must fit each other. Package gateway/bus checks transport_url.
func (l *loader) checkBus(b Bus) {
	if !b.Enabled {
		return
	}
	if b.TransportURL == "" {
		l.bad("gateway.bus.transport_url", "must be set, here or as [DEFAULT] transport_url of nova_conf, when the bus is enabled")
	}
	if b.Notifications != "" && len(b.NotifyTopics) == 0 {
		l.bad("gateway.bus.notification_topics", "must name a topic when notification_driver is set")
	}
	if (b.Cert == "") != (b.Key == "") {
		l.bad("gateway.bus.cert", "and key are set together")
	}
	if b.VerifyHost && b.CA == "" {
		l.bad("gateway.bus.verify_host", "needs ca")
	}
}

// checkPlacement checks the keys of the Placement API that must fit each other.
func (l *loader) checkPlacement(g Gateway) {
	p := g.Placement
	if !p.Enabled {
		return
	}
	l.address("gateway.placement.listen", p.Listen)
	if host, _, err := splitAddress(p.Listen, 1); err == nil && !IsLoopback(host) && !g.Insecure && !g.TLS.Encrypts() {
		l.bad("gateway.placement.listen", "%s is not a loopback address: set gateway.tls.cert and gateway.tls.key for TLS; or give --insecure to let tokens cross the network in the clear", p.Listen)
	}
	l.apart("gateway.http", g.HTTP, "gateway.placement.listen", p.Listen)
	l.apart("gateway.grpc", g.GRPC, "gateway.placement.listen", p.Listen)
	if p.DefaultCell != "" && !slices.ContainsFunc(g.Cells, func(c GatewayCell) bool { return c.Name == p.DefaultCell }) {
		l.bad("gateway.placement.default_cell", "there is no cell %q in gateway.cells", p.DefaultCell)
	}
	switch k := p.Keystone; {
	case k.AuthURL == "" && !p.TrustLoopback:
		l.bad("gateway.placement.keystone.auth_url", "must be set, or trust_loopback: else nobody may ask")
	case k.AuthURL != "":
		if u, err := url.Parse(k.AuthURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			l.bad("gateway.placement.keystone.auth_url", "%q is no http or https URL", k.AuthURL)
		}
		l.needed("gateway.placement.keystone.username", k.Username)
		l.needed("gateway.placement.keystone.password_file", k.PasswordFile)
		l.needed("gateway.placement.keystone.project_name", k.ProjectName)
	}
}

// loopback checks an address that only this machine may reach, "" for none.
func (l *loader) loopback(path, value, why string) {
	if value == "" {
		return
	}
	switch host, _, err := splitAddress(value, 0); {
	case err != nil:
		l.bad(path, "%v", err)
	case !IsLoopback(host):
		l.bad(path, "%s is not a loopback address: %s", value, why)
	}
}

// apart checks that two addresses to listen on are not the same port of one machine.
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

// checkIngress checks that the limit of one caller does not exceed the limit of all.
func (l *loader) checkIngress(path string, in Ingress) {
	if in.MiB < in.CallerMiB {
		l.bad(path+".max_mib", "%d is below max_caller_mib (%d)", in.MiB, in.CallerMiB)
	}
}

func (l *loader) checkCell(c Cell) {
	l.shard("cell", c.Data, c.Store, c.Insecure)
	if c.Store == "" && (c.StorePasswordFile != "" || c.StoreMigrate) {
		l.bad("cell.store", "is needed with store_password_file and store_migrate")
	}
	l.checkServerTLS("cell.tls", c.TLS)
	l.checkIngress("cell.ingress", c.Ingress)
	l.listen("cell.grpc", c.GRPC, c.Insecure, exposes("cell.tls", c.TLS), placeAndRelease)
	l.apart("cell.grpc", c.GRPC, "cell.metrics", c.Metrics)
	if c.ServiceDownTime <= c.HeartbeatEvery {
		l.bad("cell.service_down_time", "%v is not longer than heartbeat_every (%v): every host would count as down", c.ServiceDownTime, c.HeartbeatEvery)
	}
	if c.ReconcileRelease < c.ReconcileGrace {
		l.bad("cell.reconcile_release", "%v is shorter than reconcile_grace (%v)", c.ReconcileRelease, c.ReconcileGrace)
	}
	if len(c.GateClasses) == 0 || slices.Contains(c.GateClasses, "") {
		l.bad("cell.gate_classes", "must name resource classes, and at least one")
	}
	l.metrics("cell.metrics", c.Metrics, c.Insecure, exposes("cell.tls", c.TLS))
}

func (l *loader) checkAgent(a Agent) {
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
	case a.Print: // nothing that is only printed is sent anywhere
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
		l.checkNova(l.config.Gateway) // dev derives its own from nova.conf
		l.checkRanges(reflect.ValueOf(l.config.Gateway.Nova), "gateway.nova")
	}
	l.shard("dev", d.Data, d.Store, d.Insecure)
	const noTLS = "dev has no TLS and no authentication; run gateway, cell and agent with theirs"
	l.listen("dev.http", d.HTTP, d.Insecure, noTLS, placeAndRelease)
	l.listen("dev.grpc", d.GRPC, d.Insecure, noTLS, placeAndRelease)
	l.apart("dev.http", d.HTTP, "dev.grpc", d.GRPC)
	if last := d.CellBasePort + d.Cells - 1; d.CellBasePort < 0 || last > 65535 {
		l.bad("dev.cell_base_port", "ports %d to %d are not all between 0 and 65535", d.CellBasePort, last)
	}
	l.loopback("dev.pprof", d.Pprof, "profiles tell too much to be served elsewhere")
	l.loopback("dev.placement", d.Placement, "its token is no secret")
	if d.Once && !d.Sample {
		l.bad("dev.once", "is of use with sample only")
	}
}

// bad adds a problem of a key. It names where the value, or the list that has it, was set; a default
// was set nowhere.
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

// mustBe checks a text by its tag must: set, uuid, or the allowed texts, separated by commas.
func (l *loader) mustBe(must, path, value string) {
	switch must {
	case "":
	case "set":
		l.needed(path, value)
	case "uuid":
		l.uuid(path, value)
	default:
		if allowed := strings.Split(must, ","); !slices.Contains(allowed, value) {
			l.bad(path, "%q is none of %v", value, allowed)
		}
	}
}

// atMost checks that a duration is not longer than another key's.
func (l *loader) atMost(path string, d time.Duration, key string, most time.Duration) {
	if most > 0 && d > most {
		l.bad(path, "%v is longer than %s (%v)", d, key, most)
	}
}

// MaxDrainDelay is the longest drain_delay: a supervisor that stops a process waits that long, and
// finally kills it.
const MaxDrainDelay = time.Minute

func (l *loader) uuid(path, value string) {
	if _, err := uuid.Parse(value); err != nil || len(value) != 36 {
		l.bad(path, "%q is not a uuid", value)
	}
}

// unlike checks that no two cells share a value.
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
