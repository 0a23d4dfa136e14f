package importer

import (
	"context"
	"iter"
	"maps"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/testwait"
)

// balanced is an address of two servers. to is the server that instances are read from.
type balanced struct{ to Rows }

func (b *balanced) Instances(ctx context.Context, from novadb.InstancePoint) iter.Seq2[*novadb.InstancePage, error] {
	return b.to.Instances(ctx, from)
}

// If one address leads to several servers, rows of instances may come from a server that is behind, although earlier
// rows and the compute nodes did not. No claim ends by such rows, whether or not their heartbeats show it, in a pass
// over all rows or over changed ones.
func TestAnAddressOfTwoServersEndsNoClaim(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		for _, c := range []struct {
			name                string
			agents, full, beats bool
		}{
			{"all rows, with old heartbeats", false, true, false},
			{"all rows, with new heartbeats", false, true, true},
			{"changed rows, with new heartbeats", false, false, true},
			{"all rows of an agent's host, with new heartbeats", true, true, true},
		} {
			t.Run(c.name, func(t *testing.T) {
				source, behind := legacytest.NewCell(t, k.Shared(t)), legacytest.NewCell(t, k.Shared(t))
				now := source.Now(t).Truncate(time.Second).Add(-20 * time.Second)
				for _, d := range []*legacytest.Database{source, behind} {
					aCompute(t, d, now)
					started := rowOn(2, nil, nil, now)
					started["created_at"], started["updated_at"] = now, now
					d.Insert(t, "instances", rowOn(1, "host1", "node1", now), started)
				}
				to := newScheduler(t)
				if c.agents {
					to.registers()
				}
				at := &balanced{to: readerOf(t, source)}
				g := newGatewayOn(t, source)
				g.m.conf.Rows = at
				until := func(what string, done func() bool) {
					t.Helper()
					for end := time.Now().Add(testwait.Limit); !done(); g.step(to) {
						if time.Now().After(end) {
							t.Fatalf("%s is not so yet; live are %v", what, to.live())
						}
					}
				}
				until("the first instance has a claim", func() bool { return len(to.live()) == 1 })
				if r := to.claim(2, nil); r != nil {
					t.Fatal(r)
				}
				source.Exec(t, "UPDATE instances SET host = 'host1', node = 'node1', updated_at = "+stamped(t, source)+" WHERE id = 2")
				source.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, source))
				until("the second instance was seen", func() bool { return to.live()[instanceID(2)] })
				// Later writes must have another second than the existing claims.
				anotherSecond := func() {
					t.Helper()
					begun := source.Now(t)
					until("the next second", func() bool { return source.Now(t).Truncate(time.Second).After(begun) })
				}
				// A third instance is built later, so that the source shows that the claim is old.
				anotherSecond()
				source.Insert(t, "instances", rowOn(3, "host1", "node1", source.Now(t).Truncate(time.Second).Add(time.Hour)))
				source.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, source))
				until("the third instance has a claim", func() bool { return len(to.live()) == 3 })
				anotherSecond()

				if c.beats {
					behind.Exec(t, "UPDATE services SET last_seen_up = '"+g.x.Heartbeat.Format("2006-01-02 15:04:05")+"'")
				}
				at.to = readerOf(t, behind)
				for i := range 10 {
					if c.full && i == 0 {
						g.m.Again()
					}
					if r := g.step(to); c.beats == (r.Behind > 0) {
						t.Fatalf("%+v", r)
					}
					if live := to.live(); len(live) != 3 {
						t.Fatalf("a server that is behind leaves %v", live)
					}
				}

				// The server that is not behind is read again.
				at.to = readerOf(t, source)
				source.Exec(t, "UPDATE instances SET deleted = 2, deleted_at = "+stamped(t, source)+" WHERE id = 2")
				until("the second instance is gone", func() bool {
					_, there := to.live()[instanceID(2)]
					return !there
				})
				if live := to.live(); len(live) != 2 {
					t.Errorf("live are %v", live)
				}
			})
		}
	})
}

// stale is a server that is behind: its rows are from a moment ago, but its heartbeats and its clock are
// those of the tables that it copies.
type stale struct {
	of   *nova
	rows map[int64]novadb.Instance
}

func (s stale) now() *nova {
	n := *s.of
	n.rows = s.rows
	return &n
}

func (s stale) Instances(ctx context.Context, from novadb.InstancePoint) iter.Seq2[*novadb.InstancePage, error] {
	return s.now().Instances(ctx, from)
}

