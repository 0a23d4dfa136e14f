package cell

import (
	"strings"

	"cellgate/internal/security"
	"cellgate/shard"
)

// hostLoad is how many hosts there are and about how many bytes their rows take.
type hostLoad struct {
	hosts int
	bytes int64
}

func loadOf(h *shard.Host) hostLoad {
	if h == nil {
		return hostLoad{}
	}
	return hostLoad{1, sizeOf(h)}
}

func (l hostLoad) plus(o hostLoad) hostLoad { return hostLoad{l.hosts + o.hosts, l.bytes + o.bytes} }

func (l hostLoad) minus(o hostLoad) hostLoad { return hostLoad{l.hosts - o.hosts, l.bytes - o.bytes} }

// sizeOf is about how many bytes a host's row takes.
func sizeOf(h *shard.Host) int64 {
	const each = 64 // of an item besides its texts
	n := each + len(h.UUID) + len(h.ServiceHost) + len(h.NodeName) + len(h.DisabledReason) + len(h.HypervisorType) + len(h.HostIP) + len(h.BootID)
	for i := range h.Providers {
		p := &h.Providers[i]
		n += each + len(p.UUID) + len(p.ParentUUID) + len(p.Name) + each*len(p.Inventories)
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
	return int64(n)
}

// hostIndex follows the rows of hosts: what they take by service host, with what was
// admitted and is not in the table yet, and whose each provider is. Its lock is the rows'.
type hostIndex struct {
	all       hostLoad
	byService map[string]hostLoad
	coming    map[string]*comingHost
	// byProvider has the host of each provider, roots too.
	byProvider map[string]string
}

// comingHost is what a row that was admitted takes more than the one before.
type comingHost struct {
	service string
	more    hostLoad
}

func newHostIndex() hostIndex {
	return hostIndex{byService: map[string]hostLoad{}, coming: map[string]*comingHost{}, byProvider: map[string]string{}}
}

func (x *hostIndex) add(service string, l hostLoad) {
	x.all = x.all.plus(l)
	if sum := x.byService[service].plus(l); sum != (hostLoad{}) {
		x.byService[service] = sum
	} else {
		delete(x.byService, service)
	}
}

// expect counts a row that was admitted, until it is there or settled.
func (x *hostIndex) expect(uuid string, c *comingHost) {
	x.settle(uuid, x.coming[uuid])
	x.coming[uuid] = c
	x.add(c.service, c.more)
}

// settle counts a row no more that was admitted, unless a later one was.
func (x *hostIndex) settle(uuid string, c *comingHost) {
	if c != nil && x.coming[uuid] == c {
		delete(x.coming, uuid)
		x.add(c.service, hostLoad{}.minus(c.more))
	}
}

// replace takes a host's row in place of another; nil for none.
func (x *hostIndex) replace(was, now *shard.Host) {
	if was == now {
		return
	}
	if was != nil {
		x.add(was.ServiceHost, hostLoad{}.minus(loadOf(was)))
		for i := range was.Providers {
			if id := was.Providers[i].UUID; x.byProvider[id] == was.UUID {
				delete(x.byProvider, id)
			}
		}
	}
	if now != nil {
		x.settle(now.UUID, x.coming[now.UUID])
		x.add(now.ServiceHost, loadOf(now))
		for i := range now.Providers {
			x.byProvider[now.Providers[i].UUID] = now.UUID
		}
	}
}

// of sums what the hosts take that a caller speaks for.
func (x *hostIndex) of(id *security.Identity) (sum hostLoad) {
	for _, name := range id.Hosts {
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
