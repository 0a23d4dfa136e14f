package agent

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// Limits of claims that are made on the host: how many there may be, how long a claim lasts by default
// if its instance does not arrive, and the longest ttl.
const (
	maxLocalClaims  = 10_000
	localClaimFor   = 10 * time.Minute
	localClaimAtAll = time.Hour
)

// claimKind is the operation on the host that took up a claim.
type claimKind string

const (
	instanceClaim claimKind = "INSTANCE"
	resizeClaim   claimKind = "RESIZE"
	moveClaim     claimKind = "MOVE"
)

// Claims are the claims on a host: those that its cell offers, and those of operations on the host
// itself, as in Nova's resource tracker (instance_claim, resize_claim, move_claim and abort).
// Operations may give uuids in letters of either case. Claims is safe for concurrent use.
type Claims struct {
	mu     sync.Mutex
	ledger *ledger
	now    func() time.Time
	// verdictQueued is closed, and replaced, when an operation on the host queues a verdict.
	verdictQueued chan struct{}
	// news, if not nil, is called when confirmed claims were added or removed. It must not block.
	news func()
}

func newClaims(state *agentv1.FullState) *Claims {
	return &Claims{ledger: newLedger(state), now: time.Now, verdictQueued: make(chan struct{})}
}

// SetClock replaces the clock for claims. It decides when claims made on the host end, and when claims
// that only one replica offered end.
func (c *Claims) SetClock(now func() time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *Claims) observe(state *agentv1.FullState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.observe(state)
}

func (c *Claims) offered(by any, o *agentv1.ClaimOffer) *agentv1.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notifyConfirmations(c.ledger.confirmations)
	return c.ledger.offered(c.now(), by, o)
}

func (c *Claims) ended(id, state string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notifyConfirmations(c.ledger.confirmations)
	c.ledger.ended(c.now(), id, state)
}

func (c *Claims) set(by any, s *agentv1.ClaimSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notifyConfirmations(c.ledger.confirmations)
	c.ledger.set(c.now(), by, s)
}

// pendingVerdicts returns, once, the verdicts queued for a stream. The channel is closed when an
// operation on the host queues another one.
func (c *Claims) pendingVerdicts(by any) ([]*agentv1.Verdict, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.pendingVerdicts(by), c.verdictQueued
}

// aborts returns the verdicts on all aborted claims that by offered.
func (c *Claims) aborts(by any) []*agentv1.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ledger.aborts(by)
}

// onNews sets the function to call when confirmed claims of the cell were added or removed.
func (c *Claims) onNews(news func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news = news
}

// notifyConfirmations calls news if the ledger's confirmations changed. The caller holds mu.
func (c *Claims) notifyConfirmations(before uint64) {
	if c.news != nil && c.ledger.confirmations != before {
		c.news()
	}
}

// confirmedClaim is a claim that the cell confirmed, and its instance in the form of a report.
type confirmedClaim struct {
	claim    string
	instance *agentv1.Instance
}

// confirmed lists the confirmed claims of the cell without NUMA cells and devices that have been
// confirmed for long, or already run. The order is by claim_id, with moves on this host last. next is
// when another claim becomes due; zero for none.
func (c *Claims) confirmed(long time.Duration) (list []confirmedClaim, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for _, h := range c.ledger.held {
		if !h.confirmed || h.aborted || len(h.offers) == 0 || h.guest != nil {
			continue
		}
		if due := h.since.Add(long); c.ledger.ran[h.id] != h.instance && due.After(now) {
			if next.IsZero() || due.Before(next) {
				next = due
			}
			continue
		}
		list = append(list, confirmedClaim{h.id, &agentv1.Instance{InstanceUuid: h.instance, Usages: h.usages}})
	}
	moves := func(of confirmedClaim) int {
		if c.ledger.held[c.ledger.held[of.claim].moves] != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b confirmedClaim) int {
		return cmp.Or(moves(a)-moves(b), strings.Compare(a.claim, b.claim))
	})
	return list, next
}

// runs records the claims that a simulated host runs, with their instances: when such a claim ends, it
// makes room at once. If one has already ended, its instance leaves now.
func (c *Claims) runs(ran map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.ran = ran
	for id, instance := range ran {
		if c.ledger.held[id] == nil {
			c.ledger.leave(instance)
		}
	}
}

