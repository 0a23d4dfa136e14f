package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// simPace is how long changes of a simulated host's claims are gathered into one report. simStart is
// how long an instance takes to start after its claim is confirmed. A claim that is released within
// that time never runs, as in a load test.
const (
	simPace  = time.Second
	simStart = 30 * time.Second
)

// computes run the confirmed claims of simulated hosts, as nova-compute would. A host reports the
// instance of a confirmed claim from simStart on, and until the claim leaves the host. The instance
// then makes room at once, before the next report. Claims with NUMA cells or devices do not run: the
// host would have to report which of them the instances take.
type computes struct {
	hosts []*Host
	// ran has, by host, the instances of the claims that ran, by claim_id. Only run uses it.
	ran []map[string]string

	mu sync.Mutex
	// due are the hosts whose claims must be read, and when; wake has an element if one was added.
	due  map[int]time.Time
	wake chan struct{}
}

func newComputes(hosts []*Host) *computes {
	c := &computes{hosts: hosts, ran: make([]map[string]string, len(hosts)), due: map[int]time.Time{}, wake: make(chan struct{}, 1)}
	for i, h := range hosts {
		h.claims.onNews(func() { c.notifyClaims(i) })
	}
	return c
}

// notifyClaims records that a host's claims changed. It never blocks.
func (c *computes) notifyClaims(host int) {
	c.scheduleRead(host, time.Now().Add(simPace))
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// scheduleRead makes a host due at a time, or earlier if it already is.
func (c *computes) scheduleRead(host int, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if due, is := c.due[host]; !is || at.Before(due) {
		c.due[host] = at
	}
}

// dueHosts returns the hosts that are due, and when the next one is; zero for none.
func (c *computes) dueHosts(now time.Time) (hosts []int, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for host, at := range c.due {
		switch {
		case !at.After(now):
			hosts = append(hosts, host)
			delete(c.due, host)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.Sort(hosts)
	return hosts, next
}

// run follows the claims until ctx ends.
func (c *computes) run(ctx context.Context) error {
	pace := stopped()
	defer pace.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
			if soon := time.Now().Add(simPace); next.IsZero() || soon.Before(next) {
				next = soon
				pace.Reset(simPace)
			}
			continue
		case <-pace.C:
		}
		hosts, _ := c.dueHosts(time.Now())
		for _, i := range hosts {
			if at := c.follow(i); !at.IsZero() {
				c.scheduleRead(i, at)
			}
		}
		if _, next = c.dueHosts(time.Time{}); !next.IsZero() {
			pace.Reset(max(simPace, time.Until(next)))
		}
	}
}

// follow brings a host's instances in line with its claims. Instances that the host has from the start
// are removed only if a claim that it ran replaced them. follow returns when the next claim's instance
// will have started; zero for none.
func (c *computes) follow(host int) (next time.Time) {
	h := c.hosts[host]
	wanted, next := h.claims.confirmed(simStart)
	ran := c.ran[host]
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
		state = hoststate.ShallowCopy(state)
		state.Instances = instances
		h.Put(state)
	}
	h.claims.runs(runs)
	return next
}
