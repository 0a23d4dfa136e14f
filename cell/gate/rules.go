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
// It moves on only when every instance of Nova's tables has a claim too: see unclaimed;
// and from SHADOW when each agent's report agrees with its row: see hostComparisons.
//
// Which services count: one that is up does, disabled or not, since an operator enables
// it at any time. One that is not up does while it is enabled and has been down for less
// than downTime. One that is forced down, or disabled and down, or down for longer, does
// not block the gate, and is listed. It blocks again once it is up.
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
	// the time begins again.
	maxHeldGap = 15 * time.Second
	// maxLagging is how many hosts are named.
	maxLagging = 100
	// maxDiffering is how many differences are listed.
	maxDiffering = 16
)

// Report is what a gateway sees in Nova's tables.
type Report struct {
	// Gateway names the incarnation of the gateway, name is for people.
	Gateway, name string
	// unreadable is why there are no services.
	unreadable string
	required   int32
	// received is when it came.
	received time.Time
	// downTime is after how long a service is not up, by this gateway; zero: not known.
	downTime time.Duration
	Services []Service
	// readTo is the newest time in the rows that it has read; zero: not known.
	readTo time.Time
	// unclaimed is of a gateway that imports and has looked, else nil.
	unclaimed *unclaimed
}

// displayName is how people know the gateway.
func (r *Report) displayName() string { return cmp.Or(r.name, r.Gateway) }

// unclaimed are the instances of Nova's tables without a claim in the shard, as a gateway
// finds them periodically: when their agents do not list them, others are placed in their room.
type unclaimed struct {
	// settled is a moment of store time: of those without a claim then, each has one by
	// now or is no instance any more. What comes and goes in a busy cell moves it on.
	settled time.Time
	// count are those that two readings in a row found; first describes the first of them.
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
	// reports of all gateways, those of KeepReports: the worst counts.
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

// Judgement is what the rules make of a gate and the evidence.
type Judgement struct {
	// Want is the row as it should be; its Revision is that of the row judged.
	Want shard.MoveGate
	// waitsFor is what the gate waits for, for people.
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
func (r Rules) Judge(g *shard.Gate, e Evidence) Judgement {
	t := r.tally(e)
	v := t.Judgement
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
func (r Rules) hold(g *shard.Gate, e Evidence, v *Judgement) {
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

func (v *Judgement) move(to shard.GateState, reason string) {
	v.Want.State, v.Want.Reason = to, reason
	v.unheld()
}

// notEqual says that hosts differ from their rows; "" for none. A gate that opened would place
// instances where Nova does not, or find no room where Nova has some.
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
