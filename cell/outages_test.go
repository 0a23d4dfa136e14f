package cell

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cellgate/cell/liveness"
	"cellgate/shard"
)

// A host that Nova's tables have no more, or no more as a host, says nothing of the cell's
// agents; and while those tables answer for the cell, none that is up is no error.
func TestNoOutageOfAgentsForHostsOfTables(t *testing.T) {
	now := time.Unix(1000, 0)
	l, rows := liveness.New(60*time.Second, func() time.Time { return now }), newRows()
	var out bytes.Buffer
	o := liveness.NewOutageLog(l, rows.serviceHost, rows.imported, rows.answeredFromTables, slog.New(slog.NewTextHandler(&out, nil)))
	apply := func(changes ...shard.Change) {
		t.Helper()
		for _, c := range changes {
			if c.Host != nil {
				l.NoteRow(c.Host.UUID, c.Host.Imported)
			}
		}
		if err := rows.apply(changes, newDirty()); err != nil {
			t.Fatal(err)
		}
	}
	told := func(after time.Duration) string {
		now = now.Add(after)
		l.Check()
		o.LogChanges(t.Context())
		defer out.Reset()
		return out.String()
	}
	host := func(n int, generation int64, full bool) *shard.Host {
		h := &shard.Host{UUID: hostUUID(n), ServiceHost: fmt.Sprintf("h%d", n), Imported: true, Generation: generation, Providers: []shard.Provider{{UUID: hostUUID(n)}}}
		if full {
			h.Providers[0].Inventories = []shard.Inventory{{ResourceClass: "VCPU", Total: 8, AllocationRatio: 1}}
		}
		return h
	}
	apply(shard.Change{Gate: &shard.Gate{State: shard.GateLegacy, Revision: 1}})
	for n := range 4 {
		apply(shard.Change{Host: host(n, 1, true)})
	}
	if s := told(2 * time.Minute); s != "" {
		t.Errorf("hosts are imported: %s", s)
	}
	// A row was deleted, with nothing on it and with a claim; and one cannot be read any more.
	deleted, holding, broken := host(0, 2, false), host(1, 2, false), host(2, 2, true)
	deleted.Disabled, holding.Disabled, broken.Disabled = true, true, true
	broken.Providers[0].Inventories[0].Total = 0
	apply(shard.Change{Host: deleted}, shard.Change{Host: holding}, shard.Change{Usage: &shard.Usage{HostUUID: holding.UUID, Generation: 3, Confirmed: 1}}, shard.Change{Host: broken})
	if s := told(2 * time.Minute); s != "" {
		t.Errorf("rows of hosts are gone: %s", s)
	}
	agents := host(3, 2, true)
	agents.Imported = false
	apply(shard.Change{Host: agents})
	l.NoteHeard(agents.UUID)
	if s := told(time.Second); s != "" {
		t.Errorf("an agent came: %s", s)
	}
	if s := told(2 * time.Minute); !strings.Contains(s, "level=WARN msg=\"hosts went down\" went_down=1 came_back=0 up=0 hosts=1 names=h3") {
		t.Errorf("the only agent is silent, and the tables answer: %s", s)
	}
	l.NoteHeard(agents.UUID)
	told(time.Minute / 2)
	apply(shard.Change{Gate: &shard.Gate{State: shard.GateNative, Revision: 2}})
	if s := told(2 * time.Minute); !strings.Contains(s, "level=ERROR msg=\"no host of the cell is up") {
		t.Errorf("the only agent is silent, and nobody else answers: %s", s)
	}
}
