package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// Rules say when the gate moves.
//
//	         all new, for settle         so, and hosts compared
//	LEGACY ----------------------> SHADOW ------------------------> NATIVE
//	   ^                             |                                |
//	   +-----------------------------+--------------------------------+
//	                   an old nova-compute or agent is up
//
// It moves on only when every instance of Nova's tables has a claim too: see unclaimed;
// and from SHADOW when each agent's host is as its row says: see hostComparisons.
//
// Which services count: one that is up does, disabled or not, since an operator enables
// it at any time. One that is not up does while it is enabled and has been down for less
// than downTime. One that is forced down, or disabled and down, or down for longer, does
// not hold the gate, and is told of; it does again as soon as it is up.
type Rules struct {
	// Settle is how long all must hold; it doubles with each fall-back, maxFalls times at
	// most.
	Settle time.Duration
	// Classes are what the inventory of a host must have.
	Classes []string
	// AgentVersion is the least version of an agent.
	AgentVersion int32
	// DownTime is after how long of silence a service is down.
	DownTime time.Duration
}

const (
	// maxFalls: 2^4 times settle.
	maxFalls = 4
	// forgetFalls is how long of NATIVE it takes to forget them.
	forgetFalls = time.Hour
	// maxHeldGap is how long nobody may have written down that all holds, at least, before
	// the time begins anew; see gap.
	maxHeldGap = 15 * time.Second
	// maxLagging is how many hosts are named.
	maxLagging = 100
	// maxDiffering is how many differences are told.
	maxDiffering = 16
)

// Report is what a gateway sees in Nova's tables.
type Report struct {
	// Gateway names the incarnation of the gateway, name is for people.
	Gateway, name string
	// unreadable says why there are no services.
	unreadable string
	required   int32
	// heard is when it was taken.
	heard time.Time
	// downTime is after how long a service is not up, by this gateway; zero: not known.
	downTime time.Duration
	Services []Service
	// old are services that are up and older than required, of a gateway that cannot tell yet how the
	// others are: it is unreadable.
	old []Service
	// readTo is the newest time in the rows that it has read; zero: not known.
	readTo time.Time
	// unclaimed is of a gateway that imports and has looked, else nil.
	unclaimed *unclaimed
}

// displayName is how people know the gateway.
func (r *Report) displayName() string { return cmp.Or(r.name, r.Gateway) }

// unclaimed are the instances of Nova's tables without a claim in the shard, as a gateway
// looks for them again and again: agents that do not list them have others placed on
// their room.
type unclaimed struct {
	// settled is a moment of store time: of those without a claim then, each has one by
	// now or is no instance any more. What comes and goes in a busy cell moves it on.
	settled time.Time
	// count are those that two looks found, first the first of them, in words.
	count int
	first []string
}

// Service is a live row of services.
type Service struct {
	Host                     string
	version                  int32
	disabled, forcedDown, Up bool
	// reason is that of disabled.
	reason string
	// lastSeen is zero for never, changedAt, when the row was written, where it is not known.
	lastSeen  time.Time
	changedAt time.Time
	Nodes     []string
	// leftOut are the compute nodes that Nova has, and no gateway can answer from.
	leftOut []string
}

// named are all compute nodes of the service that Nova has.
func (s *Service) named() []string {
	if len(s.leftOut) == 0 {
		return s.Nodes
	}
	return slices.Concat(s.Nodes, s.leftOut)
}

// Evidence is what a replica knows when it judges. now is store time.
type Evidence struct {
	now time.Time
	// reports of all gateways that were heard lately: the worst counts.
	reports []Report
	node    func(uuid string) Registration
}

// laggard is a host that is not new.
type laggard struct {
	host           string
	service, agent int32
	lastSeen       time.Time
	reason         string
	counts         bool
}

