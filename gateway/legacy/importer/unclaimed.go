package importer

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// findAtOnce bounds the instances of a call.
	findAtOnce = 16_384
	// findRate bounds the instances per second that are searched for: larger searches are rarer.
	findRate = 20_000
)

// Unclaimed is the result of searches for instances without a claim.
type Unclaimed struct {
	// Settled is a store time: each instance that had no claim then has one by now, or is no
	// instance any more. An instance that is being built or deleted has no claim for a while,
	// and Settled moves past it.
	Settled time.Time
	// Found are the instances without a claim in the last search, by host and uuid; Lasting
	// counts those that the previous search found too.
	Found   []UnclaimedInstance
	Lasting int
}

// UnclaimedInstance is an instance without a claim.
type UnclaimedInstance struct {
	UUID string
	// Host and HostUUID are the host in the instance's row.
	Host, HostUUID string
	Lasting        bool
}

// missing is an instance without a claim in the last searches in a row. before is the store
// time of the search before them.
type missing struct {
	before   time.Time
	searches int
}

// FindUnclaimed searches for instances without a live claim, among those that the last pass
// found on hosts of x. Instances whose row cannot be imported, or whose node is not their
// host's, are included, since an agent may list them. Instances on hosts that x does not have
// are not: nothing is placed on such hosts. The next Step sends the host of an instance that two
// searches in a row have found.
func (m *Importer) FindUnclaimed(ctx context.Context, x *novadb.Snapshot, c Cell) (Unclaimed, error) {
	m.stepping.Lock()
	defer m.stepping.Unlock()
	all := m.placed(x)
	ids := slices.Collect(maps.Keys(all))
	found, at := map[schedule.ID]*missing{}, time.Time{}
	for part := range slices.Chunk(ids, findAtOnce) {
		out, err := c.FindUnclaimed(ctx, &cellv1.FindUnclaimedRequest{Instances: packed(part)})
		if err != nil {
			return Unclaimed{}, err
		}
		if t := out.GetAt().AsTime(); at.IsZero() || t.Before(at) {
			at = t
		}
		unclaimed, err := unpacked(out.GetUnclaimed())
		if err != nil {
			return Unclaimed{}, err
		}
		for id := range unclaimed {
			was := m.unclaimed[id]
			if was == nil {
				was = &missing{before: m.searchedAt}
			}
			found[id] = &missing{was.before, was.searches + 1}
		}
	}
	if len(ids) == 0 {
		// Without instances there was no call, so the store's time is not known yet.
		out, err := c.FindUnclaimed(ctx, &cellv1.FindUnclaimedRequest{})
		if err != nil {
			return Unclaimed{}, err
		}
		at = out.GetAt().AsTime()
	}
	m.unclaimed, m.searchedAt = found, at
	m.mu.Lock()
	defer m.mu.Unlock()
	u := Unclaimed{Settled: at}
	for id, is := range found {
		if is.before.Before(u.Settled) {
			u.Settled = is.before
		}
		on := all[id]
		if on == nil {
			return Unclaimed{}, fault.New(fault.Internal, "the cell named an instance that it was not asked for")
		}
		one := UnclaimedInstance{UUID: id.String(), Host: on.ServiceHost, HostUUID: on.UUID.String(), Lasting: is.searches > 1}
		if one.Lasting {
			u.Lasting++
		}
		if h := m.hosts[on.UUID]; h != nil && is.searches == 2 {
			h.inputs, h.sum = inputs{}, digest{} // its claim was released, or lost: the next Step sends its host
		}
		u.Found = append(u.Found, one)
	}
	slices.SortFunc(u.Found, func(a, b UnclaimedInstance) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.UUID, b.UUID))
	})
	return u, nil
}

// placed gives the host in x of each instance. If no host has the instance's node, it gives a
// host with the same name.
func (m *Importer) placed(x *novadb.Snapshot) map[schedule.ID]*novadb.Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.newPlanning(x, nil)
	hosts, named := map[place]*novadb.Host{}, map[string]*novadb.Host{}
	for i := range x.Hosts {
		h := &x.Hosts[i]
		named[h.ServiceHost] = h
		for _, at := range p.placesOf(place{h.ServiceHost, h.NodeName}) {
			hosts[at] = h
		}
	}
	all := make(map[schedule.ID]*novadb.Host, len(m.known.by))
	for id, i := range m.known.by {
		h := hosts[i.at]
		if h == nil {
			h = named[i.at.host]
		}
		if h != nil {
			all[id] = h
		}
	}
	for _, b := range m.known.bad {
		id, err := schedule.ParseID(b.UUID)
		if h := named[b.Host]; err == nil && h != nil {
			all[id] = h
		}
	}
	return all
}

// searchInterval gives the time between two searches, by the number of instances.
func searchInterval(instances int) time.Duration {
	return time.Duration(instances) * time.Second / findRate
}