// Taken returns, by instance, how much claims take of a provider's resource class in addition to the
// instances on the host, and whether the cell has sent its set of claims.
func (c *Claims) Taken(provider, class string) (byInstance map[string]int64, claimsKnown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.expire(c.now())
	byInstance = map[string]int64{}
	for _, h := range c.ledger.held {
		if !c.ledger.occupies(h) {
			continue
		}
		for _, u := range h.usages {
			if u.GetProviderUuid() == provider && u.GetResourceClass() == class {
				byInstance[h.instance] += int64(u.GetAmount())
			}
		}
	}
	return byInstance, c.ledger.claimsKnown
}

// InstanceClaim takes up the claim for an instance that is built. If the cell offered the claim_id, the
// claim stands as offered, and usages may be left out; if the host rejected it, the error is
// CLAIM_REJECTED. Without an offer, for example while the streams to the cell are down, the host judges
// the claim itself. Idempotent by claim_id.
func (c *Claims) InstanceClaim(in *agentv1.InstanceClaimRequest) (*agentv1.HostClaim, error) {
	return c.claimForOperation(instanceClaim, in.GetClaimId(), in.GetInstanceUuid(), "", in.GetUsages(), in.GetTtl().AsDuration())
}

// ResizeClaim takes up the claim of an instance's new size, beside its present one.
func (c *Claims) ResizeClaim(in *agentv1.ResizeClaimRequest) (*agentv1.HostClaim, error) {
	return c.claimForOperation(resizeClaim, in.GetClaimId(), in.GetInstanceUuid(), in.GetMovesClaimId(), in.GetUsages(), in.GetTtl().AsDuration())
}

// MoveClaim takes up the claim of an instance that comes from another host.
func (c *Claims) MoveClaim(in *agentv1.MoveClaimRequest) (*agentv1.HostClaim, error) {
	return c.claimForOperation(moveClaim, in.GetClaimId(), in.GetInstanceUuid(), in.GetMovesClaimId(), in.GetUsages(), in.GetTtl().AsDuration())
}

// AbortClaim gives back a claim that an operation took up: from then on it takes nothing on the host.
// Each replica that offered the claim gets a verdict, now or when its stream is back. It refuses with
// ALREADY_EXISTS a claim that is the only one of an instance on the host, and a confirmed move. An
// aborted claim of the cell is listed until the cell ends it, and one made on the host until its time
// is over. Idempotent.
func (c *Claims) AbortClaim(id string) (*agentv1.HostClaim, error) {
	id = canonical(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.expire(c.now())
	h := c.ledger.held[id]
	switch {
	case h == nil:
		return nil, fault.New(fault.NotFound, "no claim %s on this host", id)
	case c.ledger.covered(h), c.ledger.alone(h):
		return nil, fault.New(fault.AlreadyExists, "instance %s of claim %s is on the host", h.instance, id)
	case h.movesForGood():
		return nil, fault.New(fault.AlreadyExists, "claim %s is confirmed, which has ended claim %s of instance %s: select again to move it back, or release the claim", id, h.moves, h.instance)
	}
	if !h.aborted {
		c.ledger.abort(h)
		close(c.verdictQueued)
		c.verdictQueued = make(chan struct{})
	}
	return c.ledger.show(h), nil
}

// List lists the claims on the host, by claim_id.
func (c *Claims) List() []*agentv1.HostClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.expire(c.now())
	list := make([]*agentv1.HostClaim, 0, len(c.ledger.held)+len(c.ledger.rejected))
	for _, h := range c.ledger.held {
		list = append(list, c.ledger.show(h))
	}
	for id, r := range c.ledger.rejected {
		list = append(list, &agentv1.HostClaim{ClaimId: id, InstanceUuid: r.instance, Offered: true, State: agentv1.HostClaim_REJECTED, Verdict: r.verdict})
	}
	slices.SortFunc(list, func(a, b *agentv1.HostClaim) int { return strings.Compare(a.GetClaimId(), b.GetClaimId()) })
	return list
}

