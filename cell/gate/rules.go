package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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
// It moves on only if every instance of Nova's tables has a claim, too (unclaimed). It leaves SHADOW
// for NATIVE only if each agent's report agrees with its row (hostComparisons).
//
// Which services count: a service that is up counts, disabled or not, since an operator may enable it
// at any time. A service that is not up counts while it is enabled and has been down for less than
// DownTime. A service that is forced down, disabled and down, or down for longer, does not block the
// gate. It is listed, and blocks again once it is up.
type Rules struct {
	// Settle is how long all conditions must hold. It doubles with each fall-back, maxFalls times at
	// most.
	Settle time.Duration
	// Classes are what the inventory of a host must have.
	Classes []string
	// AgentVersion is the least version of an agent.
	AgentVersion int32
	// DownTime is the time without a heartbeat after which a service is down.
	DownTime time.Duration
}

const (
	// maxFalls bounds the doubling to 2^4 × Settle.
	maxFalls = 4
	// forgetFalls is how long the gate must be NATIVE before earlier fall-backs no longer count.
	forgetFalls = time.Hour
	// maxHeldGap bounds the gap between two records that all conditions hold: after a longer gap, and
	// more than Settle/2, the settle time starts again.
	maxHeldGap = 15 * time.Second
	// maxLagging bounds the hosts that are listed.
	maxLagging = 100
	// maxDiffering bounds the differences that are listed.
	maxDiffering = 16
)

// Report is what a gateway sees in Nova's tables.
type Report struct {
	// Gateway names the incarnation of the gateway; name is for operators.
	Gateway, name string
	// unreadable is why the services could not be read.
	unreadable string
	required   int32
	// received is when the report arrived.
	received time.Time
	// downTime is the gateway's service_down_time; zero if unknown.
	downTime time.Duration
	Services []Service
	// readTo is the newest timestamp in the rows that the gateway has read; zero if unknown.
	readTo time.Time
	// unclaimed is set if the gateway imports and has searched for unclaimed instances.
	unclaimed *unclaimed
}

// displayName is the gateway's name for operators.
func (r *Report) displayName() string { return cmp.Or(r.name, r.Gateway) }

// unclaimed are the instances of Nova's tables without a claim in the shard, as a gateway finds them
// periodically. If their agents do not list them either, other instances are placed in their room.
type unclaimed struct {
	// settled is a moment of store time: every instance without a claim at that moment now has one, or
	// no longer exists. It advances although instances come and go in a busy cell.
	settled time.Time
	// count is the number of instances found by two readings in a row; first describes the first of
	// them.
	count int
	first []string
}

// Service is a live row of Nova's table services.
type Service struct {
	Host                     string
	version                  int32
	disabled, forcedDown, Up bool
	// reason is that of disabled.
	reason string
	// lastSeen is zero for never.
	lastSeen time.Time
	Nodes    []string
	// leftOut are the service's compute nodes that no gateway can answer from.
	leftOut []string
}

// named are all compute nodes of the service.
func (s *Service) named() []string {
	if len(s.leftOut) == 0 {
		return s.Nodes
	}
	return slices.Concat(s.Nodes, s.leftOut)
}

// Evidence is what a replica knows when it judges. now is store time.
type Evidence struct {
	now time.Time
	// reports are the reports that still count, one a gateway; the worst one decides.
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

// Judgement is the result of applying the rules to a gate and the evidence.
type Judgement struct {
	// Want is the row as it should be; its Revision is that of the row judged.
	Want shard.MoveGate
	// waitsFor says what the gate waits for, for operators.
	waitsFor []string
	// lagging are the first hosts that are not new; laggingHosts is the number of those that count.
	lagging      []laggard
	laggingHosts int
	// services is the number that count; minVersion is their lowest version.
	services             int
	minVersion, required int32
	// registered is how many of hosts, the nodes that must have an agent, have one.
	registered, hosts int
	// differing lists the first differences between agents' reports and rows, in SHADOW; differingHosts
	// is the number of hosts that differ.
	differing      []*cellgatev1.HostDifference
	differingHosts int
}

// Judge says where the gate should be. It is a pure function.
func (r Rules) Judge(g *shard.Gate, e Evidence) Judgement {
	t := r.tally(e)
	v := t.Judgement
	if g == nil {
		v.Want = shard.MoveGate{State: shard.GateLegacy, Reason: "a gateway reads the cell's legacy tables"}
		return v
	}
	v.Want = shard.MoveGate{
		Revision: g.Revision, State: g.State, Reason: g.Reason, Pin: g.Pin, PinReason: g.PinReason,
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

// hold records that all conditions hold, and moves the gate once they have held long enough.
func (r Rules) hold(g *shard.Gate, e Evidence, v *Judgement) {
	if g.HeldSince.IsZero() || e.now.Before(g.HeldUntil) || e.now.Sub(g.HeldUntil) > max(r.Settle/2, maxHeldGap) {
		// Nobody judged the gate for a while, or the clock went back.
		v.Want.HeldSince, v.Want.HeldUntil = e.now, e.now
	} else if e.now.Sub(g.HeldUntil) >= r.Settle/4 {
		v.Want.HeldUntil = e.now
	}
	settle := r.Settle << min(max(g.Falls, 0), maxFalls)
	held := e.now.Sub(v.Want.HeldSince)
	if held < settle {
		v.waitsFor = append(v.waitsFor, fmt.Sprintf("every condition holds since %s, and must for %v", v.Want.HeldSince.UTC().Format(time.RFC3339), settle))
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

func (v *Judgement) move(to shard.GateState, reason string) {
	v.Want.State, v.Want.Reason = to, reason
	v.unheld()
}

// notEqual says which hosts differ from their rows; "" for none. If the gate opened in spite of them,
// instances would be placed where Nova would not, or no room would be found where Nova has some.
func (v *Judgement) notEqual() string {
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

func (v *Judgement) unheld() { v.Want.HeldSince, v.Want.HeldUntil = time.Time{}, time.Time{} }
