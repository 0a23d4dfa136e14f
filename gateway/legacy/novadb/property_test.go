package novadb

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
)

// Random sequences of changes, several between refreshes: a chain of refreshes gives
// what a load gives, at every step.
func TestRefreshIsLoad(t *testing.T) {
	steps := 25
	if testlong.On() {
		steps = 1000
	}
	seed := uint64(time.Now().UnixNano())
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		t.Logf("seed %d", seed)
		m := &mutator{rnd: rand.New(rand.NewPCG(seed, 0)), next: 1000}
		m.world = newWorld(t, k, 40, func(c *Config) {
			c.PageSize = 1 + m.rnd.IntN(15)
			c.KeepUnreadable = m.rnd.IntN(2) == 0
		})
		x := m.load()
		full := 0
		for i := range steps {
			var did []string
			for range m.rnd.IntN(6) {
				did = append(did, m.change())
			}
			y, err := m.Refresh(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if diff := differ(y, m.load()); diff != "" {
				t.Fatalf("step %d, after %v: refresh and load differ: %s", i, did, diff)
			}
			if y.Full {
				full++
			}
			x = y
		}
		if full > 0 {
			t.Errorf("%d of %d refreshes read everything: that proves nothing", full, steps)
		}
	})
}

// mutator changes rows as Nova, its operators and archiving do.
type mutator struct {
	*world
	rnd  *rand.Rand
	next int
}

// some draws the id of a row that may exist.
func (m *mutator) some() int {
	if m.next > 1000 && m.rnd.IntN(4) == 0 {
		return 1000 + m.rnd.IntN(m.next-1000)
	}
	return 1 + m.rnd.IntN(40)
}

// time is the time of a writer whose clock is up to 20 s off, and that writes whole seconds.
func (m *mutator) time() time.Time {
	return m.now.Add(time.Duration(m.rnd.IntN(40)-20) * time.Second)
}

func (m *mutator) change() string {
	m.Helper()
	id := m.some()
	changes := []struct {
		name string
		do   func()
	}{
		{"report", func() {
			m.do("UPDATE compute_nodes SET free_ram_mb = ?, vcpus_used = ?, updated_at = ? WHERE id = ?", m.rnd.IntN(70000)-1000, m.rnd.IntN(40), m.time(), id)
		}},
		{"soft delete", func() {
			m.do("UPDATE compute_nodes SET deleted = id, deleted_at = ? WHERE id = ?", m.time(), id)
		}},
		{"undelete", func() { m.do("UPDATE compute_nodes SET deleted = 0, deleted_at = NULL WHERE id = ?", id) }},
		{"archive", func() { m.do("DELETE FROM compute_nodes WHERE deleted <> 0 AND id = ?", id) }},
		{"purge", func() { m.do("DELETE FROM compute_nodes WHERE id = ?", id) }},
		{"new host", func() {
			i := m.next
			m.next++
			m.cell.Insert(m, "compute_nodes", with(m.node(i), legacytest.Row{"created_at": m.time(), "updated_at": nil}))
			if m.rnd.IntN(4) > 0 {
				m.cell.Insert(m, "services", m.service(i))
			}
			if m.rnd.IntN(4) > 0 {
				m.api.Insert(m, "host_mappings", legacytest.Row{"id": i, "cell_id": 1 + m.rnd.IntN(2), "host": name(i)})
			}
		}},
		{"break", func() {
			column := []string{"stats", "supported_instances", "metrics", "free_disk_gb", "numa_topology"}[m.rnd.IntN(5)]
			value := any(nil)
			if column == "metrics" || column == "numa_topology" {
				value = "{"
			}
			m.do("UPDATE compute_nodes SET "+column+" = ?, updated_at = ? WHERE id = ?", value, m.time(), id)
		}},
		{"repair", func() {
			m.do("UPDATE compute_nodes SET stats = '{}', supported_instances = '[]', metrics = '[]', free_disk_gb = 5, numa_topology = NULL, updated_at = ? WHERE id = ?", m.time(), id)
		}},
		{"heartbeat", func() {
			m.do("UPDATE services SET last_seen_up = ?, updated_at = ? WHERE id = ?", m.time(), m.time(), id)
		}},
		{"disable", func() { m.do("UPDATE services SET disabled = ? WHERE id = ?", m.rnd.IntN(2) == 0, id) }},
		{"delete service", func() { m.do("UPDATE services SET deleted = id WHERE id = ?", id) }},
		{"service back", func() { m.do("UPDATE services SET deleted = 0 WHERE id = ?", id) }},
		{"map", func() {
			change(m, m.api, "UPDATE host_mappings SET cell_id = ? WHERE host = ?", 1+m.rnd.IntN(2), name(id))
		}},
		{"unmap", func() { change(m, m.api, "DELETE FROM host_mappings WHERE host = ?", name(id)) }},
		{"aggregate", func() {
			a := m.rnd.IntN(1_000_000_000)
			m.api.Insert(m, "aggregates", legacytest.Row{"id": a, "uuid": otherUUID, "name": fmt.Sprint(a)})
			m.api.Insert(m, "aggregate_hosts", legacytest.Row{"host": name(id), "aggregate_id": a})
			m.api.Insert(m, "aggregate_metadata", legacytest.Row{"aggregate_id": a, "key": "availability_zone", "value": fmt.Sprint(id % 3)})
		}},
		{"leave aggregates", func() { change(m, m.api, "DELETE FROM aggregate_hosts WHERE host = ?", name(id)) }},
	}
	c := changes[m.rnd.IntN(len(changes))]
	c.do()
	return fmt.Sprintf("%s %d", c.name, id)
}
