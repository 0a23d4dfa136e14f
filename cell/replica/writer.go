package replica

import (
	"log/slog"

	"cellgate/cell/liveness"
	"cellgate/cell/proposals"
	"cellgate/schedule"
	"cellgate/shard"
)

// maxUpdates bounds how many waiting updates become one version.
const maxUpdates = 64

// tableUpdate is changes on their way into the table. The writer's goroutine calls afterPublish once
// the newest version has them; it must not block.
type tableUpdate struct {
	changes      []shard.Change
	afterPublish func()
}

// Writer builds all versions of the table. Updates that wait while one version is built go into the
// next one.
type Writer struct {
	cell     string
	rows     *Rows
	live     *liveness.Tracker
	versions *proposals.Versions
	log      *slog.Logger
	in       chan tableUpdate
	// imports is checked before the next version is built, if the gate's row changed; may be nil.
	imports *importAge
	// mostNames is the size of the table's names, in bytes, beyond which the next version is built from nothing:
	// leastNames, or more if the names of the present hosts need more.
	mostNames, leastNames int
}

// leastNames is far above what the names of a cell take: one or two megabytes.
const leastNames = 64 << 20

func newWriter(cellUUID string, r *Rows, l *liveness.Tracker, v *proposals.Versions, imports *importAge, log *slog.Logger) *Writer {
	return &Writer{
		cell: cellUUID, rows: r, live: l, versions: v, imports: imports, log: log,
		in: make(chan tableUpdate, 16), mostNames: leastNames, leastNames: leastNames,
	}
}

// publish hands an update to the writer; it blocks while too many wait.
func (w *Writer) publish(u tableUpdate) { w.in <- u }

// PublishGate publishes the gate's row.
func (w *Writer) PublishGate(g *shard.Gate) { w.publish(tableUpdate{changes: gateChange(g)}) }

// run works until in is closed and empty.
func (w *Writer) run() {
	for {
		select {
		case f, open := <-w.in:
			if !open {
				return
			}
			w.makeVersion(w.gather(f))
		case <-w.live.Nudge:
			w.makeVersion(nil)
		}
	}
}

// gather adds the updates that wait behind first.
func (w *Writer) gather(first tableUpdate) []tableUpdate {
	updates := []tableUpdate{first}
	for len(updates) < maxUpdates {
		select {
		case f, open := <-w.in:
			if !open {
				return updates
			}
			updates = append(updates, f)
		default:
			return updates
		}
	}
	return updates
}

// makeVersion builds one version from all updates and from the hosts that went down or came back.
func (w *Writer) makeVersion(updates []tableUpdate) {
	d := w.apply(updates)
	w.rows.wake(d.hosts)
	for _, u := range updates {
		if u.afterPublish != nil {
			u.afterPublish()
		}
	}
}

// apply applies updates to the rows and the table, and returns what changed.
func (w *Writer) apply(updates []tableUpdate) *dirty {
	w.rows.publishing.Lock()
	defer w.rows.publishing.Unlock()
	d, gate := newDirty(), w.rows.GateRow()
	for _, u := range updates {
		if err := w.rows.apply(u.changes, d); err != nil {
			w.log.Error("a row of the shard is not readable and was left out of the table", "err", err)
		}
	}
	if w.imports != nil && w.rows.GateRow() != gate {
		w.imports.Check()
	}
	turned := w.live.DrainChanged()
	if !d.empty() || len(turned) > 0 {
		w.versions.Publish(w.edit(d, turned))
	}
	w.rows.TableGate.Store(w.rows.GateRow())
	return d
}

// edit returns the newest table with the dirty parts replaced. Hosts come first, since consumers refer
// to them. If hosts have changed their names so often that the table mostly holds old ones, edit builds a new one.
func (w *Writer) edit(d *dirty, turned map[string]bool) *schedule.Table {
	before := w.versions.Current()
	renewed := before.NamesSize() > w.mostNames
	if renewed {
		before = before.Emptied()
		for _, row := range w.rows.HostsInService() {
			d.hosts[row.Host.UUID] = true // with its instances
		}
	}
	e := before.Edit()
	for uuid, whole := range d.hosts {
		row := w.rows.Host(uuid)
		switch {
		case row.Gone != nil:
			e.RemoveHost(row.id)
		case row.Host == nil:
		case whole:
			e.PutHost(hostOf(w.cell, row, w.rows.Conditions(row, w.silent(d, row)).Down()))
			d.hardware[uuid] = struct{}{}
			if _, known := before.Host(row.id); !known {
				for _, c := range w.rows.ClaimsOn(uuid) {
					d.instances[c.Instance()] = struct{}{}
				}
			}
		default:
			v := viewOf(row)
			if h, known := before.Host(row.id); known {
				v.PCIFree = h.View.PCIFree
			}
			e.SetUsage(row.id, usageOf(RootOf(row.Host), row.Usage), v)
			e.SetChildUsage(row.id, childUsageOf(row))
		}
	}
	for uuid := range d.hardware {
		if row := w.rows.Host(uuid); row != nil && row.Host != nil {
			// The hardware that its reports do not include yet.
			e.SetAssigned(row.id, w.rows.assignedOf(uuid))
		}
	}
	for uuid, down := range turned {
		if row := w.rows.Host(uuid); row != nil && row.Host != nil {
			e.SetDown(row.id, w.rows.Conditions(row, down).Down())
		}
	}
	for instance := range d.instances {
		w.editInstance(e, instance)
	}
	next := e.Table()
	if renewed {
		w.mostNames = max(w.leastNames, 4*next.NamesSize())
		w.log.Info("the table was built anew, without the names that hosts have no more", "hosts", next.Len(), "bytes", next.NamesSize())
	}
	return next
}

// silent reports whether a host's agent is silent. A new row of the host itself shows that its agent is
// up; the host's admin row has the silence mark.
func (w *Writer) silent(d *dirty, row *HostRow) bool {
	if _, registered := d.registered[row.Host.UUID]; registered {
		w.live.NoteRow(row.Host.UUID, row.Host.Imported)
	}
	return w.live.FollowMark(row.Host.UUID, row.Admin.IsSilent())
}

// editInstance puts an instance on the hosts of its claims: two while it is moved.
func (w *Writer) editInstance(e *schedule.Edit, uuid string) {
	instance, err := schedule.ParseID(uuid)
	if err != nil {
		w.log.Error("a claim's consumer is not readable and was left out of the table", "err", err)
		return
	}
	claims := w.rows.ClaimsOfInstance(uuid)
	if len(claims) == 0 {
		e.RemoveConsumer(instance)
		return
	}
	put := e.PutConsumer
	for _, c := range claims {
		member := schedule.Consumer{Instance: instance}
		if c.Group != nil {
			if member.Group, err = schedule.ParseID(c.Group.UUID); err != nil {
				w.log.Error("a claim's group is not readable and was left out of the table", "claim_id", c.ClaimID, "err", err)
			}
		}
		if c.Guest != nil {
			member.Flavor = c.Guest.FlavorID
			if member.Image, err = imageOf(c.Guest); err != nil {
				w.log.Error("a claim's image is not readable and was left out of the table", "claim_id", c.ClaimID, "err", err)
			}
		}
		host, err := schedule.ParseID(c.HostUUID)
		if err != nil {
			w.log.Error("a claim's host is not readable and was left out of the table", "claim_id", c.ClaimID, "err", err)
			continue
		}
		if put(host, member) { // otherwise the host is not in the table: it brings its instances when it comes
			put = e.AddConsumer
		}
	}
}
