package cell

import (
	"strings"
	"sync"
	"time"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// reported is what the agents of hosts said last on their streams to this replica. The
// zero value is ready.
type reported struct {
	mu    sync.Mutex
	hosts map[string]*report
}

// report is the newest state of a host that was accepted. It is not changed.
type report struct {
	state *agentv1.FullState
	// host is the state as a row would have it.
	host func() *shard.Host
	by   *agentSession
	// writes: the agent asks this replica, of all that hear it, to write its states.
	writes bool
	// gone are the instances that an earlier state of the same agent life had, heard on
	// this stream or the one before, and this one has not: since when, on this stream.
	gone map[string]time.Time
}

// heard takes a state that was accepted on a stream.
func (r *reported) heard(by *agentSession, host string, state *agentv1.FullState, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts == nil {
		r.hosts = map[string]*report{}
	}
	read := sync.OnceValue(func() *shard.Host {
		put, err := putHostOf(state)
		if err != nil {
			return nil // it was accepted, so it can be read
		}
		return &put.Host
	})
	r.hosts[host] = &report{state: state, host: read, by: by, writes: !state.GetFollow(), gone: goneSince(r.hosts[host], by, state, now)}
}

// goneSince gives report.gone of a state after the report before, nil for none. Of
// what was said while no stream was here nothing is known: on a new stream all time
// begins anew.
func goneSince(before *report, by *agentSession, state *agentv1.FullState, now time.Time) map[string]time.Time {
	if before == nil || !sameUUID(before.state.GetBootId(), state.GetBootId()) || state.GetInstancesUnknown() {
		return nil
	}
	had, has := before.state.GetInstances(), state.GetInstances()
	same := len(had) == len(has) && (len(had) == 0 || had[0] == has[0] && had[len(had)-1] == has[len(has)-1])
	if same && before.by == by && len(before.gone) == 0 && sameInstances(had, has) {
		return nil
	}
	there := make(map[string]struct{}, len(has))
	for _, i := range has {
		there[strings.ToLower(i.GetInstanceUuid())] = struct{}{}
	}
	gone := map[string]time.Time{}
	for id, since := range before.gone {
		if _, ok := there[id]; ok {
			continue
		}
		if before.by != by {
			since = now
		}
		gone[id] = since
	}
	for _, i := range had {
		id := strings.ToLower(i.GetInstanceUuid())
		if _, ok := there[id]; !ok {
			gone[id] = now
		}
	}
	return gone
}

// sameInstances reports whether two lists share their messages, as after a delta of
// something else.
func sameInstances(a, b []*agentv1.Instance) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// of gives a host's report; nil for none.
func (r *reported) of(host string) *report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hosts[host]
}

// keep forgets of a host's report those gone instances that keep does not want.
func (r *reported) keep(host string, of *report, keep func(instance string) bool) {
	left := map[string]time.Time{}
	for id, since := range of.gone {
		if keep(id) {
			left[id] = since
		}
	}
	if len(left) == len(of.gone) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hosts[host] == of {
		next := *of
		next.gone = left
		r.hosts[host] = &next
	}
}

// saidBy is the registration of a report.
func (r *report) saidBy() shard.Registration {
	return shard.Registration{BootID: strings.ToLower(r.state.GetBootId()), StateVersion: r.state.GetVersion()}
}
