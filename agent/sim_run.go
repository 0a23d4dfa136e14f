package agent

import (
	"context"
	"fmt"
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

// Simulation is a Source of made-up hosts. Their states do not change, except for the instances of
// claims that their cell confirms, which run as nova-compute would run them. A host reports the
// instance of a confirmed claim from simStart on, and until the claim leaves the host. The instance
// then makes room at once, before the next report. Claims with NUMA cells or devices do not run: the
// host would have to report which of them the instances take.
type Simulation struct {
	hosts []*Host
	// ran has, by host, the instances of the claims that ran, by claim_id. Only Run uses it.
	ran []map[string]string

	mu sync.Mutex
	// due are the hosts whose claims must be read, and when; wake has an element if one was added.
	due  map[int]time.Time
	wake chan struct{}
}

// NewSimulation makes hosts of a cell, whose service hosts are named after it. The seed decides
// everything that samples/README.md leaves open: equal seeds give equal hosts, however many there are.
func NewSimulation(seed uint64, cell string, hosts int) (*Simulation, error) {
	if hosts < 1 {
		return nil, fmt.Errorf("a simulation needs at least 1 host, not %d", hosts)
	}
	s := &Simulation{hosts: make([]*Host, hosts), ran: make([]map[string]string, hosts), due: map[int]time.Time{}, wake: make(chan struct{}, 1)}
	for i := range s.hosts {
		h := NewHost(Simulate(seed, cell, i))
		h.claims.onNews(func() { s.notifyClaims(i) })
		s.hosts[i] = h
	}
	return s, nil
}

// Hosts are the made-up hosts.
func (s *Simulation) Hosts() []*Host { return s.hosts }

// notifyClaims records that a host's claims changed. It never blocks.
func (s *Simulation) notifyClaims(host int) {
	s.scheduleRead(host, time.Now().Add(simPace))
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// scheduleRead makes a host due at a time, or earlier if it already is.
func (s *Simulation) scheduleRead(host int, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if due, is := s.due[host]; !is || at.Before(due) {
		s.due[host] = at
	}
}

// dueHosts returns the hosts that are due, and when the next one is; zero for none.
func (s *Simulation) dueHosts(now time.Time) (hosts []int, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, at := range s.due {
		switch {
		case !at.After(now):
			hosts = append(hosts, host)
			delete(s.due, host)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.Sort(hosts)
	return hosts, next
}

// Run follows the claims that the hosts' cell confirms until ctx ends.
func (s *Simulation) Run(ctx context.Context) error {
	pace := stopped()
	defer pace.Stop()
	var next time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			if soon := time.Now().Add(simPace); next.IsZero() || soon.Before(next) {
				next = soon
				pace.Reset(simPace)
			}
			continue
		case <-pace.C:
		}
		hosts, _ := s.dueHosts(time.Now())
		for _, i := range hosts {
			if at := s.follow(i); !at.IsZero() {
				s.scheduleRead(i, at)
			}
		}
		if _, next = s.dueHosts(time.Time{}); !next.IsZero() {
			pace.Reset(max(simPace, time.Until(next)))
		}
	}
}

// follow brings a host's instances in line with its claims. Instances that the host has from the start
// are removed only if a claim that it ran replaced them. follow returns when the next claim's instance
// will have started; zero for none.
func (s *Simulation) follow(host int) (next time.Time) {
	h := s.hosts[host]
	wanted, next := h.claims.confirmed(simStart)
	ran := s.ran[host]
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
	s.ran[host] = runs
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
