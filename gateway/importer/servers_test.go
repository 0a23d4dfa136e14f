package importer

import (
	"context"
	"iter"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/gateway/legacy/legacytest"
)

// balanced is an address behind which are two servers: to is where instances are read.
type balanced struct{ to Rows }

func (b *balanced) Instances(ctx context.Context, from legacy.InstancePoint) iter.Seq2[*legacy.InstancePage, error] {
	return b.to.Instances(ctx, from)
}

func (b *balanced) InstancesOn(ctx context.Context, host string, witness int64) (*legacy.InstancePage, error) {
	return b.to.InstancesOn(ctx, host, witness)
}

// Where one address leads to several servers, rows of instances may come from one that is behind,
// though those before them and the compute nodes did not: no claim ends by them, whether their
// heartbeats tell or not, in a pass over what changed, over all rows, and for a claim.
func TestAnAddressOfTwoServersEndsNoClaim(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
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
				g := newGatewayOn(t, source, c.agents)
				g.m.conf.Rows = at
				until := func(what string, done func() bool) {
					t.Helper()
					for end := time.Now().Add(time.Minute); !done(); g.step(to) {
						if time.Now().After(end) {
							t.Fatalf("not within a minute: %s; live are %v", what, to.live())
						}
					}
				}
				until("the first instance has a claim", func() bool { return len(to.live()) == 1 })
				to.claims(2)
				source.Exec(t, "UPDATE instances SET host = 'host1', node = 'node1', updated_at = "+stamped(t, source)+" WHERE id = 2")
				source.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, source))
				until("the second instance was seen", func() bool { return to.live()[instanceID(2)] })
				// Another one is built later, so that the source tells that the claim is old.
				seen := source.Now(t)
				until("another one is written", func() bool { return source.Now(t).Truncate(time.Second).After(seen) })
				source.Insert(t, "instances", rowOn(3, "host1", "node1", source.Now(t).Truncate(time.Second).Add(time.Hour)))
				source.Exec(t, "UPDATE services SET last_seen_up = "+stamped(t, source))
				until("the third instance has a claim", func() bool { return len(to.live()) == 3 })

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
					if _, err := g.m.Ensure(t.Context(), g.x, hostID(1), to); err != nil {
						t.Fatal(err)
					}
					if live := to.live(); len(live) != 3 {
						t.Fatalf("a claim's import from a server that is behind leaves %v", live)
					}
				}

				// The other one says again what is so.
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

// A pass that a server began and another one, which is behind, went on with is whole to no more
// than each of its parts is.
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
	late.rows = map[int64]legacy.Instance{}
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
