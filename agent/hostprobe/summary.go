package hostprobe

import (
	"fmt"
	"strings"
)

// Node describes a reported NUMA node for operators. Sets of CPUs are texts: "0-3,8".
type Node struct {
	ID int
	// Socket is "-" if the node's CPUs are in several sockets.
	Socket                    string
	Shared, Dedicated, Pinned string
	MemoryMB, UsedMB          int64
	// Pages has one text for each size: "4096 x 2048 KiB (64 reserved)".
	Pages []string
}

// Pool describes a pool of equal devices for operators.
type Pool struct {
	Free                int
	VendorID, ProductID string
	// NUMANode is "-" if it is unknown.
	NUMANode string
	// Tags are name=value, including the kind.
	Tags []string
}

// summarize fills in the fields for operators.
func (r *Report) summarize(m *Machine, with *settled, u *usage, pools []pool) {
	shared, _, pinnable := with.cpusOf(m)
	for i := range m.nodes {
		n := &m.nodes[i]
		used := u.nodes[n.id]
		out := Node{
			ID: n.id, Socket: "-", Shared: n.cpus.and(shared).String(), Dedicated: n.cpus.and(pinnable).String(), Pinned: used.pinned.String(),
			MemoryMB: n.memoryKB >> 10, UsedMB: used.memoryMB,
		}
		if id, one := m.socketOf(n); one {
			out.Socket = fmt.Sprint(id)
		}
		for _, p := range n.pages {
			if p.total > 0 {
				out.Pages = append(out.Pages, pageText(p, used.pages[p.sizeKB], with.pages[pageKey{n.id, p.sizeKB}]))
			}
		}
		r.Nodes = append(r.Nodes, out)
	}
	for _, p := range pools {
		out := Pool{Free: p.count, VendorID: p.vendor, ProductID: p.product, NUMANode: "-", Tags: p.tagList()}
		if p.node != nil {
			out.NUMANode = fmt.Sprint(*p.node)
		}
		r.Pools = append(r.Pools, out)
	}
	sockets, cores, threads := m.topology()
	r.CPU = fmt.Sprintf("%s: %d online, %d sockets a NUMA node, %d cores a socket, %d threads a core",
		strings.TrimSpace(m.arch+" "+m.info.model), len(m.cpus), sockets, cores, threads)
}

func pageText(p pages, used, reserved int64) string {
	text := fmt.Sprintf("%d x %d KiB", p.total, p.sizeKB)
	if used > 0 {
		text += fmt.Sprintf(" (%d used)", used)
	}
	if reserved > 0 {
		text += fmt.Sprintf(" (%d reserved)", reserved)
	}
	return text
}
