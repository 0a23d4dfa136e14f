package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/norace"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// weather delays every call between the parts by a random time, releases most, and loses some
// replies. A caller with a short deadline can give up at any point of its call.
type weather struct {
	mu   sync.Mutex
	rng  *rand.Rand
	fair bool
	// lossless: replies are late, but none is lost.
	lossless bool
	lost     int
}

const (
	// slowest is the longest delay of a call, its reply, or a transaction. slowestRelease is that
	// of a release.
	slowest        = 10 * time.Millisecond
	slowestRelease = 300 * time.Millisecond
	// One in oneIn replies is lost.
	oneIn = 40
)

// faultsFor says how late a call and its reply are, and whether the reply is lost.
func (w *weather) faultsFor(kind string) (call, reply time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fair {
		return 0, 0, false
	}
	most := slowest
	if strings.Contains(kind, "release") {
		most = slowestRelease
	}
	lost = !w.lossless && w.rng.IntN(oneIn) == 0
	if lost {
		w.lost++
	}
	return time.Duration(w.rng.Int64N(int64(most))), time.Duration(w.rng.Int64N(int64(slowest))), lost
}

func (w *weather) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fair = true
}

// A caller's deadline ends at any point of its request, and the caller repeats the request at once
// until it is answered. The claims of that answer stay, confirmed or not: late releases of earlier
// calls do not end them. No other claim stays longer than its lease.
func TestI3_CallersThatGiveUpAndRepeatAtOnce(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	gaveUp, lost := 0, 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sky := &weather{rng: rand.New(rand.NewPCG(seed, 1))}
				rng := rand.New(rand.NewPCG(seed, 2))
				n := newNetwork()
				n.weather = sky
				w := start(t, n)
				c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
				r := request("build", 1, 2)
				if seed%3 == 0 {
					r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: uuidOf(0x6, 1), Policy: "affinity"}
				}
				for range 1 + rng.IntN(3) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(80))*time.Millisecond)
					if _, err := c.scheduler.SelectDestinations(ctx, r); err != nil {
						gaveUp++
					}
					cancel()
				}
				acknowledged := c.selects(r)
				confirm := seed%2 == 0
				if confirm {
					for i, s := range acknowledged {
						c.confirms(uuidOf(0x1, 1+i), s)
					}
				}
				sky.clear()
				lost += sky.lost
				// All messages in flight have arrived, and cells whose breaker opened are asked
				// again.
				time.Sleep(10 * time.Second)
				w.stand(acknowledged, confirm)
				for i, s := range c.selects(r) {
					if was := acknowledged[i]; s.GetClaimId() != was.GetClaimId() {
						t.Errorf("instance %d is answered %s in %s, was %s in %s", i, s.GetClaimId(), s.GetCell(), was.GetClaimId(), was.GetCell())
					}
				}
				left := w.settle().claims
				if confirm {
					w.stand(acknowledged, true)
				}
				if want := map[bool]int{true: len(acknowledged)}[confirm]; len(left) != want {
					t.Errorf("%d claims are left after their leases, want %d: %v", len(left), want, left)
				}
			})
		})
	}
	t.Logf("%d calls were given up or failed, %d replies were lost", gaveUp, lost)
	if gaveUp == 0 || lost == 0 {
		t.Error("nothing went wrong: the test proves little")
	}
}

// stand checks that each selection's claim is live on the host that was answered.
func (w *world) stand(selected []*cellgatev1.Selection, confirmed bool) {
	w.t.Helper()
	for i, s := range selected {
		var found *shard.Claim
		for _, store := range w.stores {
			p, err := store.FindClaims(context.Background(), shard.ClaimQuery{ClaimIDs: []string{s.GetClaimId()}, Ended: true})
			must(w.t, err)
			if len(p.Claims) > 0 && p.Claims[0].HostUUID != "" {
				found = p.Claims[0]
			}
		}
		want := shard.Pending
		if confirmed {
			want = shard.Confirmed
		}
		switch {
		case found == nil:
			w.t.Errorf("I3: instance %d was answered %s on %s in %s; there is no such claim", i, s.GetClaimId(), s.GetServiceHost(), s.GetCell())
		case found.State != want || found.HostUUID != s.GetComputeNodeUuid():
			w.t.Errorf("I3: instance %d was answered %s on %s in %s; it is %s on %s, want %s",
				i, s.GetClaimId(), s.GetServiceHost(), s.GetCell(), found.State, found.ServiceHost, want)
		}
	}
}

// No reply is lost, and nobody repeats the call. The claims of the call that was given up are
// released long before their leases end.
func TestI4_WhatACallGivenUpClaimedIsGoneSoon(t *testing.T) {
	norace.Skip(t, norace.Runtime)
	gaveUp := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork()
			n.weather = &weather{rng: rand.New(rand.NewPCG(seed, 1)), lossless: true}
			w := start(t, n)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(2+2*seed)*time.Millisecond)
			defer cancel()
			resp, err := w.scheduler.SelectDestinations(ctx, request("build", 1, 2))
			// Releases take at most 2 s, and the last one needs time to arrive.
			time.Sleep(3 * time.Second)
			live := 0
			for _, store := range w.stores {
				p, err := store.FindClaims(context.Background(), shard.ClaimQuery{})
				must(t, err)
				live += len(p.Claims)
			}
			if want := len(resp.GetDestinations()); live != want {
				t.Errorf("seed %d: %d claims are left, %d were answered (%v)", seed, live, want, err)
			}
			if err != nil {
				gaveUp++
			}
		})
	}
	if gaveUp == 0 || gaveUp == 40 {
		t.Errorf("%d calls of 40 were given up: the test proves little", gaveUp)
	}
}

// A lease's end is committed, but the cell gets an error. The claim gives its resources back
// exactly once.
func TestI4_LostReplyOfAnExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		n.loseFirst = "expire"
		w := start(t, n)
		c := &conductor{world: w, answers: map[string]*cellgatev1.SelectDestinationsResponse{}}
		c.selects(within(request("build", 1, 2), "cell1"))
		n.watch(true)
		if left := w.settle().claims; len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if !n.lost {
			t.Errorf("no expiry was lost: calls are %v", n.calls())
		}
		// The resources are free again.
		c.selects(within(request("again", 10, 8), "cell1"))
	})
}
