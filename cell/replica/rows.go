package replica

import (
	"cmp"
	"sync"
	"sync/atomic"

	"cellgate/schedule"
	"cellgate/shard"
)

// Rows is the shard as this replica knows it: hosts, their usage and the live claims. The writer
// applies changes; all others read. Rows may arrive more than once and, from different lanes, in any
// order: the newer one wins.
type Rows struct {
	mu sync.RWMutex
	// publishing is held by the writer from the change of rows until the table shows it.
	publishing sync.RWMutex
	hosts      map[string]*HostRow
	claims     map[string]*shard.Claim
	byConsumer map[string][]*shard.Claim
	// transferred are the transferred claims of byConsumer, by their instance.
	transferred map[string][]*shard.Claim
	// onHost are the live claims, by host, then claim_id.
	onHost map[string]map[string]*shard.Claim
	// ended are claims that ended since the journal was last read to its end, endedBefore those that
	// ended earlier. They keep an older row of another lane from bringing a claim back.
	ended, endedBefore map[string]*shard.Claim
	// gate is the cell's gate; nil for none.
	gate *shard.Gate
	// TableGate is the gate under which the newest table was built: older tables do not show its effect
	// on imported hosts.
	TableGate atomic.Pointer[shard.Gate]
	// goneFacts are the namespaces that were removed since the journal was last read to its end, by
	// host and name; goneBefore those that were removed earlier.
	goneFacts, goneBefore map[[2]string]struct{}
	// comingFacts are the facts of states that are on their way, by host.
	comingFacts map[string]*Facts
	// waits has a channel for each host whose row callers wait for; it is closed when the row changes.
	waits map[string]chan struct{}
	// importsStale: the import of Nova's tables is too old (importAge.Check).
	importsStale atomic.Bool
	index        hostIndex
	trees        treeIndex
}

// HostRow is a host with the usage of its claims. It is immutable. Host is nil while only the usage is
// known. It is also nil for a host that is gone or has no compute service: then Gone is its row. Usage
// is nil if nothing was ever claimed.
type HostRow struct {
	id    schedule.ID
	Host  *shard.Host
	Gone  *shard.Host
	Usage *shard.Usage
	// Namespaces are by name. Removed ones stay for a while, without Facts, so that an older row of
	// another lane does not bring one back. The map is immutable.
	Namespaces map[string]*shard.Namespace
	// texts are FactTexts for the table; nil for none, and while there is no host.
	texts *schedule.Namespaces
	// Admin is the operator's state of the host; nil for none.
	Admin *shard.AdminState
	// Facts are the host's; nil while there was no host.
	Facts *Facts
}

// dirty is what a batch of changes affects.
type dirty struct {
	// hosts: true when the whole row changed, false when only the usage.
	hosts map[string]bool
	// instances are those that may be on other hosts now.
	instances map[string]struct{}
	// hardware are hosts whose claims take other NUMA cells or devices now.
	hardware map[string]struct{}
	// registered are hosts whose own row changed.
	registered map[string]struct{}
}

func newDirty() *dirty {
	return &dirty{hosts: map[string]bool{}, instances: map[string]struct{}{}, hardware: map[string]struct{}{}, registered: map[string]struct{}{}}
}

func (d *dirty) empty() bool {
	return len(d.hosts) == 0 && len(d.instances) == 0 && len(d.hardware) == 0
}

func newRows() *Rows {
	return &Rows{
		hosts:      map[string]*HostRow{},
		claims:     map[string]*shard.Claim{},
		byConsumer: map[string][]*shard.Claim{}, transferred: map[string][]*shard.Claim{},
		onHost: map[string]map[string]*shard.Claim{}, ended: map[string]*shard.Claim{},
		comingFacts: map[string]*Facts{}, waits: map[string]chan struct{}{}, index: newHostIndex(), trees: newTreeIndex(),
	}
}

