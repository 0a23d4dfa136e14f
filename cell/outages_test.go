package cell

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cellgate/shard"
)

func TestOutagesAreToldTogether(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLiveness(60*time.Second, func() time.Time { return now })
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	imported := map[string]bool{}
	o := newOutages(l, func(uuid string) string { return "host-" + uuid }, func(uuid string) bool { return imported[uuid] }, func() bool { return false }, log)
	// after lets time pass, hears some hosts, and demands the lines told.
	after := func(d time.Duration, heard []string, want ...string) {
		t.Helper()
		now = now.Add(d)
		for _, h := range heard {
			l.heard(h)
		}
		l.check()
		o.tell(t.Context())
		got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if out.Len() == 0 {
			got = nil
		}
		out.Reset()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	hosts := []string{"1", "2", "3", "4", "5", "6"}
	for _, h := range hosts {
		l.watch(h, false)
	}
	after(0, nil)
	after(59*time.Second, []string{"6"})
	after(time.Second, nil,
		`level=WARN msg="hosts went down" went_down=5 came_back=0 up=1 hosts=6 names="host-1, host-2, host-3, and 2 more"`)
	// Within the ten seconds nothing is told, after them all that is left of it.
	after(time.Second, []string{"1"})
	after(8*time.Second, []string{"1", "2", "6"})
	after(time.Second, nil,
		`level=INFO msg="hosts came back" went_down=0 came_back=2 up=3 hosts=6 names="host-1, host-2"`)
	after(50*time.Second, []string{"1"})
	after(9*time.Second, []string{"3"},
		`level=WARN msg="hosts went down" went_down=2 came_back=1 up=2 hosts=6 names="host-2, host-6"`)
	after(60*time.Second, nil,
		`level=ERROR msg="no host of the cell is up: nothing can be placed in it until agents report again" went_down=2 came_back=0 up=0 hosts=6 names="host-1, host-3"`)
	after(time.Hour, nil)
	after(0, hosts,
		`level=INFO msg="hosts came back" went_down=0 came_back=6 up=6 hosts=6 names="host-1, host-2, host-3, and 3 more"`)
	// Hosts that are imported are silent by nature: nothing is told of them, and those
	// that come to be imported did not come back.
	for _, h := range hosts[:4] {
		imported[h] = true
	}
	after(10*time.Minute, []string{"5"},
		`level=WARN msg="hosts went down" went_down=1 came_back=0 up=1 hosts=2 names=host-6`)
	imported["6"] = true
	after(time.Minute, []string{"5"})
	after(2*time.Minute, nil,
		`level=ERROR msg="no host of the cell is up: nothing can be placed in it until agents report again" went_down=1 came_back=0 up=0 hosts=1 names=host-5`)
	imported["5"] = true
	after(time.Hour, nil)
}

// A host that Nova's tables have no more, or no more as a host, says nothing of the cell's
// agents; and while those tables answer for the cell, none that is up is no error.
func TestNoOutageOfAgentsForHostsOfTables(t *testing.T) {
	now := time.Unix(1000, 0)
	l, rows := newLiveness(60*time.Second, func() time.Time { return now }), newRows()
	var out bytes.Buffer
	o := newOutages(l, rows.serviceHost, rows.imported, rows.answeredFromTables, slog.New(slog.NewTextHandler(&out, nil)))
	apply := func(changes ...shard.Change) {
		t.Helper()
		for _, c := range changes {
			if c.Host != nil {
				l.watch(c.Host.UUID, c.Host.Imported)
			}
		}
		if err := rows.apply(changes, newDirty()); err != nil {
			t.Fatal(err)
		}
	}
	told := func(after time.Duration) string {
		now = now.Add(after)
		l.check()
		o.tell(t.Context())
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
	l.heard(agents.UUID)
	if s := told(time.Second); s != "" {
		t.Errorf("an agent came: %s", s)
	}
	if s := told(2 * time.Minute); !strings.Contains(s, "level=WARN msg=\"hosts went down\" went_down=1 came_back=0 up=0 hosts=1 names=h3") {
		t.Errorf("the only agent is silent, and the tables answer: %s", s)
	}
	l.heard(agents.UUID)
	told(time.Minute / 2)
	apply(shard.Change{Gate: &shard.Gate{State: shard.GateNative, Revision: 2}})
	if s := told(2 * time.Minute); !strings.Contains(s, "level=ERROR msg=\"no host of the cell is up") {
		t.Errorf("the only agent is silent, and nobody else answers: %s", s)
	}
}
