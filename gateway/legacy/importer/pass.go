package importer

import (
	"context"
	"time"

	"cellgate/gateway/legacy/novadb"
)

// reading is a pass over the rows of instances that is under way; it goes on after an
// error.
type reading struct {
	full bool
	// first: it is the first pass, or one that Again began.
	first bool
	point novadb.InstancePoint
	// at is the server's time when it began; zero until a page came.
	at   time.Time
	rows int
	// whole is the least of what its parts, each a transaction of its own, are whole to; part
	// is that of the part under way. Zero: there is none yet.
	whole, part time.Time
}

// endPart notes that a part is over.
func (r *reading) endPart() {
	if !r.part.IsZero() && (r.whole.IsZero() || r.part.Before(r.whole)) {
		r.whole = r.part
	}
	r.part = time.Time{}
}

// pass finishes a pass over instances: of all live ones at first and every
// Config.FullEvery, else of those that were written since the pass before. Of a server that
// is behind nothing is taken, which is a behindError, and the pass goes on with the next one.
func (m *Importer) pass(ctx context.Context, rows Rows) (full bool, err error) {
	now := m.conf.Now()
	m.mu.Lock()
	before := m.data
	m.mu.Unlock()
	if m.reading == nil {
		first := m.again.Swap(false) || m.passes == 0
		m.reading = &reading{full: first || !now.Before(m.nextFull), first: first}
		if first || before.stale() {
			m.first = m.passes + 1
		}
		if !m.reading.full {
			m.reading.point.Since = m.since
			if before.stale() && before.whole.Before(m.since) {
				m.reading.point.Since = before.whole
			}
		}
	}
	r := m.reading
	r.point.Witness = before.witness
	defer r.endPart()
	for p, err := range rows.Instances(ctx, r.point) {
		if err != nil {
			return r.full, err
		}
		if by := before.older(p.Age); by > 0 {
			return r.full, &behindError{by}
		}
		if r.at.IsZero() {
			m.begin(r, p.At)
		}
		if err := m.page(p, r); err != nil {
			m.reading = nil
			return r.full, err
		}
		r.point.After = p.Last
		r.rows += len(p.Instances)
		m.conf.Progress("instances", r.rows, 0)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.passes++
	m.reading = nil
	r.endPart()
	m.data.endPass(r.whole)
	// Without a page there is no time: the next pass is as this one.
	if !r.at.IsZero() {
		m.since = r.at
	}
	if r.full {
		m.known.sweep(m.passes)
		fifth := time.Duration((m.conf.Random() - 0.5) * 0.4 * float64(m.conf.FullEvery))
		m.nextFull = now.Add(m.conf.FullEvery + fifth)
		for _, h := range m.hosts {
			h.settled = false
			if r.first {
				h.inputs = inputs{}
			}
		}
	}
	return r.full, nil
}

// begin notes when a pass began, by the server's clock. Until the first pass, or one that Again
// began, other importers may have read newer rows than the server has.
func (m *Importer) begin(r *reading, at time.Time) {
	r.at = at
	if r.first {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.data.newest = later(m.data.newest, at)
	}
}

func (m *Importer) page(p *novadb.InstancePage, r *reading) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	quiet := time.Time{}
	if m.passes+1 == m.first {
		quiet = r.at.Add(-settleFor)
	}
	if w := wholeTo(p); w.After(r.part) {
		r.part = w
	}
	m.data.read(p)
	for i := range p.Instances {
		if err := m.known.note(&p.Instances[i], m.passes+1, r.at, quiet); err != nil {
			return err
		}
	}
	return nil
}
