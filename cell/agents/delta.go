package agents

import (
	"fmt"
	"strings"

	"cellgate/internal/hoststate"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// applyDelta returns the state that results from applying a delta to the held state. It does not change
// the held state, which shares its unchanged parts with the new one. The schema has already checked the
// delta's fields one by one: the error names conflicts between fields, and with the held state. Epoch
// and follow are the delta's.
func applyDelta(held *agentv1.FullState, d *agentv1.Delta) (*agentv1.FullState, error) {
	out := hoststate.ShallowCopy(held)
	out.Version, out.Epoch, out.Follow = d.GetVersion(), d.GetEpoch(), d.GetFollow()
	var bad stateReader
	if d.GetVersion() <= d.GetBaseVersion() {
		bad.Problem("version", "must be above base_version (%d)", d.GetBaseVersion())
	}
	if d.Disabled != nil {
		out.Disabled = d.GetDisabled()
	}
	if d.DisabledReason != nil {
		out.DisabledReason = d.GetDisabledReason()
	}
	if d.IoWorkload != nil {
		out.IoWorkload = d.GetIoWorkload()
	}
	if d.FailedBuilds != nil {
		out.FailedBuilds = d.GetFailedBuilds()
	}
	if d.Facts != nil {
		out.Facts = d.GetFacts()
	}
	if d.Aggregates != nil {
		out.Aggregates = d.GetAggregates().GetAggregates()
	}
	out.Providers = edited(&bad, "providers", ".uuid", held.GetProviders(), d.GetProviders(), d.GetRemovedProviders(), (*agentv1.Provider).GetUuid)
	out.Instances = edited(&bad, "instances", ".instance_uuid", held.GetInstances(), d.GetInstances(), d.GetRemovedInstances(), (*agentv1.Instance).GetInstanceUuid)
	out.Namespaces = edited(&bad, "namespaces", ".name", held.GetNamespaces(), d.GetNamespaces(), d.GetRemovedNamespaces(), (*agentv1.Namespace).GetName)
	bad.bound("providers", len(out.GetProviders()), 1, maxProviders)
	bad.bound("instances", len(out.GetInstances()), 0, maxInstances)
	bad.bound("namespaces", len(out.GetNamespaces()), 0, maxNamespaces)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// bound checks the length of a list.
func (r *stateReader) bound(list string, n, least, most int) {
	if n < least || n > most {
		r.Problem(list, "would have %d items, must have %d to %d", n, least, most)
	}
}

// The maximum list lengths of a FullState, as in its schema. After a delta only the lengths are
// checked: the items that were held before are valid already.
const (
	maxProviders  = 256
	maxInstances  = 10_000
	maxNamespaces = 64
)

// edited returns the held list with changes: each item of put replaces the item of the same name or is
// appended, and the items that gone names are removed. Names compare without case, as uuids do.
func edited[M any](bad *stateReader, list, field string, held, put []M, gone []string, nameOf func(M) string) []M {
	if len(put) == 0 && len(gone) == 0 {
		return held
	}
	name := func(m M) string { return strings.ToLower(nameOf(m)) }
	next := make(map[string]M, len(put))
	for i, m := range put {
		if _, twice := next[name(m)]; twice {
			bad.Problem(fmt.Sprintf("%s[%d]%s", list, i, field), "%s stands there already", nameOf(m))
		}
		next[name(m)] = m
	}
	const leave, left = 1, 2
	leaves := make(map[string]int, len(gone))
	for i, n := range gone {
		path := fmt.Sprintf("removed_%s[%d]", list, i)
		n := strings.ToLower(n)
		if _, both := next[n]; both {
			bad.Problem(path, "%s stands in %s too", gone[i], list)
		}
		if _, twice := leaves[n]; twice {
			bad.Problem(path, "%s stands there already", gone[i])
		}
		leaves[n] = leave
	}
	out := make([]M, 0, len(held)+len(put))
	placed := make(map[string]struct{}, len(put))
	for _, m := range held {
		n := name(m)
		if leaves[n] != 0 {
			leaves[n] = left
			continue
		}
		if changed, ok := next[n]; ok {
			m = changed
			placed[n] = struct{}{}
		}
		out = append(out, m)
	}
	for i, n := range gone {
		if leaves[strings.ToLower(n)] == leave {
			bad.Problem(fmt.Sprintf("removed_%s[%d]", list, i), "%s is not held", n)
		}
	}
	for _, m := range put {
		if _, there := placed[name(m)]; !there {
			out = append(out, m)
		}
	}
	return out
}