// Verdict is what the rules make of a gate and the evidence.
type Verdict struct {
	// Want is the row as it should be; its Revision is that of the row judged.
	Want shard.MoveGate
	// waitsFor says in words what the gate waits for.
	waitsFor []string
	// lagging are the first hosts that are not new, laggingHosts is how many count.
	lagging      []laggard
	laggingHosts int
	// services count; minVersion is their least.
	services             int
	minVersion, required int32
	// registered of hosts, those that have to be.
	registered, hosts int
	// differing has what differs of the first hosts whose agents do not report what their rows say, in
	// SHADOW; differingHosts is how many there are.
	differing      []*cellgatev1.HostDifference
	differingHosts int
}

// Judge says where the gate should be. It is a pure function.
func (r Rules) Judge(g *shard.Gate, e Evidence) Verdict {
	t := r.tally(e)
	v := t.Verdict
	if g == nil {
		v.Want = shard.MoveGate{State: shard.GateLegacy, Reason: "a gateway reads the cell's legacy tables"}
		return v
	}
	v.Want = shard.MoveGate{
		Revision: g.Revision, State: g.State, Reason: g.Reason, Pin: g.Pin, PinReason: g.PinReason, ReturnTo: g.ReturnTo,
		HeldSince: g.HeldSince, HeldUntil: g.HeldUntil, Falls: g.Falls,
	}
	breaks := t.breaks
	switch {
	case g.Pin != "":
		if g.State != g.Pin {
			v.move(g.Pin, "pinned: "+g.PinReason)
		}
		v.unheld()
		if g.Pin != shard.GateNative {
			v.waitsFor = append(breaks, "an operator holds it at "+string(g.Pin))
		}
	case g.State != shard.GateLegacy && t.closes != "":
		v.Want.Falls = min(g.Falls+1, maxFalls)
		if g.State == shard.GateNative && e.now.Sub(g.Since) >= forgetFalls {
			v.Want.Falls = 1
		}
		v.move(shard.GateLegacy, t.closes)
		v.waitsFor = breaks
	case g.State == shard.GateNative:
	case len(breaks) > 0:
		v.unheld()
		v.waitsFor = breaks
		if why := e.withoutClaim(); why != "" {
			v.waitsFor = append(v.waitsFor, why)
		}
		if why := v.notEqual(); why != "" {
			v.waitsFor = append(v.waitsFor, why)
		}
	default:
		r.hold(g, e, &v)
	}
	return v
}

// hold notes that all holds, and moves when it has for long enough.
func (r Rules) hold(g *shard.Gate, e Evidence, v *Verdict) {
	if g.HeldSince.IsZero() || e.now.Before(g.HeldUntil) || e.now.Sub(g.HeldUntil) > max(r.Settle/2, maxHeldGap) {
		// Nobody has looked for a while, or the clock went back.
		v.Want.HeldSince, v.Want.HeldUntil = e.now, e.now
	} else if e.now.Sub(g.HeldUntil) >= r.Settle/4 {
		v.Want.HeldUntil = e.now
	}
	settle := r.Settle << min(max(g.Falls, 0), maxFalls)
	held := e.now.Sub(v.Want.HeldSince)
	if held < settle {
		v.waitsFor = append(v.waitsFor, fmt.Sprintf("all holds since %s, it has to for %v", v.Want.HeldSince.UTC().Format(time.RFC3339), settle))
	}
	if why := e.unclaimedSince(v.Want.HeldSince); why != "" {
		v.waitsFor = append(v.waitsFor, why)
	}
	if why := v.notEqual(); why != "" {
		v.waitsFor = append(v.waitsFor, why)
	}
	switch {
	case len(v.waitsFor) > 0:
	case g.State == shard.GateLegacy:
		v.move(shard.GateShadow, fmt.Sprintf("%d services are of version %d or newer and agents have registered %d of %d hosts, for %v", v.services, v.required, v.registered, v.hosts, settle))
		v.Want.HeldSince, v.Want.HeldUntil = e.now, e.now
	default:
		v.move(shard.GateNative, fmt.Sprintf("agents report %d of %d hosts as their rows say", v.registered, v.hosts))
		v.unheld()
	}
}