func (c *Claims) claimForOperation(kind claimKind, id, instance, moves string, usages []*agentv1.Usage, ttl time.Duration) (*agentv1.HostClaim, error) {
	if ttl < 0 || ttl > localClaimAtAll {
		return nil, fault.Invalid("ttl", "must be 0 to %v", localClaimAtAll)
	}
	if ttl == 0 {
		ttl = localClaimFor
	}
	id, instance, moves, usages = canonical(id), canonical(instance), canonical(moves), canonicalUsages(usages)
	c.mu.Lock()
	defer c.mu.Unlock()
	l, now := c.ledger, c.now()
	l.expire(now)
	if r, is := l.rejected[id]; is {
		return nil, rejectedError(r.verdict)
	}
	if h := l.held[id]; h != nil {
		if err := h.checkOperation(kind, instance, usages); err != nil {
			return nil, err
		}
		h.kind = kind
		if len(h.offers) == 0 {
			h.until = now.Add(ttl)
		}
		return l.show(h), nil
	}
	if there, is := l.exist[instance]; is && len(usages) > 0 && kind != resizeClaim && sameUsages(usages, there) {
		return &agentv1.HostClaim{ClaimId: id, InstanceUuid: instance, MovesClaimId: moves, Usages: usages, Operation: string(kind), State: agentv1.HostClaim_RUNNING}, nil
	}
	if len(usages) == 0 {
		return nil, fault.Invalid("usages", "must not be empty: the cell has not offered claim %s", id)
	}
	if l.local() >= maxLocalClaims {
		return nil, fault.New(fault.Overloaded, "%d claims were made on this host already", maxLocalClaims)
	}
	h := &heldClaim{id: id, instance: instance, moves: moves, usages: usages, kind: kind, at: now, until: now.Add(ttl)}
	if kind == resizeClaim && h.moves == "" {
		h.moves = l.claimOf(instance)
	}
	if reason, detail := l.judgeLocal(h); reason != ok {
		return nil, rejectedError(l.verdict(id, reason, detail))
	}
	l.hold(h)
	return l.show(h), nil
}

// checkOperation returns an error if an operation does not match the held claim.
func (h *heldClaim) checkOperation(kind claimKind, instance string, usages []*agentv1.Usage) error {
	switch {
	case h.instance != instance:
		return fault.Invalid("instance_uuid", "claim %s is of instance %s", h.id, h.instance)
	case h.aborted:
		return fault.New(fault.ClaimExpired, "claim %s was aborted", h.id)
	case h.kind != "" && h.kind != kind:
		return fault.New(fault.AlreadyExists, "claim %s was taken up as %s", h.id, h.kind)
	case len(usages) > 0 && !sameUsages(usages, h.usages):
		return fault.Invalid("usages", "claim %s has others", h.id)
	}
	return nil
}

func rejectedError(v *agentv1.Verdict) error {
	return fault.New(fault.ClaimRejected, "the host rejects claim %s: %s: %s", v.GetClaimId(), v.GetReason(), v.GetDetail())
}

// judgeLocal is judge for an operation on the host. The new size of an instance on the host counts
// beside its present usage, whichever claim that has.
func (l *ledger) judgeLocal(c *heldClaim) (agentv1.Verdict_Reason, string) {
	if _, there := l.exist[c.instance]; there && c.kind != resizeClaim {
		return agentv1.Verdict_INSTANCE_EXISTS, "instance " + c.instance + " is on the host"
	}
	return l.judge(c)
}

// claimOf returns a claim of an instance on the host; "" for none.
func (l *ledger) claimOf(instance string) string {
	for id, c := range l.held {
		if c.instance == instance {
			return id
		}
	}
	return ""
}

// local counts the claims that were made on the host.
func (l *ledger) local() (n int) {
	for _, c := range l.held {
		if len(c.offers) == 0 {
			n++
		}
	}
	return n
}

func (l *ledger) show(c *heldClaim) *agentv1.HostClaim {
	out := &agentv1.HostClaim{
		ClaimId: c.id, InstanceUuid: c.instance, MovesClaimId: c.moves, Usages: c.usages, Confirmed: c.confirmed,
		Offered: len(c.offers) > 0, Operation: string(c.kind), State: agentv1.HostClaim_HELD,
	}
	switch {
	case l.covered(c), c.aborted && l.alone(c):
		out.State = agentv1.HostClaim_RUNNING
	case c.aborted:
		out.State = agentv1.HostClaim_ABORTED
	}
	return out
}

// canonical returns an id in the cell's form: a uuid in lower case, any other id unchanged.
func canonical(id string) string {
	if rpc.IsUUID(id) {
		return strings.ToLower(id)
	}
	return id
}

// canonicalUsages gives copies of usages with canonical providers.
func canonicalUsages(usages []*agentv1.Usage) []*agentv1.Usage {
	out := make([]*agentv1.Usage, len(usages))
	for i, u := range usages {
		out[i] = proto.CloneOf(u)
		out[i].ProviderUuid = canonical(u.GetProviderUuid())
	}
	return out
}
