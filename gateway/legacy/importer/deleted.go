package importer

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// mostDeleted bounds the deleted instances that are kept. The rows of further ones are
	// read again for as long as passes look back.
	mostDeleted = 65_536
	// deletedAtOnce bounds the deleted instances of a call.
	deletedAtOnce = 16_384
)

// clearAnswers is how often in a row the cell must have no claim of a deleted instance. Slightly
// older rows, of another gateway that imported until now, may still create one.
const clearAnswers = 3

// deletedRow is an instance whose row is deleted. It is sent to the cell until the cell has no
// claim of it. On a host whose agent knows its instances, the cell releases the claim once the
// agent does not report the instance.
type deletedRow struct {
	// pass is the last pass that had the row.
	pass uint64
	done bool
	// clear is how often in a row the cell had no claim of it.
	clear int
	// tries is how often it was sent to the cell and still had a claim; again is the step that sends it next.
	tries uint
	again uint64
}

// deletedRow records whether a row's instance is deleted.
func (k *known) deletedRow(id schedule.ID, row *novadb.Instance, pass uint64) {
	d := k.deleted[id]
	switch {
	case !row.Gone:
		delete(k.deleted, id)
	case d != nil:
		d.pass = pass
	case len(k.deleted) < mostDeleted:
		k.deleted[id] = &deletedRow{pass: pass}
	}
}

// deletedDue gives the deleted instances that this step sends to the cell. It forgets those
// that are done and no longer in passes. mu is held.
func (m *Importer) deletedDue() (due []schedule.ID) {
	for id, d := range m.known.deleted {
		switch {
		case d.done && d.pass != m.passes:
			delete(m.known.deleted, id)
		case !d.done && m.steps >= d.again && len(due) < deletedAtOnce:
			due = append(due, id)
		}
	}
	return due
}

// sendDeleted reports instances with deleted rows to the cell. A deleted row is never live again, however old it is.
// So it ends each claim that was written before the last pass read the table. Rows of live instances only end claims
// from before the newest write to the table (instancesAt), which in a quiet cell may be minutes old.
func (m *Importer) sendDeleted(ctx context.Context, c Cell, r *Report) error {
	m.mu.Lock()
	due, at := m.deletedDue(), timestamppb.New(later(m.data.whole, m.since))
	m.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	out, err := c.ImportHosts(ctx, &cellv1.ImportHostsRequest{InstancesAt: at, Deleted: packed(due)})
	if err != nil {
		return err
	}
	claimed, err := unpacked(out.GetClaimed())
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Released += int(out.GetDeletedReleased())
	for _, id := range due {
		d := m.known.deleted[id]
		if d == nil {
			continue
		}
		if claimed[id] {
			d.clear = 0
			d.tries++
			d.again = m.steps + stepsAfter(d.tries)
			continue
		}
		d.clear++
		d.done = d.clear >= clearAnswers
	}
	return nil
}

// packed concatenates ids, as messages have them.
func packed(ids []schedule.ID) []byte {
	out := make([]byte, 0, len(ids)*len(schedule.ID{}))
	for _, id := range ids {
		out = append(out, id[:]...)
	}
	return out
}

func unpacked(from []byte) (map[schedule.ID]bool, error) {
	ids := map[schedule.ID]bool{}
	for one := range slices.Chunk(from, len(schedule.ID{})) {
		if len(one) < len(schedule.ID{}) {
			return nil, fault.New(fault.Internal, "the cell's list of claimed instances ends within a uuid")
		}
		ids[schedule.ID(one)] = true
	}
	return ids, nil
}
