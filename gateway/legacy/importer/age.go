package importer

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/novadb"
)

// data is how new the data are that were read. The server's clock does not tell: the clock of a
// replica of Nova's database goes on while its rows are behind. One address may lead to several
// servers, so the age of one read says nothing of the next.
type data struct {
	// written is the greatest Written of the snapshots, heartbeat the greatest heartbeat of
	// snapshots and passes. A time ahead of the server's clock counts as that: once the clock of
	// a compute is corrected, its heartbeats are older than before.
	written, heartbeat time.Time
	// witness is the id of the row of instances with the newest time that was ever read. A
	// server that has that write also has all earlier ones.
	witness   int64
	witnessed time.Time
	// whole is the time up to which the rows of the last pass count as complete. newest is the
	// greatest time up to which this or another importer may have read them.
	whole, newest time.Time
}

// stale reports whether the last pass may have read older rows than a pass before it. Some
// instances of the cell's claims may then be unknown, until a later pass has their rows.
func (d *data) stale() bool { return d.whole.Before(d.newest) }

// endPass records the time up to which the rows of a pass are complete.
func (d *data) endPass(whole time.Time) { d.whole, d.newest = whole, later(d.newest, whole) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// heartbeatLead is how far the rows of instances count as behind the heartbeats, if no row was
// written since. A deleted row has a newer time, unless it was purged.
const heartbeatLead = 10 * time.Minute

// behindError is the error of rows of instances from a server that is behind what was read
// before.
type behindError struct{ by time.Duration }

func (e *behindError) Error() string {
	return fmt.Sprintf("the rows of instances are %v older than those read before: this server is a replica that is behind", e.by)
}

// writtenAt gives how new the data of a snapshot are; without any time in them, the server's clock.
func writtenAt(x *novadb.Snapshot) time.Time {
	if x.Written.IsZero() {
		return x.At
	}
	return x.Written
}

// behind gives how much older the data of a snapshot are than those of an earlier one: the
// reader met a replica that is behind. It is 0 if they are not older.
func (m *Importer) behind(x *novadb.Snapshot) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := writtenAt(x)
	if at.Before(m.data.written) {
		return m.data.written.Sub(at)
	}
	m.data.written = earlier(at, x.At)
	m.data.beats(x.Heartbeat, x.At)
	return 0
}

// beats records a heartbeat that was read when the server's clock was at now.
func (d *data) beats(at, now time.Time) { d.heartbeat = later(d.heartbeat, earlier(at, now)) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// older gives how far the heartbeats beside rows of instances are behind those that were read
// before; 0 for none. The times of instances are not compared: another writer's clock may be
// behind. They only tell up to which time rows are complete.
func (d *data) older(age novadb.InstanceAge) time.Duration {
	if age.Heartbeat.IsZero() {
		return 0
	}
	return max(d.heartbeat.Sub(age.Heartbeat), 0)
}

// wholeTo gives the time up to which a page's transaction has all rows of instances, by its
// own age and rows.
func wholeTo(p *novadb.InstancePage) time.Time {
	at := p.Age.Heartbeat
	if at.IsZero() || at.After(p.At) {
		at = p.At
	}
	if at = at.Add(-heartbeatLead); p.Age.Witness.After(at) {
		at = p.Age.Witness
	}
	for i := range p.Instances {
		if w := p.Instances[i].Written(p.At); w.After(at) {
			at = w
		}
	}
	return at
}

// instancesAt gives the time up to which the instances of the last pass are complete.
func (m *Importer) instancesAt() *timestamppb.Timestamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return timestamppb.New(m.data.whole)
}

// nextVersion orders the states of all imports by how new their data are, in microseconds
// since 1970. Nova writes whole seconds. Within a second, the server's clock orders the
// states, a millisecond as one microsecond, and then the order of this Importer's steps. mu is
// held.
func (m *Importer) nextVersion(x *novadb.Snapshot) uint64 {
	at := writtenAt(x).Truncate(time.Second)
	first := uint64(max(at.UnixMicro(), 1))
	last := first + uint64(time.Second/time.Microsecond) - 1
	v := min(last, first+uint64(max(x.At.Sub(at).Milliseconds(), 0)))
	if m.version < first || m.version > last {
		m.version = max(m.version, v)
		return v
	}
	m.version = min(last, max(m.version+1, v))
	return m.version
}

// read records how new a page's rows are.
func (d *data) read(p *novadb.InstancePage) {
	d.beats(p.Age.Heartbeat, p.At)
	for i := range p.Instances {
		row := &p.Instances[i]
		if w := row.Written(p.At); w.After(d.witnessed) || row.ID == d.witness && !w.IsZero() {
			d.witness, d.witnessed = row.ID, w
		}
	}
}
