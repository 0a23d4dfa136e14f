package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"cellgate/cell/agents"
)

// kind is the kind of a fault.
type kind string

const (
	// Of a link, a pair of parts that talk.
	cutLink  kind = "connections cut"
	slowLink kind = "bytes delayed"
	holdLink kind = "bytes held"
	loseCall kind = "calls and replies lost"
	// On a replica.
	killReplica   kind = "replica killed"
	stopReplica   kind = "replica stopped"
	pauseReplica  kind = "replica paused"
	usurpReplica  kind = "replica replaced while paused"
	slowStore     kind = "store slow"
	failStore     kind = "store fails"
	loseStore     kind = "store's answers lost"
	jumpReplica   kind = "replica's clock jumps"
	killGateway   kind = "gateway killed"
	jumpGateway   kind = "gateway's clock jumps"
	jumpStore     kind = "store's clock jumps"
	killAgent     kind = "agent killed"
	jumpAgent     kind = "agent's clock jumps"
	changeHost    kind = "host changes"
	disableHost   kind = "host disabled"
	claimOnHost   kind = "claim made on the host"
	startStranger kind = "unknown instance starts"
	stopStranger  kind = "unknown instance stops"
	resyncCell    kind = "cell starts over"
	// believeDelta: a delta is lost on its way, but its agent gets an acceptance.
	believeDelta kind = "delta lost and believed"
	// strayClaim: claims, releases and admin states arrive after their gateway gave them up.
	strayClaim kind = "claim arrives when given up"
	// adminHost: an operator disables a host, forces it down, or puts it in maintenance.
	adminHost kind = "operator changes a host"
)

// trouble is one fault, at a time after the start.
type trouble struct {
	at     time.Duration
	kind   kind
	target string
	// peer is the other end of a link.
	peer string
	// lasts is how long a window is, or how long the part is away.
	lasts time.Duration
	// size is a delay, a distance, an amount or a probability, depending on kind.
	size float64
	seed uint64
}

func (f trouble) String() string {
	s := fmt.Sprintf("%v %s: %s", f.at, f.kind, f.target)
	if f.peer != "" {
		s += "-" + f.peer
	}
	return fmt.Sprintf("%s for %v, %.3g", s, f.lasts, f.size)
}

// plan is everything that a seed determines.
type plan struct {
	seed                      uint64
	cells, replicas, gateways int
	hostsEach                 int
	mode                      agents.VerifyMode
	lasts                     time.Duration
	faults                    []trouble
	stories                   []story
	churns                    []churn
	failures                  []failure
}

// story is what one caller does, from at on.
type story struct {
	n    int
	at   time.Duration
	seed uint64
	// group is 1 or 2 (anti-affinity), 3 or 4 (affinity), or 0 for none.
	group int
}

func (p *plan) cellName(c int) string       { return fmt.Sprintf("cell%d", c+1) }
func (p *plan) replicaName(c, r int) string { return fmt.Sprintf("cell%d/r%d", c+1, r+1) }
func (p *plan) gatewayName(g int) string    { return fmt.Sprintf("gateway%d", g+1) }
func (p *plan) hostName(c, h int) string    { return fmt.Sprintf("cell%d-host%d", c+1, h+1) }

// newPlan makes the plan of a seed; length stretches it.
func newPlan(seed uint64, length int) *plan {
	draw := rand.New(rand.NewPCG(seed, 0x51))
	p := &plan{
		seed: seed, cells: 1 + draw.IntN(2), replicas: 2, gateways: 1 + draw.IntN(2),
		mode:  []agents.VerifyMode{agents.VerifyAsync, agents.VerifyAsync, agents.VerifySync, agents.VerifyShadow}[draw.IntN(4)],
		lasts: time.Duration(length) * 45 * time.Second,
	}
	if p.cells == 1 && draw.IntN(3) == 0 {
		p.replicas = 3
	}
	p.hostsEach = 2 + draw.IntN(2)
	if p.cells == 1 {
		p.hostsEach++
	}
	for range length * (14 + draw.IntN(22)) {
		p.faults = append(p.faults, p.drawFault(draw))
	}
	p.drawGhosts(length)
	slices.SortStableFunc(p.faults, func(a, b trouble) int { return int(a.at - b.at) })
	for n := range length * (12 + draw.IntN(14)) {
		s := story{n: n, at: p.moment(draw), seed: draw.Uint64()}
		if draw.IntN(5) < 2 {
			s.group = 1 + draw.IntN(4)
		}
		if n > 0 && draw.IntN(2) == 0 {
			// Together with the previous story, for the same group.
			s.at, s.group = p.stories[n-1].at+time.Duration(draw.IntN(20))*time.Millisecond, p.stories[n-1].group
		}
		p.stories = append(p.stories, s)
	}
	slices.SortStableFunc(p.stories, func(a, b story) int { return int(a.at - b.at) })
	p.drawChurns(length)
	p.drawFailures(length)
	return p
}

func (p *plan) moment(draw *rand.Rand) time.Duration {
	return time.Duration(draw.Int64N(int64(p.lasts)))
}

// kinds has each kind as many times as its weight.
var kinds = []kind{
	cutLink, cutLink, cutLink, slowLink, slowLink, slowLink, holdLink, holdLink, loseCall, loseCall, loseCall,
	killReplica, killReplica, killReplica, stopReplica, pauseReplica, pauseReplica, usurpReplica,
	slowStore, slowStore, failStore, loseStore, loseStore, jumpReplica, killGateway, killGateway, jumpGateway,
	jumpStore, jumpStore, killAgent, killAgent, killAgent, jumpAgent, changeHost, changeHost, disableHost,
	claimOnHost, claimOnHost, claimOnHost, startStranger, startStranger, startStranger, stopStranger, stopStranger, resyncCell,
	believeDelta, believeDelta, believeDelta, strayClaim, strayClaim, adminHost, adminHost,
}

func (p *plan) drawFault(draw *rand.Rand) trouble {
	f := trouble{at: p.moment(draw), kind: kinds[draw.IntN(len(kinds))], seed: draw.Uint64()}
	// All numbers are drawn for every kind, so that a new kind changes no other fault.
	c, h, r, g := draw.IntN(p.cells), draw.IntN(p.hostsEach), draw.IntN(p.replicas), draw.IntN(p.gateways)
	long, size, side := draw.Float64(), draw.Float64(), draw.IntN(3)
	host, replica, gateway := p.hostName(c, h), p.replicaName(c, r), p.gatewayName(g)
	switch f.kind {
	case cutLink, slowLink, holdLink:
		switch side {
		case 0:
			f.target, f.peer = gateway, replica
		case 1:
			f.target, f.peer = host, replica
		default:
			f.target, f.peer = callers, gateway
		}
	case loseCall:
		f.target, f.peer = gateway, replica
		if side == 0 {
			f.target, f.peer = callers, gateway
		}
	case strayClaim:
		f.target, f.peer = gateway, replica
	case killGateway, jumpGateway:
		f.target = gateway
	case jumpStore, resyncCell:
		f.target = p.cellName(c)
	case killAgent, jumpAgent, changeHost, disableHost, claimOnHost, startStranger, stopStranger, believeDelta, adminHost:
		f.target = host
	default:
		f.target = replica
	}
	// The square makes most faults short and few long.
	f.lasts = time.Duration(long * long * float64(20*time.Second)).Round(time.Millisecond)
	f.size = size
	return f
}
