package agents

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"cellgate/cell/replica"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// VerifyMode says what a host's verdict on a claim does.
type VerifyMode string

// The modes. In VerifyAsync a claim is answered before its verdict, and one that is
// rejected cannot be confirmed. In VerifySync the answer waits for the verdict, and a
// rejected claim is ended and refused. In VerifyShadow verdicts are counted and logged.
const (
	VerifyAsync  VerifyMode = "async"
	VerifySync   VerifyMode = "sync"
	VerifyShadow VerifyMode = "shadow"
)

// MaxVerifyWait is how long VerifySync waits for verdicts at most.
const MaxVerifyWait = 200 * time.Millisecond

const (
	// VerifyTick is how often hosts that need a look are looked at, verifySweep how often
	// each agent is sent all its claims again.
	VerifyTick  = 200 * time.Millisecond
	VerifySweep = time.Minute
	// OfferGrace is how long after it was read in the journal a claim is offered by a
	// replica that did not commit it.
	OfferGrace = 2 * time.Second
	// unansweredAfter is when an offer without a verdict is counted.
	unansweredAfter = 5 * time.Second
	// maxVerdicts is how many rejections wait to be written; more are asked for again.
	maxVerdicts = 1024
)

// verifier offers the claims on hosts to their agents, as far as those verify and have
// a stream to this replica, and takes their verdicts.
//
// A claim that this replica commits is offered once the table shows it. All else is by
// comparison of what the host was offered on its stream with the claims that the table
// has on it: when the stream begins, some time after another replica's entry was read,
// when a message could not be sent, and every verifySweep. So nothing that is missed
// stays so.
//
// Every replica that has a stream of the agent sends it ends. A rejection for want of
// room may still be of claims that another replica ended and this one has not read: it
// counts once the claim was offered again after a reading of the journal (recheck).
type verifier struct {
	mode     VerifyMode
	wait     time.Duration
	rows     *replica.Rows
	sessions *Streams
	queue    *replica.Queue
	journal  *replica.Journal
	now      func() time.Time
	log      *slog.Logger
	tel      *telemetry.Cell

	mu sync.Mutex
	// hosts are those whose agents verify on a stream to this replica.
	hosts map[string]*verifyingHost
	// at is the host whose agent may know of each claim, from this replica or another.
	at map[string]string
	// due are the hosts that need a look, and from when on.
	due map[string]time.Time
	// awaited are the claims whose callers wait for the verdict of a host.
	awaited map[placed]chan *agentv1.Verdict
	// rejected are to be written; wake has an element while there are some.
	rejected []shard.Op
	wake     chan struct{}
	// putOffs are rejections that are not taken yet; check has an element while there
	// are some.
	putOffs []putOffRejection
	check   chan struct{}
}

// placed is a claim on a host.
type placed struct{ claim, host string }

// verifyingHost is a host whose agent verifies.
type verifyingHost struct {
	session *stream
	offers  map[string]*offer
	// sweptAt is when it was sent all its claims.
	sweptAt time.Time
	// known: the agent was sent on this stream which claims there are, and every
	// end since. Before that a new claim is not offered by itself: the agent would judge
	// it beside claims that are no more.
	known bool
	// reported are the instances that the stream began with, until all claims were sent
	// once.
	reported map[string]struct{}
}

// offer is a claim that the host's agent was sent.
type offer struct {
	sent time.Time
	// verdict is nil until it comes; counted: it was missed for too long.
	verdict *agentv1.Verdict
	counted bool
	// confirmed: it was sent as one that is confirmed.
	confirmed bool
	// again: the next verdict counts, whatever it is; the one before was doubted.
	again bool
	// despite is the rejection that it was sent in spite of, see insist; nil for none.
	despite *agentv1.Verdict
}

func newVerifier(mode VerifyMode, wait time.Duration, rows *replica.Rows, q *replica.Queue, j *replica.Journal, sessions *Streams, now func() time.Time, log *slog.Logger, tel *telemetry.Cell) *verifier {
	return &verifier{
		mode: mode, wait: wait, rows: rows, queue: q, journal: j, sessions: sessions, now: now, log: log, tel: tel,
		hosts: map[string]*verifyingHost{}, at: map[string]string{}, due: map[string]time.Time{},
		awaited: map[placed]chan *agentv1.Verdict{}, wake: make(chan struct{}, 1), check: make(chan struct{}, 1),
	}
}

// addStream notes that a host's agent, which reported a state, verifies on a stream; its claims are
// offered.
func (v *verifier) addStream(a *stream, state *agentv1.FullState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.hosts[a.host]; h != nil {
		if h.session == a {
			return
		}
		v.forget(a.host, h)
	}
	v.hosts[a.host] = &verifyingHost{session: a, offers: map[string]*offer{}, reported: reportedIn(state)}
	v.sweepLocked(a.host)
}

// dropStream forgets a stream.
func (v *verifier) dropStream(a *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.hosts[a.host]; h != nil && h.session == a {
		v.forget(a.host, h)
	}
}

func (v *verifier) forget(host string, h *verifyingHost) {
	for id := range h.offers {
		delete(v.at, id)
	}
	delete(v.hosts, host)
	delete(v.due, host)
	if len(v.hosts) == 0 {
		clear(v.at) // nothing is followed until there is one
	}
}

// Committed offers what this replica committed, once the table shows it. It never waits.
func (v *verifier) Committed(changes []shard.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hosts) == 0 {
		return
	}
	// What a transaction ended first: it may have made the room for what it claimed.
	v.followEnds(changes)
	for i := range changes {
		if c := changes[i].Claim; c != nil {
			v.followOffer(c.ClaimID)
		}
	}
}

// Learned notes what other replicas wrote: they offer it, and this one what they did not.
func (v *verifier) Learned(changes []shard.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hosts) == 0 {
		return
	}
	v.followEnds(changes)
	late := v.now().Add(OfferGrace)
	for i := range changes {
		c := changes[i].Claim
		if c == nil || !c.State.Live() || v.hosts[c.HostUUID] == nil {
			continue
		}
		if _, ok := v.at[c.ClaimID]; ok || v.rows.Claim(c.ClaimID) == nil {
			v.followConfirm(c.ClaimID)
			continue
		}
		v.at[c.ClaimID] = c.HostUUID
		if c.State == shard.Pending {
			v.schedule(c.HostUUID, late)
		}
	}
}

// schedule has a host looked at from a time on.
func (v *verifier) schedule(host string, at time.Time) {
	if v.hosts[host] == nil {
		return
	}
	if before, ok := v.due[host]; !ok || at.Before(before) {
		v.due[host] = at
	}
}

// run sweeps hosts that are due until ctx ends.
func (v *verifier) run(ctx context.Context) error {
	tick := time.NewTicker(VerifyTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for _, host := range v.dueHosts() {
				v.sweep(host)
			}
		}
	}
}

// dueHosts gives the hosts whose time has come.
func (v *verifier) dueHosts() (list []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	for host, h := range v.hosts {
		at, ok := v.due[host]
		if ok && !at.After(now) || now.Sub(h.sweptAt) > VerifySweep {
			delete(v.due, host)
			list = append(list, host)
		}
	}
	return list
}

// VerdictOn gives the verdict on a claim of the host that it was offered to by this replica; nil
// for none.
func (v *verifier) VerdictOn(claim string) *agentv1.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.hosts[v.at[claim]]; h != nil && h.offers[claim] != nil {
		return h.offers[claim].verdict
	}
	return nil
}
