package importer

import (
	"context"
	"time"

	"cellgate/gateway/legacy"
)

// reading is a pass over the rows of instances that is under way; it goes on after an
// error.
type reading struct {
	full  bool
	point legacy.InstancePoint
	// at is the server's time when it began; zero until a page came.
	at   time.Time
	rows int
}

// pass finishes a pass over instances: of all live ones at first and every
// Config.FullEvery, else of those that were written since the pass before.
func (m *Importer) pass(ctx context.Context, rows Rows) (full bool, err error) {
	now := m.conf.Now()
	if m.reading == nil {
		first := m.again.Swap(false) || m.passes == 0
		m.reading = &reading{full: first || !now.Before(m.nextFull)}
		if first {
			m.first = m.passes + 1
		}
		if !m.reading.full {
			m.reading.point.Since = m.since
		}
	}
	r := m.reading
	for p, err := range rows.Instances(ctx, r.point) {
		if err != nil {
			return r.full, err
		}
		if r.at.IsZero() {
			r.at = p.At
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
	// A table without rows gives no page, and no time: the next pass is as this one.
	if !r.at.IsZero() {
		m.since = r.at
	}
	if r.full {
		m.known.sweep(m.passes)
		fifth := time.Duration((m.conf.Random() - 0.5) * 0.4 * float64(m.conf.FullEvery))
		m.nextFull = now.Add(m.conf.FullEvery + fifth)
		for _, h := range m.hosts {
			h.settled = false
		}
	}
	return r.full, nil
}

func (m *Importer) page(p *legacy.InstancePage, r *reading) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	quiet := time.Time{}
	if m.passes+1 == m.first {
		quiet = r.at.Add(-m.conf.Settle)
	}
	for i := range p.Instances {
		m.data.wrote(&p.Instances[i], p.At)
		if err := m.known.take(&p.Instances[i], m.passes+1, r.at, quiet); err != nil {
			return err
		}
	}
	return nil
}