func (v *Verdict) move(to shard.GateState, reason string) {
	v.Want.State, v.Want.Reason = to, reason
	v.unheld()
}

// notEqual says that hosts differ from their rows; "" for none. A gate that opened would place
// instances where Nova does not, or find no room where Nova has some.
func (v *Verdict) notEqual() string {
	const named = 2
	var first []string
	for _, d := range v.differing[:min(len(v.differing), named)] {
		first = append(first, d.GetHost()+": "+d.GetDetail())
	}
	text := strings.Join(first, "; ")
	if len(v.differing) > named {
		text += "; …"
	}
	switch v.differingHosts {
	case 0:
		return ""
	case 1:
		return "1 host that differs from its row: " + text
	}
	return fmt.Sprintf("%d hosts that differ from their rows: %s", v.differingHosts, text)
}

func (v *Verdict) unheld() { v.Want.HeldSince, v.Want.HeldUntil = time.Time{}, time.Time{} }

// tally counts the evidence.
type tally struct {
	Verdict
	rules Rules
	now   time.Time
	// closes says why the gate closes, breaks what keeps it from opening.
	closes  string
	breaks  []string
	hosts   map[string]*laggard
	counted map[string]struct{}
	nodes   map[string]bool
}

func (r Rules) tally(e Evidence) *tally {
	t := &tally{rules: r, now: e.now, hosts: map[string]*laggard{}, counted: map[string]struct{}{}, nodes: map[string]bool{}}
	for _, report := range e.reports {
		t.required = max(t.required, report.required)
	}
	for _, report := range e.reports {
		if report.unreadable != "" {
			t.breaks = append(t.breaks, fmt.Sprintf("gateway %s cannot read the services: %s", report.displayName(), report.unreadable))
			for i := range report.old {
				t.service(&report.old[i], e.node)
			}
			continue
		}
		for i := range report.Services {
			t.service(&report.Services[i], e.node)
		}
	}
	for _, ok := range t.nodes {
		t.Verdict.hosts++
		if ok {
			t.registered++
		}
	}
	t.list()
	switch {
	case len(e.reports) == 0:
		t.breaks = append(t.breaks, "no gateway reports the cell's legacy tables")
	case t.required <= 0:
		// Without it every service would pass for new.
		t.breaks = append(t.breaks, "no gateway says which version of nova-compute is required: set required_version in gateway.legacy")
	case t.services == 0 && len(t.breaks) == 0:
		t.breaks = append(t.breaks, "Nova's tables have no nova-compute service that counts")
	}
	if t.laggingHosts > 0 { // whatever closes is one of them
		t.breaks = append(t.breaks, fmt.Sprintf("%s: %s", hostCount(t.laggingHosts), t.firstNames()))
		t.breaks = append(t.breaks, e.differences()...)
	}
	return t
}

// differences says what gateways ask differently of Nova's services.
func (e *Evidence) differences() (all []string) {
	readers := make([]*cellgatev1.GateReader, len(e.reports))
	for i := range e.reports {
		r := &e.reports[i]
		readers[i] = &cellgatev1.GateReader{Gateway: r.displayName(), RequiredVersion: proto.Int32(r.required), ServiceDownTime: durationpb.New(r.downTime)}
	}
	required, downTime := GatewaysDiffer(readers)
	if required != "" {
		all = append(all, "gateways differ in required_version, and the highest counts: "+required)
	}
	if downTime != "" {
		all = append(all, "gateways differ in service_down_time, and by the longest a service is up: "+downTime)
	}
	return all
}

func hostCount(n int) string {
	if n == 1 {
		return "1 host that is not new"
	}
	return fmt.Sprintf("%d hosts that are not new", n)
}

