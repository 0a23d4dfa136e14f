package importer

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy"
)

// data is how new what was read is. The clock of a server does not tell: that of a replica
// of Nova's database goes on while its rows are behind.
type data struct {
	// written is the greatest Written of the snapshots.
	written time.Time
	// rows is the newest time in the rows of instances that were read, as long as it is
	// before their pass began: what was written before it is in the last pass.
	rows time.Time
}

// beatsTell is how far behind heartbeats the rows of instances are taken to be where none
// of these was written since: one that is deleted leaves a newer time, unless its row was
// purged.
const beatsTell = 10 * time.Minute

// writtenAt is how new the data of a snapshot are; without any time the server's clock.
func writtenAt(x *legacy.Snapshot) time.Time {
	if x.Written.IsZero() {
		return x.At
	}
	return x.Written
}

// behind is how much older the data of a snapshot are than those of one before: the reader
// was led to a replica that is behind. 0: they are not.
func (m *Importer) behind(x *legacy.Snapshot) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := writtenAt(x)
	if at.Before(m.data.written) {
		return m.data.written.Sub(at)
	}
	m.data.written = at
	return 0
}

// instancesAt is the moment up to which the rows of instances are taken to be whole.
func (m *Importer) instancesAt(x *legacy.Snapshot) *timestamppb.Timestamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := x.Heartbeat
	if at.IsZero() {
		at = x.At
	}
	if at = at.Add(-beatsTell); m.data.rows.After(at) {
		at = m.data.rows
	}
	return timestamppb.New(at)
}

// nextVersion orders the states of all imports by how new their data are, in microseconds
// since 1970. Nova writes whole seconds: within one the server's clock orders them, a
// millisecond of it as a microsecond, and the order of a life. mu is held.
func (m *Importer) nextVersion(x *legacy.Snapshot) uint64 {
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

// wrote takes the times of rows that were read; at is when their pass began.
func (m *Importer) wrote(rows []legacy.Instance, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range rows {
		m.data.wrote(&rows[i], at)
	}
}

func (d *data) wrote(row *legacy.Instance, at time.Time) {
	if w := row.Written(at); w.After(d.rows) {
		d.rows = w
	}
}
