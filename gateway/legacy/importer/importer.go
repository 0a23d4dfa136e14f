package importer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

// Importer fills one cell's shard. One Step runs at a time.
type Importer struct {
	conf Config
	boot string
	// stepping is held by a Step.
	stepping sync.Mutex
	reading  *reading
	// reader made the previous snapshot. Revisions are only comparable within one reader.
	reader *novadb.Reader
	// again makes the next pass a full one.
	again atomic.Bool
	// passes counts the finished passes. since is the At of the last one, nextFull the time
	// of the next full one. first is the last pass whose new instances may already have
	// claims: the first pass, one that Again began, or one after a stale pass.
	passes   uint64
	first    uint64
	since    time.Time
	nextFull time.Time
	steps    uint64
	asked    bool // the cell was asked for hosts of earlier imports
	// cursor is the NodeID of the last host that the step had room for; 0 if it had room for all.
	cursor int64
	// unclaimed are the instances without a claim in the last search; searchedAt is its store
	// time.
	unclaimed  map[schedule.ID]*missing
	searchedAt time.Time

	// mu guards the fields below, and is only held briefly.
	mu    sync.Mutex
	known *known
	hosts map[schedule.ID]*host
	// version is that of the last state; see nextVersion.
	version uint64
	data    data
}

// host is a host that the cell has, or is to have.
type host struct {
	// inputs and sum are the inputs and the digest of the last state that the cell took;
	// settled is set if there is one.
	inputs  inputs
	sum     digest
	settled bool
	// agents: the cell left the host to its agent. refused is why the cell did not take the host.
	agents bool
	// taken: the host's agent does not know its instances, and the cell took those that were sent.
	taken   bool
	refused string
	// outdated: the cell has an import of newer data.
	outdated bool
	// conflicts counts sends in a row with a conflict: an instance has a claim elsewhere, or a claim or the cell's
	// import is newer than the rows. The host is then sent again at step again.
	conflicts uint
	again     uint64
	// released: the host has no row, and had no instance in the state that the cell took last.
	released bool
	// missing is the number of steps in a row without a row for the host, seen the last step with one.
	missing int
	seen    uint64
	// shape is the state to send once the host has no row any more.
	shape *agentv1.FullState
	at    place
}

// inputs determine a state: equal inputs give equal states.
type inputs struct {
	revision uint64
	at       place
	disabled bool
	reason   string
	// nova is hashOf the row; an agent's host is sent again only if it changes.
	nova uint64
	// changes and counted are of the host's instances.
	changes uint64
	counted int
	gone    bool
	// former: another host may hold the instances at its place.
	former bool
	// moved: the host is gone, and another host has its place.
	moved bool
}

// New makes an importer. It has no goroutines, and nothing to close.
func New(c Config) (*Importer, error) {
	if c.Cell == "" {
		return nil, fault.Invalid("cell", "is empty")
	}
	c = c.withDefaults()
	return &Importer{
		conf: c, boot: bootID(c.Cell), known: newKnown(c.MaxInstances), hosts: map[schedule.ID]*host{},
	}, nil
}

// Step reads the rows of instances that changed. It then sends the hosts of x, and those that
// have gone, whose state is not the one that the cell took last: at most Config.StepHosts. If all have gone at once,
// it sends nothing and gives an error.
// Report.Waiting is the number of hosts left. The report is valid with an error too; the next
// Step goes on from there.
func (m *Importer) Step(ctx context.Context, x *novadb.Snapshot, c Cell) (Report, error) {
	m.stepping.Lock()
	defer m.stepping.Unlock()
	r := Report{At: x.At}
	if r.Behind = m.behind(x); r.Behind > 0 {
		return r, nil
	}
	asked := m.askForGone(ctx, c)
	if len(x.Hosts) == 0 && m.startAnew() {
		return r, errors.Join(asked, fault.New(fault.CellUnavailable,
			"no row of compute_nodes is a host of cell %s any more, so nothing is imported: the tables are being restored, are another cell's, or cannot be read (cellgate doctor upgrade names the rows). If the hosts are gone for good, delete them (cellgate hosts delete)", m.conf.Cell))
	}
	full, err := m.pass(ctx, m.rows(x))
	r.Full = full
	var old *behindError
	if errors.As(err, &old) {
		r.Behind = old.by
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err = m.send(ctx, m.plan(x, &r), m.instancesAt(), c, &r); err == nil {
		err = m.sendDeleted(ctx, c, &r)
	}
	m.agentHosts(x, &r)
	slices.SortFunc(r.LeftOut, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host), cmp.Compare(a.UUID, b.UUID))
	})
	return r, errors.Join(asked, err)
}

// agentHosts counts the hosts of x that are left to agents, and those with newer imports.
func (m *Importer) agentHosts(x *novadb.Snapshot, r *Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range x.Hosts {
		h := m.hosts[x.Hosts[i].UUID]
		if h != nil && h.outdated {
			r.Outdated++
		}
		if h != nil && h.agents {
			r.AgentHosts++
		}
	}
}

// takeBack makes the next Step send all hosts: the gate no longer lets agents report them. An agent may
// also have reported a host that no Step has sent since.
func (m *Importer) takeBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hosts {
		h.agents, h.taken, h.settled, h.inputs = false, false, false, inputs{}
	}
}

// startAnew forgets all hosts: the next Step asks the cell for them, reads all instances and sends all hosts. It
// reports whether there were any.
func (m *Importer) startAnew() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.hosts) == 0 {
		return false
	}
	m.hosts, m.asked = map[schedule.ID]*host{}, false
	m.Again()
	return true
}

// Again makes the next Step read all instances and send all hosts, since another gateway may
// have imported meanwhile.
func (m *Importer) Again() { m.again.Store(true) }

// rows gives the source of a snapshot's instances. If the reader changed, all hosts are due again.
func (m *Importer) rows(x *novadb.Snapshot) Rows {
	if of := x.Reader(); of != m.reader {
		m.reader = of
		m.mu.Lock()
		for _, h := range m.hosts {
			h.inputs = inputs{}
		}
		m.mu.Unlock()
	}
	return m.rowsOf(x)
}

func (m *Importer) rowsOf(x *novadb.Snapshot) Rows {
	if m.conf.Rows != nil {
		return m.conf.Rows
	}
	return x.Reader()
}
