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
	// reader made the snapshot before; its numbers of revisions are its own.
	reader *novadb.Reader
	// again has the next pass be a full one.
	again atomic.Bool
	// passes counts the passes that were finished; since is the At of the last one,
	// nextFull when the next one is to be of all rows. first is the last pass whose new
	// instances may have claims: the first one, one that Again began, one after a stale pass.
	passes   uint64
	first    uint64
	since    time.Time
	nextFull time.Time
	steps    uint64
	asked    bool // a Lister, for hosts of earlier imports
	// cursor is the NodeID of the host that the last step ended with, for want of room.
	cursor int64
	// unclaimed are the instances without a claim that the last search found, searchedAt is
	// its store time.
	unclaimed  map[schedule.ID]*missing
	searchedAt time.Time

	// mu guards what follows, for moments.
	mu    sync.Mutex
	known *known
	hosts map[schedule.ID]*host
	// version is the last state's; see data.
	version uint64
	data    data
}

// host is what is known of one that the cell has, or is to have.
type host struct {
	// inputs are those of the state that the cell took last, of which sum is the digest;
	// settled says that there is one.
	inputs  inputs
	sum     digest
	settled bool
	// agents: the cell left it to its agent. refused is why the cell did not take it.
	agents bool
	// taken: its agent does not know its instances, and the cell took those that were sent.
	taken   bool
	refused string
	// outdated: the cell has an import of newer data.
	outdated bool
	// conflicts: an instance has a claim elsewhere, or a claim or the cell's import is newer than the rows,
	// so it is sent again at step again.
	conflicts uint
	again     uint64
	// letGo: it has no row, and no instance by what the cell took last.
	letGo bool
	// missing is the steps in a row without a row for it, seen the last one with it.
	missing int
	seen    uint64
	// shape is the state to send once the host has no row any more.
	shape *agentv1.FullState
	at    place
}

// inputs are what a state is made of. The same inputs make the same state.
type inputs struct {
	revision uint64
	at       place
	disabled bool
	reason   string
	// nova is hashOf the row, with which an agent's host is sent again.
	nova uint64
	// changes and counted are of its instances.
	changes uint64
	counted int
	gone    bool
	// former: what is in use at its place may be held by another host.
	former bool
	// moved: it is gone, and another host has its place.
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

// Step reads the rows of instances that changed, and sends the hosts of x, and those
// that have gone, whose state is not what the cell took last: at most Config.StepHosts.
// Report.Waiting says how many are left. The report is of what was done, with an error
// too; the next Step goes on from there.
func (m *Importer) Step(ctx context.Context, x *novadb.Snapshot, c Caller) (Report, error) {
	m.stepping.Lock()
	defer m.stepping.Unlock()
	r := Report{At: x.At}
	if r.Behind = m.behind(x); r.Behind > 0 {
		return r, nil
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
	asked := m.askForGone(ctx, c)
	if err = m.send(ctx, m.plan(x, &r), m.instancesAt(), c, &r); err == nil {
		err = m.sendDeleted(ctx, c, &r)
	}
	m.agentHosts(x, &r)
	slices.SortFunc(r.LeftOut, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Host, b.Host), cmp.Compare(a.UUID, b.UUID))
	})
	return r, errors.Join(asked, err)
}

// agentHosts counts the hosts of x that agents speak for, and those with newer imports.
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

// takeBack has the next Step send the hosts that were left to agents: the gate keeps these from
// speaking for them.
func (m *Importer) takeBack() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.hosts {
		if h.agents {
			h.agents, h.taken, h.settled, h.inputs = false, false, false, inputs{}
		}
	}
}

// Again has the next Step pass over all instances and send all hosts: another gateway
// may have imported meanwhile.
func (m *Importer) Again() { m.again.Store(true) }

// rows are where the instances of a snapshot are read.
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
