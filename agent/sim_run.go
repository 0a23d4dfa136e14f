package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// simPace is how long what is told of claims on simulated hosts is gathered: one report
// of a host has all of it.
const simPace = time.Second

// computes run what is confirmed on simulated hosts, as their computes would: the
// instance of a confirmed claim is reported from then on, and no more when the claim is
// not on the host any more. Of claims with NUMA cells or devices nothing is run: the host
// would have to report what their instances take of them.
type computes struct {
	hosts []*Host
	// ran has, by host, the instances of the claims that were run, by claim_id. Only Run
	// uses it.
	ran []map[string]string

	mu sync.Mutex
	// told are the hosts of whose claims something was told; wake has an element while
	// there are some.
	told map[int]struct{}
	wake chan struct{}
}

func newComputes(hosts []*Host) *computes {
	c := &computes{hosts: hosts, ran: make([]map[string]string, len(hosts)), told: map[int]struct{}{}, wake: make(chan struct{}, 1)}
	for i, h := range hosts {
		h.claims.onNews(func() { c.tell(i) })
	}
	return c
}

// tell notes that there is news of claims on a host. It never waits.
func (c *computes) tell(host int) {
	c.mu.Lock()
	c.told[host] = struct{}{}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run follows the claims until ctx ends.
func (c *computes) run(ctx context.Context) error {
	pace := stopped()
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
			pace.Reset(simPace)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pace.C:
		}
		c.mu.Lock()
		hosts := slices.Sorted(maps.Keys(c.told))
		clear(c.told)
		c.mu.Unlock()
		for _, i := range hosts {
			c.follow(i)
		}
	}
}

// follow brings a host's instances in line with its claims. The instances that it has
// from the start go only when a claim that it ran replaced them.
func (c *computes) follow(host int) {
	h := c.hosts[host]
	wanted, ran := h.claims.confirmed(), c.ran[host]
	runs := make(map[string]string, len(wanted))
	byInstance := make(map[string]*agentv1.Instance, len(wanted))
	for _, w := range wanted {
		runs[w.claim] = w.instance.GetInstanceUuid()
		byInstance[w.instance.GetInstanceUuid()] = w.instance
	}
	gone := map[string]struct{}{}
	for claim, instance := range ran {
		if _, still := runs[claim]; !still && byInstance[instance] == nil {
			gone[instance] = struct{}{}
		}
	}
	c.ran[host] = runs
	state, _ := h.State()
	changed := false
	var instances []*agentv1.Instance
	for _, i := range state.GetInstances() {
		id := i.GetInstanceUuid()
		want := byInstance[id]
		delete(byInstance, id)
		switch _, ended := gone[id]; {
		case ended:
			changed = true
		case want != nil && !sameUsages(want.GetUsages(), i.GetUsages()):
			instances, changed = append(instances, want), true
		default:
			instances = append(instances, i)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byInstance)) {
		instances, changed = append(instances, byInstance[id]), true
	}
	if changed {
		next := sharing(state)
		next.Instances = instances
		h.Put(next)
	}
}
