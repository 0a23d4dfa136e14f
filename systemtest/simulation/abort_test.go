package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/cell/agents"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// failure is a caller whose instance's build fails on its host, which aborts the claim.
type failure struct {
	n    int
	at   time.Duration
	seed uint64
}

// drawFailures uses its own random source, so that it changes nothing else of the plan.
func (p *plan) drawFailures(length int) {
	draw := rand.New(rand.NewPCG(p.seed, 0x53))
	for n := range length * (2 + draw.IntN(3)) {
		p.failures = append(p.failures, failure{n: n, at: p.moment(draw), seed: draw.Uint64()})
	}
}

// fail plays a failure.
func (w *world) fail(f failure) {
	c := &caller{world: w, n: 20_000 + f.n, rng: rand.New(rand.NewPCG(f.seed, 9))}
	w.ends(c, c.fails())
}

// fails claims a host, may confirm, and makes the host abort the build. It then goes on as a
// conductor may: it takes an alternate, releases, or leaves.
func (c *caller) fails() error {
	vcpus := int32(1 + c.rng.IntN(2))
	req := &cellgatev1.SelectDestinationsRequest{
		RequestId: fmt.Sprintf("fails-%d", c.n), InstanceUuids: []string{uuidOf(0x3, c.n)}, ReturnAlternates: true,
		ClaimTtl: durationpb.New(time.Duration(5+c.rng.IntN(25)) * time.Second),
		Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
			Flavor: &cellgatev1.Flavor{Vcpus: vcpus, MemoryMb: memoryOf(vcpus), RootGb: diskOf(vcpus)}, ProjectId: "p",
		}},
	}
	got, err := c.selects(req)
	if err != nil {
		return err
	}
	b := &builtOn{consumer: req.GetInstanceUuids()[0], vcpus: vcpus, promise: got[0], host: c.world.hostOf(got[0].hostUUID)}
	if c.rng.IntN(3) == 0 {
		if ok, err := c.confirms(b, true); err != nil || !ok {
			return err
		}
	}
	c.pause(2 * time.Second)
	if !c.aborts(b) {
		return c.releases(b, true)
	}
	c.pause(time.Second)
	switch c.rng.IntN(4) {
	case 0:
		b.promise.set(func(p *promise) { p.left = true })
		return nil // its lease ends the claim, or the abort has ended it
	case 1:
		return c.releases(b, true)
	case 2:
		// The caller does not know of the abort, or the verdict is late.
		if ok, err := c.confirms(b, true); err != nil || !ok {
			return err
		}
		return c.releases(b, true)
	}
	if err := c.alternate(b); err != nil {
		return err
	}
	if ok, err := c.confirms(b, true); err != nil || !ok {
		return err
	}
	if c.build(b) != nil {
		return c.releases(b, true)
	}
	return nil
}

// aborts makes the host take the claim up and abort it, once or twice. It returns false if the host
// refuses, or has no such claim any more.
func (c *caller) aborts(b *builtOn) bool {
	h := b.host
	h.mu.Lock()
	t := h.agent
	h.mu.Unlock()
	if t == nil {
		return false
	}
	take := &agentv1.InstanceClaimRequest{ClaimId: b.promise.claim, InstanceUuid: b.consumer, Usages: usagesOf(h.uuid, b.vcpus)}
	if _, err := t.host.Claims().InstanceClaim(take); err != nil {
		return false
	}
	c.pause(time.Second)
	return c.world.abort(h, t, b.promise) && (c.rng.IntN(2) == 0 || c.world.abort(h, t, b.promise))
}

// abort makes a host give a claim back. It returns false if the host does not have the claim any
// more.
func (w *world) abort(h *host, t *agentRun, p *promise) bool {
	var was promise
	p.set(func(p *promise) {
		was = *p
		p.abortedOn, p.abortedBy = h.uuid, t
	})
	_, err := t.host.Claims().AbortClaim(p.claim)
	w.trace("%s aborts claim %s: %s", h.name, short8(p.claim), short(err))
	if err != nil {
		p.set(func(p *promise) { p.abortedOn, p.abortedBy = was.abortedOn, was.abortedBy })
		return false
	}
	w.count("aborted")
	return true
}