// The server that instances are read from is behind for some passes, so that the importer does
// not know, or has forgotten, instances that have claims. In the pass that has their rows again no
// report of their host leaves them out.
func TestStep_AfterAStaleServer_NoClaimEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		// anew starts a new importer at the stale server. full makes the importer's first pass there one over all rows.
		anew, full bool
		// after is how long the server is behind.
		after time.Duration
	}{
		{"all rows, for a moment", false, true, 10 * time.Second},
		{"changed rows, for a moment", false, false, 10 * time.Second},
		{"all rows, for longer than passes overlap", false, true, 5 * time.Minute},
		{"changed rows, for longer than passes overlap", false, false, 5 * time.Minute},
		{"another importer, for a moment", true, true, 10 * time.Second},
		{"another importer, for longer than passes overlap", true, true, 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, cell := newNova(1), newCell()
			long := func(c *Config) { c.FullEvery = 24 * time.Hour }
			m := importerOf(t, n, long)
			steps := func(what string, rows Rows, want int) {
				t.Helper()
				m.conf.Rows = rows
				for range 3 {
					n.beat, cell.now = n.now, n.now.Add(time.Millisecond)
					if r, err := m.Step(t.Context(), n.snapshot(), cell); err != nil || r.Behind != 0 {
						t.Fatalf("%s: %+v, %v", what, r, err)
					}
					if len(cell.claims) != want {
						t.Fatalf("%s: %d claims, want %d", what, len(cell.claims), want)
					}
				}
			}
			n.on(1, 1)
			n.now = n.now.Add(24 * time.Hour)
			steps("one instance", n, 1)
			n.put(2, func(r *novadb.Instance) { r.VMState = "building" }) // on no host yet
			steps("one instance, and one that is built", n, 1)
			behind := stale{n, maps.Clone(n.rows)}
			n.on(2, 1)
			n.put(2, func(r *novadb.Instance) { r.TaskState = "networking" })
			n.on(3, 1)
			step(t, m, n, cell)
			steps("three instances", n, 3)
			if c.full {
				m.Again()
			}
			if c.anew {
				m = importerOf(t, n, long)
			}
			steps("a stale server", behind, 3)
			n.now = n.now.Add(c.after)
			steps("the stale server, later", behind, 3)
			n.put(1, func(r *novadb.Instance) { r.VCPUs = 3 }) // its host is sent
			steps("the good server", n, 3)
			n.put(2, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
			step(t, m, n, cell)
			steps("one is deleted", n, 2)
		})
	}
}

// If one server began a pass and another, which is behind, continued it, the pass is complete only up
// to the time of its oldest part.
func TestAPassIsAsOldAsItsOldestPart(t *testing.T) {
	n := newNova(1)
	n.on(1, 1)
	for i := range int64(6) {
		n.on(i+2, 1)
	}
	n.now = n.now.Add(time.Hour)
	m, c := importerOf(t, n), newCell()
	step(t, m, n, c)
	n.on(7, 1)
	step(t, m, n, c)
	newest := n.now.Add(-time.Second)
	if !m.data.whole.Equal(newest) {
		t.Fatalf("whole to %v, want %v", m.data.whole, newest)
	}
	late := *n
	late.rows = map[int64]novadb.Instance{}
	for i, row := range n.rows {
		if i < 7 {
			late.rows[i] = row
		}
	}
	n.fail = func() error { return errCut }
	m.conf.Rows = n
	m.Again()
	if _, err := m.Step(t.Context(), n.snapshot(), c); err == nil {
		t.Fatal("the pass is not cut")
	}
	n.fail, m.conf.Rows = nil, &late
	n.beat, late.now = n.now, n.now
	late.beat = n.now.Add(-time.Minute)
	x := n.snapshot()
	x.Heartbeat = n.beat
	if r, err := m.Step(t.Context(), x, c); err != nil || r.Behind != time.Minute || r.Sent != 0 || m.reading == nil {
		t.Errorf("%+v, %v", r, err)
	}
	late.beat = n.beat
	if r, err := m.Step(t.Context(), x, c); err != nil || r.Behind != 0 || !r.Full || !m.data.whole.Before(newest) {
		t.Errorf("%+v, %v: whole to %v", r, err, m.data.whole)
	}
	m.conf.Rows = n
	if step(t, m, n, c); !m.data.whole.Equal(newest) {
		t.Errorf("whole to %v, want %v", m.data.whole, newest)
	}
}
