package replica

import (
	"strings"

	"cellgate/shard"
)

// HostLoad is a number of hosts and the approximate size of their rows.
type HostLoad struct {
	Hosts int
	Bytes int64
}

func loadOf(h *shard.Host) HostLoad {
	if h == nil {
		return HostLoad{}
	}
	return HostLoad{1, sizeOf(h)}
}

func (l HostLoad) plus(o HostLoad) HostLoad {
	return HostLoad{l.Hosts + o.Hosts, l.Bytes + o.Bytes}
}

func (l HostLoad) minus(o HostLoad) HostLoad {
	return HostLoad{l.Hosts - o.Hosts, l.Bytes - o.Bytes}
}

// sizeOf is the approximate size of a host's row, in bytes.
func sizeOf(h *shard.Host) int64 {
	const each = 64 // of an item without its texts
	n := each + len(h.UUID) + len(h.ServiceHost) + len(h.NodeName) + len(h.DisabledReason) + len(h.HypervisorType) + len(h.HostIP) + len(h.BootID)
	for i := range h.Providers {
		p := &h.Providers[i]
		n += each + len(p.UUID) + len(p.ParentUUID) + len(p.Name)
		for i := range p.Inventories {
			n += each + len(p.Inventories[i].ResourceClass)
		}
		for _, t := range p.Traits {
			n += 16 + len(t)
		}
	}
	for i := range h.Aggregates {
		n += each + len(h.Aggregates[i].UUID) + len(h.Aggregates[i].Name)
		for k, v := range h.Aggregates[i].Metadata {
			n += 32 + len(k) + len(v)
		}
	}
	if f := h.Facts; f != nil {
		n += len(f.CPUInfo) + len(f.SupportedInstances) + len(f.Stats) + len(f.Metrics) + len(f.NUMATopology) + len(f.PCIStats) + len(f.Namespaces)
	}
	if f := h.Nova; f != nil {
		n += len(f.NUMATopology) + len(f.PCIStats)
	}
	return int64(n)
}

// eachName calls do with the names that the cell's summary has of a host: traits, resource classes, and what is known of
// aggregates, of which some values name zones and tenants.
func eachName(h *shard.Host, do func(name string)) {
	for i := range h.Providers {
		for _, t := range h.Providers[i].Traits {
			do(t)
		}
		for k := range h.Providers[i].Inventories {
			do(h.Providers[i].Inventories[k].ResourceClass)
		}
	}
	for i := range h.Aggregates {
		do(h.Aggregates[i].UUID)
		do(h.Aggregates[i].Name)
		for _, v := range h.Aggregates[i].Metadata {
			do(v)
		}
	}
}

// sizeOfName is the size of a name in a summary, in bytes.
func sizeOfName(name string) int64 { return int64(len(name)) + 8 }

// hostIndex follows the rows of hosts: their load by service host, including admitted rows that are not
// in the table yet, their names, and the host of each provider. Guarded by the lock of Rows.
type hostIndex struct {
	all       HostLoad
	byService map[string]HostLoad
	reserved  map[string]*reservedHost
	// names counts how often each name is there; nameBytes is the size of all names.
	names     map[string]int
	nameBytes int64
	// byProvider has the host of each provider, including roots.
	byProvider map[string]string
}

// reservedHost is an admitted row, and its additional load over the row before it.
type reservedHost struct {
	host *shard.Host
	more HostLoad
}

func newHostIndex() hostIndex {
	return hostIndex{byService: map[string]HostLoad{}, reserved: map[string]*reservedHost{}, names: map[string]int{}, byProvider: map[string]string{}}
}

func (x *hostIndex) add(service string, l HostLoad) {
	x.all = x.all.plus(l)
	if sum := x.byService[service].plus(l); sum != (HostLoad{}) {
		x.byService[service] = sum
	} else {
		delete(x.byService, service)
	}
}