// gaveBack checks what the host's abort of a claim does to it. The caller holds mu.
func (k *checks) gaveBack(was, is *shard.Claim, bad func(string, ...any)) {
	p := k.promises[is.ClaimID]
	aborted := p != nil && p.abortedOn == is.HostUUID && k.world.plan.mode != agents.VerifyShadow
	switch {
	case is.GaveBack() && !aborted:
		bad("its host gave it back, and did not abort it")
	case is.State == shard.Pending && len(is.Allocations) == 0 && !is.GaveBack():
		bad("it takes nothing")
	case is.GaveBack() && len(is.Allocations) > 0:
		bad("its host gave it back, and it takes %v", is.Allocations)
	case was != nil && was.GaveBack() && is.State == shard.Confirmed && !is.Seen:
		bad("its host gave it back, and it is confirmed")
	}
	if is.GaveBack() && (was == nil || !was.GaveBack()) {
		k.world.count("an abort gave room back")
	}
}

// abortEnds reports whether the host's abort of a confirmed claim ends the claim. One transaction
// may confirm and end it. The caller holds mu.
func (k *checks) abortEnds(was, is *shard.Claim) bool {
	p := k.promises[is.ClaimID]
	if p == nil || p.abortedOn != is.HostUUID || was.State != shard.Confirmed && !p.confirming || was.Seen || is.Verdict == nil || is.Verdict.Reason != shard.ReasonAborted || k.world.plan.mode == agents.VerifyShadow {
		return false
	}
	k.world.count("an abort ended a confirmed claim")
	return true
}

// compareAborts checks that no claim is confirmed on a host whose agent aborted it and still runs.
// Shadow mode is exempt, and so are claims whose instances the host reported all the same.
func (w *world) compareAborts() {
	if w.plan.mode == agents.VerifyShadow {
		return
	}
	w.checks.mu.Lock()
	defer w.checks.mu.Unlock()
	for _, id := range sortedKeys(w.checks.promises) {
		p := w.checks.promises[id]
		c := w.checks.claimOf(id)
		if p.abortedOn == "" || c == nil || c.HostUUID != p.abortedOn || c.State != shard.Confirmed || c.Seen {
			continue
		}
		h := w.hostOf(p.abortedOn)
		h.mu.Lock()
		incarnations := h.agent == p.abortedBy
		h.mu.Unlock()
		if incarnations {
			w.wrong("%s aborted claim %s of %s, and it is confirmed there", h.name, short8(id), p.consumer)
		}
	}
}

// mishap is what happens to an abort on its way from an agent.
type mishap int

const (
	abortArrives mishap = iota
	// heardNot: the connection breaks before the replica reads the abort.
	abortLost
	// heardTwice: the abort arrives a second time, late.
	abortRepeated
)

// againAfter is the delay of that second arrival.
const againAfter = 3 * time.Second

// mishapOf draws what happens to an abort. The n-th abort of a host always has the same mishap.
// After the faults there is none.
func (w *world) mishapOf(host string) mishap {
	if w.over() {
		return abortArrives
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aborts == nil {
		w.aborts = map[string]int{}
	}
	w.aborts[host]++
	rng := rand.New(rand.NewPCG(w.plan.seed, hash(host, fmt.Sprint(w.aborts[host]))))
	return mishap(rng.IntN(3))
}

// garbled applies a mishap to a verdict that a replica receives. An error breaks the stream.
func (s *reportStream) garbled(v *agentv1.Verdict) error {
	if v.GetReason() != agentv1.Verdict_ABORTED {
		return nil
	}
	switch s.world.mishapOf(s.host) {
	case abortLost:
		s.world.count("aborts lost")
		return status.Error(codes.Unavailable, "the connection broke before an abort was read")
	case abortRepeated:
		s.late = append(s.late, lateWord{proto.CloneOf(v), time.Now().Add(againAfter)})
	}
	return nil
}

// lateWord is a verdict that arrives a second time.
type lateWord struct {
	verdict *agentv1.Verdict
	at      time.Time
}

// comesAgain returns a verdict whose second arrival is due, or nil.
func (s *reportStream) comesAgain() *agentv1.Verdict {
	if len(s.late) == 0 || time.Now().Before(s.late[0].at) {
		return nil
	}
	v := s.late[0].verdict
	s.late = s.late[1:]
	s.world.count("aborts doubled")
	return v
}
