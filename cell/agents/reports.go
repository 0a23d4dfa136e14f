package agents

import (
	"strings"
	"sync"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// reports are the agents' last reports on their streams to this replica. The
// zero value is ready.
type reports struct {
	mu    sync.Mutex
	hosts map[string]*Report
}

// Report is the newest accepted state of a host. It is immutable.
type Report struct {
	State *agentv1.FullState
	// host returns the state as a row.
	host func() *shard.Host
	by   *stream
	// Writes: the agent asks this replica, and no other, to write its states.
	Writes bool
	// Gone are the instances that this state lacks and an earlier one of the same agent incarnation
	// had, on this stream or the one before. The value is since when, on this stream.
	Gone map[string]time.Time
}

// noteAccepted records a state that was accepted on a stream.
func (r *reports) noteAccepted(by *stream, host string, state *agentv1.FullState, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts == nil {
		r.hosts = map[string]*Report{}
	}
	read := sync.OnceValue(func() *shard.Host {
		put, err := readHost(state)
		if err != nil {
			return nil // it was accepted, so it can be read
		}
		return &put.Host
	})
	r.hosts[host] = &Report{State: state, host: read, by: by, Writes: !state.GetFollow(), Gone: goneSince(r.hosts[host], by, state, now)}
}

// forget removes a host's report if it is a stream's.
func (r *reports) forget(host string, by *stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rep := r.hosts[host]; rep != nil && rep.by == by {
		delete(r.hosts, host)
	}
}

// goneSince computes Report.Gone of a state from the report before it; before may be nil. Nothing is
// known about the time between two streams, so on a new stream all times start again.
func goneSince(before *Report, by *stream, state *agentv1.FullState, now time.Time) map[string]time.Time {
	if before == nil || !strings.EqualFold(before.State.GetBootId(), state.GetBootId()) || state.GetInstancesUnknown() {
		return nil
	}
	there, gone := reportedIn(state), map[string]time.Time{}
	for id, since := range before.Gone {
		if _, ok := there[id]; ok {
			continue
		}
		if before.by != by {
			since = now
		}
		gone[id] = since
	}
	for id := range reportedIn(before.State) {
		if _, ok := there[id]; !ok {
			gone[id] = now
		}
	}
	return gone
}

// Newest gives a host's report; nil for none.
func (r *reports) Newest(host string) *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[host]
}

// KeepGone removes from a host's report the gone instances for which keep is false.
func (r *reports) KeepGone(host string, of *Report, keep func(instance string) bool) {
	left := map[string]time.Time{}
	for id, since := range of.Gone {
		if keep(id) {
			left[id] = since
		}
	}
	if len(left) == len(of.Gone) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[host] == of {
		next := *of
		next.Gone = left
		r.hosts[host] = &next
	}
}

// Registration returns the incarnation and version of a report.
func (r *Report) Registration() shard.Registration {
	return shard.Registration{BootID: strings.ToLower(r.State.GetBootId()), StateVersion: r.State.GetVersion()}
}

// InstancesOf gives the instances of a report, and their ids as rows have them.
func InstancesOf(r *Report) (ids []string, by map[string]*agentv1.Instance) {
	by = make(map[string]*agentv1.Instance, len(r.State.GetInstances()))
	for _, i := range r.State.GetInstances() {
		id := strings.ToLower(i.GetInstanceUuid())
		ids, by[id] = append(ids, id), i
	}
	return ids, by
}
