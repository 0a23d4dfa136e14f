package importer

import (
	"context"
	"time"

	"cellgate/gateway/legacy/novadb"
)

// reading is a pass over the rows of instances that is under way. It is resumed after an
// error.
type reading struct {
	full bool
	// first: it is the first pass, or one that Again began.
	first bool
	point novadb.InstancePoint
	// at is the server's time when the pass began; zero before the first page.
	at   time.Time
	rows int
	// Each part of a pass is a transaction of its own. part is the time up to which the
	// present part is complete, whole the least over the finished parts. Zero: there is none
	// yet.
	whole, part time.Time
}

// endPart records the end of a part.
func (r *reading) endPart() {
	if !r.part.IsZero() && (r.whole.IsZero() || r.part.Before(r.whole)) {
		r.whole = r.part
	}
	r.part = time.Time{}
}

// pass finishes a pass over instances: over all live ones at first and every
// Config.FullEvery, else over those written since the last pass. From a server that is behind
// it takes nothing and gives a behindError; the next call resumes the pass.
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
	// Without a page there is no time, so the next pass reads from the same time.
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

// begin records when a pass began, by the server's clock. Before the first pass, or one that
// Again began, other importers may have read rows as new as the server's clock.
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