// service takes a service in.
func (t *tally) service(s *Service, node func(string) Registration) {
	counts := s.counts(t.now, t.rules.DownTime)
	if s.version < t.required {
		why := fmt.Sprintf("its nova-compute is of version %d, %d is required", s.version, t.required)
		if slices.ContainsFunc(s.Nodes, func(uuid string) bool { return node(uuid).Agent }) {
			why += ", and its host is an agent's"
		}
		t.late(s, 0, why, counts)
		if counts {
			if s.Up {
				t.close(fmt.Sprintf("nova-compute on %s is up and of version %d, %d is required", s.Host, s.version, t.required))
			}
		}
	}
	if !counts {
		return
	}
	if _, known := t.counted[s.Host]; !known {
		t.counted[s.Host] = struct{}{}
		t.services++
	}
	if t.minVersion == 0 && len(t.counted) == 1 || s.version < t.minVersion {
		t.minVersion = s.version
	}
	if s.disabled {
		return
	}
	if len(s.Nodes) == 0 {
		t.late(s, 0, "none of its compute nodes is a host that can be read (cellgate doctor upgrade says why)", true)
	}
	for _, uuid := range s.Nodes {
		n := node(uuid)
		why := ""
		switch {
		case s.version < t.required && n.Agent:
			// What is registered may be from before a rollback.
			why = "compute node " + uuid + " is an agent's, and its nova-compute is old"
		case !n.Agent:
			why = "no agent reports compute node " + uuid
		case n.AgentVersion < t.rules.AgentVersion:
			why = fmt.Sprintf("its agent is of version %d, %d is required", n.AgentVersion, t.rules.AgentVersion)
			if s.Up {
				t.close(fmt.Sprintf("the agent of %s is of version %d, %d is required", s.Host, n.AgentVersion, t.rules.AgentVersion))
			}
		case n.Lacks != "":
			why = "its agent reports no " + n.Lacks
		}
		if _, is := t.nodes[uuid]; !is && len(n.Differs) > 0 {
			t.differingHosts++
			t.differing = append(t.differing, n.Differs[:min(len(n.Differs), maxDiffering-len(t.differing))]...)
		}
		if known, is := t.nodes[uuid]; !is || known {
			t.nodes[uuid] = why == ""
		}
		if why != "" {
			t.late(s, n.AgentVersion, why, true)
		}
	}
}

// counts reports whether a service holds the gate.
func (s *Service) counts(now time.Time, downTime time.Duration) bool {
	switch {
	case s.forcedDown:
		return false
	case s.Up:
		return true
	}
	return !s.disabled && !s.lastSeen.IsZero() && now.Sub(s.lastSeen) < 2*downTime
}

// close gives the first reason to close, by its words: the evidence has no order.
func (t *tally) close(why string) {
	if t.closes == "" || why < t.closes {
		t.closes = why
	}
}

// late notes a host that is not new.
func (t *tally) late(s *Service, agent int32, why string, counts bool) {
	l := t.hosts[s.Host]
	if l == nil {
		l = &laggard{host: s.Host, service: s.version, lastSeen: s.lastSeen, reason: why}
		if !counts {
			l.reason += ", but it does not count: " + s.whyItDoesNotCount()
		}
		t.hosts[s.Host] = l
	} else if counts && !l.counts {
		l.service, l.lastSeen, l.reason = s.version, s.lastSeen, why
	}
	l.agent = max(l.agent, agent)
	l.counts = l.counts || counts
}

func (s *Service) whyItDoesNotCount() string {
	switch {
	case s.forcedDown:
		return "it is forced down"
	case s.disabled:
		return "it is disabled and down"
	}
	return "it is down for long"
}

// list puts the laggards in order: those that count first.
func (t *tally) list() {
	for _, l := range t.hosts {
		t.lagging = append(t.lagging, *l)
		if l.counts {
			t.laggingHosts++
		}
	}
	slices.SortFunc(t.lagging, func(a, b laggard) int {
		if a.counts != b.counts {
			if a.counts {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.host, b.host)
	})
	t.lagging = t.lagging[:min(len(t.lagging), maxLagging)]
}

// firstNames names the first laggards: why they are is said of each.
func (t *tally) firstNames() string {
	var all []string
	for _, l := range t.lagging[:min(len(t.lagging), t.laggingHosts, 3)] {
		all = append(all, l.host)
	}
	if t.laggingHosts > len(all) {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
