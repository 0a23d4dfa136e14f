package agents

import (
	"log/slog"
	"sync"
	"time"

	"cellgate/cell/replica"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// VerifyMode says what effect a host's verdict on a claim has.
type VerifyMode string

// The modes. In VerifyAsync a claim is answered before its verdict, and a rejected claim cannot be
// confirmed. In VerifySync the answer waits for the verdict, and a rejected claim is ended and refused.
// In VerifyShadow verdicts are only counted and logged. So are rejections of a host that Nova's tables report, in every
// mode; an aborted claim is given back there, too.
const (
	VerifyAsync  VerifyMode = "async"
	VerifySync   VerifyMode = "sync"
	VerifyShadow VerifyMode = "shadow"
)

// MaxVerifyWait is how long VerifySync waits for verdicts at most.
const MaxVerifyWait = 200 * time.Millisecond

const (
	// VerifyTick is how often due hosts are swept, VerifySweep how often each agent is sent all its
	// claims again.
	VerifyTick  = 200 * time.Millisecond
	VerifySweep = time.Minute
	// OfferGrace is how long a replica that did not commit a claim waits, after it read the claim in
	// the journal, before it offers the claim.
	OfferGrace = 2 * time.Second
	// unansweredAfter is how long an offer may have no verdict before it is counted as unanswered.
	unansweredAfter = 5 * time.Second
	// maxVerdicts is how many rejections may wait to be written; the claims of further ones are offered
	// again.
	maxVerdicts = 1024
)

// verifier offers claims to the agents of their hosts, if these verify and have a stream to this
// replica, and handles their verdicts.
//
// A claim that this replica commits is offered once the table shows it. All other offers come from a
// sweep: it compares what the host was offered on its stream with the claims that the table has on the
// host. A host is swept when its stream begins, OfferGrace after another replica's entry was read, when
// a message could not be sent, and every VerifySweep. So no missed offer stays missed.
//
// Every replica that has a stream of the agent sends it the ends of claims. A rejection for lack of
// room may still be due to claims that another replica ended and this one has not read. Such a
// rejection counts only after this replica has read the journal and offered the claim again (recheck).
type verifier struct {
	mode     VerifyMode
	wait     time.Duration
	rows     *replica.Rows
	sessions *Streams
	queue    *replica.Queue
	journal  *replica.Journal
	now      func() time.Time
	log      *slog.Logger
	tel      telemetry.Cell

	mu sync.Mutex
	// hosts are those with a verifying agent on a stream to this replica.
	hosts map[string]*verifyingHost
	// at maps each claim that an agent may know of, from this replica or another, to its host.
	at map[string]string
	// due has the hosts to sweep, and the earliest time for each.
	due map[string]time.Time
	// awaited are the claims whose callers wait for the verdict of a host.
	awaited map[placed]chan *agentv1.Verdict
	// rejected are verdicts to be written; wake has an element while there are some.
	rejected []shard.Op
	wake     chan struct{}
	// putOffs are deferred rejections; check has an element while there are some.
	putOffs []putOffRejection
	check   chan struct{}
}

// placed is a claim on a host.
type placed struct{ claim, host string }

// verifyingHost is a host whose agent verifies.
type verifyingHost struct {
	session *stream
	offers  map[string]*offer
	// sweptAt is when the agent was last sent all its claims.
	sweptAt time.Time
	// known: on this stream the agent was sent the set of claims and every end since. Before that a new
	// claim is not offered on its own: the agent would judge it beside claims that have ended.
	known bool
	// reported are the instances that the agent listed when the stream began; nil after the first
	// sweep.
	reported map[string]struct{}
}

// offer is a claim that was sent to the host's agent.
type offer struct {
	sent time.Time
	// verdict is nil until it arrives; counted: a missing verdict is not, or no longer, to be counted.
	verdict *agentv1.Verdict
	counted bool
	// confirmed: the claim was sent as confirmed.
	confirmed bool
	// again: the next verdict counts in any case, since the one before was deferred.
	again bool
	// despite is the rejection in spite of which the claim was sent again (repeatOffer); nil for none.
	despite *agentv1.Verdict
}

func newVerifier(mode VerifyMode, wait time.Duration, rows *replica.Rows, q *replica.Queue, j *replica.Journal, sessions *Streams, now func() time.Time, log *slog.Logger, tel telemetry.Cell) *verifier {
	return &verifier{
		mode: mode, wait: wait, rows: rows, queue: q, journal: j, sessions: sessions, now: now, log: log, tel: tel,
		hosts: map[string]*verifyingHost{}, at: map[string]string{}, due: map[string]time.Time{},
		awaited: map[placed]chan *agentv1.Verdict{}, wake: make(chan struct{}, 1), check: make(chan struct{}, 1),
	}
}

// addStream registers a stream whose agent reported a state and verifies, and offers the host's claims.
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
		clear(v.at) // nothing is followed until a host verifies
	}
}

// Committed offers the claims that this replica committed, once the table shows them. It never blocks.
func (v *verifier) Committed(changes []shard.Change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.hosts) == 0 {
		return
	}
	// Ends go first: they may have made the room for the new claims of the transaction.
	v.followEnds(changes)
	for i := range changes {
		if c := changes[i].Claim; c != nil {
			v.followOffer(c.ClaimID)
		}
	}
}

// Learned follows the changes of other replicas: this replica offers, after OfferGrace, the claims that
// they did not.
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

// schedule makes a host due at a time, or earlier if it already is.
func (v *verifier) schedule(host string, at time.Time) {
	if v.hosts[host] == nil {
		return
	}
	if before, ok := v.due[host]; !ok || at.Before(before) {
		v.due[host] = at
	}
}

// dueHosts returns the hosts that are due.
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

// VerdictOn returns the host's verdict on a claim that this replica offered; nil for none.
func (v *verifier) VerdictOn(claim string) *agentv1.Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h := v.hosts[v.at[claim]]; h != nil && h.offers[claim] != nil {
		return h.offers[claim].verdict
	}
	return nil
}