// apply applies changes and records in d what they affect. It returns an error if this replica cannot
// read a row; the other rows are applied.
func (r *Rows) apply(changes []shard.Change, d *dirty) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		switch {
		case c.Host != nil:
			if e := r.applyHost(c.Host, d); e != nil {
				err = e
			}
		case c.Usage != nil:
			if e := r.applyUsage(c.Usage, d); e != nil {
				err = e
			}
		case c.Claim != nil:
			r.applyClaim(c.Claim, d)
		case c.Gate != nil:
			if r.gate == nil || r.gate.Revision < c.Gate.Revision {
				r.gate = c.Gate
			}
		case c.Namespace != nil:
			if e := r.applyNamespace(c.Namespace, d); e != nil {
				err = e
			}
		case c.Name != nil:
			r.trees.setName(c.Name)
		case c.AdminState != nil:
			if e := r.applyAdminState(c.AdminState, d); e != nil {
				err = e
			}
		}
	}
	return err
}

// next is a copy of a host's row, to be changed.
func (r *Rows) next(uuid string) (HostRow, error) {
	if old := r.hosts[uuid]; old != nil {
		return *old, nil
	}
	id, err := schedule.ParseID(uuid)
	return HostRow{id: id}, err
}

func (r *Rows) applyHost(h *shard.Host, d *dirty) error {
	next, err := r.next(h.UUID)
	was := next.Row()
	if err != nil || was != nil && h.Generation <= was.Generation {
		return err
	}
	next.Host, next.Gone, next.Facts = h, nil, r.readLocked(h)
	// Parsed namespaces are reused while their texts are the same.
	if was == nil || ownNamespaces(was) != ownNamespaces(h) {
		next.texts = schedule.NewNamespaces(next.FactTexts())
	}
	r.put(h.UUID, &next)
	d.hosts[h.UUID] = true
	d.registered[h.UUID] = struct{}{}
	return nil
}

// Row is the host's row, gone or not; nil while only the usage has been seen.
func (h *HostRow) Row() *shard.Host { return cmp.Or(h.Host, h.Gone) }

// HostInService is the row of a host in service, nil for none.
func (r *Rows) HostInService(uuid string) *shard.Host {
	if row := r.Host(uuid); row != nil {
		return row.Host
	}
	return nil
}

// put replaces a host's row. It moves Host to Gone if the host has no compute service, or is gone and
// has no claims.
func (r *Rows) put(uuid string, next *HostRow) {
	if h := next.Row(); h != nil {
		next.Host, next.Gone = h, nil
		if h.ServiceHost == "" || h.Gone() && (next.Usage == nil || next.Usage.Pending+next.Usage.Confirmed == 0) {
			next.Host, next.Gone = nil, h
		}
	}
	var was *shard.Host
	if old := r.hosts[uuid]; old != nil {
		was = old.Host
		r.trees.drop(old.Row())
	}
	r.trees.add(next.Row())
	r.index.replace(was, next.Host)
	r.hosts[uuid] = next
}

// wake wakes those who wait for a change of hosts' rows.
func (r *Rows) wake(hosts map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uuid := range hosts {
		if wait, ok := r.waits[uuid]; ok {
			close(wait)
			delete(r.waits, uuid)
		}
	}
}

// AwaitHost returns a channel that is closed when the table shows a newer row of the host.
func (r *Rows) AwaitHost(uuid string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait, ok := r.waits[uuid]
	if !ok {
		wait = make(chan struct{})
		r.waits[uuid] = wait
	}
	return wait
}

func (r *Rows) applyUsage(u *shard.Usage, d *dirty) error {
	next, err := r.next(u.HostUUID)
	if err != nil || next.Usage != nil && u.Generation <= next.Usage.Generation {
		return err
	}
	was, same := r.hosts[u.HostUUID], shard.SameUse(next.Usage, u)
	next.Usage = u
	r.put(u.HostUUID, &next)
	// A host that comes back or goes with its usage changes as a whole.
	turned := was != nil && (was.Host == nil) != (next.Host == nil)
	if same && !turned { // the table shows no generation
		return nil
	}
	d.hosts[u.HostUUID] = d.hosts[u.HostUUID] || turned
	return nil
}

// forgetEnded is called when the journal was read to its end. Claims that ended before the previous
// such reading cannot come back any more, and are forgotten.
func (r *Rows) forgetEnded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetGone()
	if len(r.ended) == 0 && len(r.endedBefore) == 0 {
		return
	}
	r.endedBefore = r.ended
	r.ended = map[string]*shard.Claim{}
}

// InstancesUnknown reports whether the host's agent does not know its instances.
func (h *HostRow) InstancesUnknown() bool {
	return h != nil && h.Host != nil && !h.Host.Imported && h.Host.InstancesUnknown
}