// addNames counts the names of a host (by is 1), or no longer counts them (by is -1).
func (x *hostIndex) addNames(h *shard.Host, by int) {
	eachName(h, func(name string) {
		if x.names[name] == 0 {
			x.nameBytes += sizeOfName(name)
		}
		if x.names[name] += by; x.names[name] == 0 {
			x.nameBytes -= sizeOfName(name)
			delete(x.names, name)
		}
	})
}

// newNames is the size of the names that only this host would have.
func (x *hostIndex) newNames(h *shard.Host) int64 {
	before := x.nameBytes
	x.addNames(h, 1)
	defer x.addNames(h, -1)
	return x.nameBytes - before
}

// reserve counts an admitted row until it is in the table or settled.
func (x *hostIndex) reserve(uuid string, c *reservedHost) {
	x.unreserve(uuid, x.reserved[uuid])
	x.reserved[uuid] = c
	x.add(c.host.ServiceHost, c.more)
	x.addNames(c.host, 1)
}

// unreserve stops counting an admitted row, unless a later one was admitted.
func (x *hostIndex) unreserve(uuid string, c *reservedHost) {
	if c != nil && x.reserved[uuid] == c {
		delete(x.reserved, uuid)
		x.add(c.host.ServiceHost, HostLoad{}.minus(c.more))
		x.addNames(c.host, -1)
	}
}

// replace replaces a host's row; was and now may be nil.
func (x *hostIndex) replace(was, now *shard.Host) {
	if was == now {
		return
	}
	if was != nil {
		x.add(was.ServiceHost, HostLoad{}.minus(loadOf(was)))
		x.addNames(was, -1)
		for i := range was.Providers {
			if id := was.Providers[i].UUID; x.byProvider[id] == was.UUID {
				delete(x.byProvider, id)
			}
		}
	}
	if now != nil {
		x.unreserve(now.UUID, x.reserved[now.UUID])
		x.add(now.ServiceHost, loadOf(now))
		x.addNames(now, 1)
		for i := range now.Providers {
			x.byProvider[now.Providers[i].UUID] = now.UUID
		}
	}
}

// sumOf sums the load of hosts by service host; a name may end in *.
func (x *hostIndex) sumOf(services []string) (sum HostLoad) {
	for _, name := range services {
		if !strings.HasSuffix(name, "*") {
			sum = sum.plus(x.byService[name])
			continue
		}
		for service, l := range x.byService {
			if strings.HasPrefix(service, strings.TrimSuffix(name, "*")) {
				sum = sum.plus(l)
			}
		}
	}
	return sum
}

// ForeignProvider finds the first provider of a host that belongs to another host. It returns the
// provider's index and the other host's uuid; -1 for none.
func (r *Rows) ForeignProvider(h *shard.Host) (at int, of string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range h.Providers {
		if of, known := r.index.byProvider[h.Providers[i].UUID]; known && of != h.UUID {
			return i, of
		}
	}
	return -1, ""
}

// Reserve counts a row that is about to be written, unless check refuses the resulting load of the
// named services' hosts or of the whole cell, or the size of the cell's names. The caller calls settle when the
// row is in the table or was not written. A row that is no larger than the one before, and has no new
// names, is not checked.
func (r *Rows) Reserve(h *shard.Host, services []string, check func(caller, all HostLoad, names int64) error) (settle func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &reservedHost{host: h, more: loadOf(h)}
	if row := r.hosts[h.UUID]; row != nil {
		next.more = next.more.minus(loadOf(row.Host))
	}
	names := r.index.newNames(h)
	if next.more.Hosts <= 0 && next.more.Bytes <= 0 && names == 0 {
		return func() {}, nil
	}
	r.index.unreserve(h.UUID, r.index.reserved[h.UUID])
	if names > 0 {
		names = r.index.nameBytes + r.index.newNames(h)
	}
	if err := check(r.index.sumOf(services).plus(next.more), r.index.all.plus(next.more), names); err != nil {
		return nil, err
	}
	r.index.reserve(h.UUID, next)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.index.unreserve(h.UUID, next)
	}, nil
}
