package replica

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/cell/liveness"
	"cellgate/internal/telemetry"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// A row keeps the facts of the state that it was written with, and no others.
func TestARowTakesTheFactsOfItsState(t *testing.T) {
	r := newRows()
	h := shard.Host{UUID: hostUUID(1), Generation: 1, HostIP: "192.0.2.7"}
	mine, other := r.ReadFacts(&h), &Facts{}
	rowHas := func(of *shard.Host, want *Facts) {
		t.Helper()
		if err := r.apply([]shard.Change{{Host: of}}, newDirty()); err != nil {
			t.Fatal(err)
		}
		if got := r.Host(h.UUID).Facts; got != want {
			t.Errorf("the row has %p, want %p", got, want)
		}
	}
	first, second := r.ExpectFacts(h.UUID, other), r.ExpectFacts(h.UUID, mine)
	first()
	rowHas(&h, mine)
	second()
	if len(r.comingFacts) != 0 {
		t.Errorf("on their way: %v", r.comingFacts)
	}
	next := h
	next.Generation, next.IOWorkload = 2, 7
	rowHas(&next, mine)
	if r.ReadFacts(&next) != mine {
		t.Error("what the row says is read again")
	}
	last := h
	last.Generation, last.HostIP = 3, ""
	defer r.ExpectFacts(h.UUID, mine)()
	if err := r.apply([]shard.Change{{Host: &last}}, newDirty()); err != nil {
		t.Fatal(err)
	}
	if got := r.Host(h.UUID).Facts; got == mine || got.Parsed().HasAddress() {
		t.Errorf("the row has the facts of another state")
	}
}

// Rows of other lanes may arrive in any order. A claim on a host that is gone makes the whole host
// visible again, and the claim's end hides it.
func TestUsageOfAHostThatIsGoneShowsAndHidesIt(t *testing.T) {
	r, uuid := newRows(), hostUUID(1)
	gone := &shard.Host{UUID: uuid, ServiceHost: "h1", Imported: true, Disabled: true, Generation: 1, Providers: []shard.Provider{{UUID: uuid}}}
	for n, c := range []struct {
		change shard.Change
		shown  int
		whole  bool
	}{
		{shard.Change{Host: gone}, 0, true},
		{shard.Change{Usage: &shard.Usage{HostUUID: uuid, Generation: 2, Confirmed: 1}}, 1, true},
		{shard.Change{Usage: &shard.Usage{HostUUID: uuid, Generation: 3, Confirmed: 2}}, 1, false},
		{shard.Change{Usage: &shard.Usage{HostUUID: uuid, Generation: 4}}, 0, true},
	} {
		d := newDirty()
		if err := r.apply([]shard.Change{c.change}, d); err != nil {
			t.Fatal(err)
		}
		if all := r.HostsInService(); len(all) != c.shown || d.hosts[uuid] != c.whole {
			t.Errorf("after change %d %d hosts are there, whole: %v", n, len(all), d.hosts[uuid])
		}
	}
}

// Rows of lanes arrive in any order. The newest stays, even if it is a deletion.
func TestNamespacesOfSeveralLanes(t *testing.T) {
	host := shardtest.HostID(1)
	row := func(facts string, generation int64) shard.Change {
		return shard.Change{Namespace: &shard.Namespace{HostUUID: host, Name: "cinder", Facts: facts, Generation: generation}}
	}
	r := newRows()
	apply := func(c shard.Change) string {
		t.Helper()
		if err := r.apply([]shard.Change{c}, newDirty()); err != nil {
			t.Fatal(err)
		}
		if n := r.Host(host).Namespaces["cinder"]; n != nil {
			return n.Facts
		}
		return ""
	}
	for i, step := range []struct {
		change shard.Change
		want   string
	}{
		{row(`{"a":2}`, 4), `{"a":2}`},
		{row(`{"a":1}`, 3), `{"a":2}`},
		{row("", 6), ""},
		{row(`{"a":3}`, 5), ""},
		{shard.Change{Host: &shardtest.NewHost(1, 8).Host}, ""},
		{row(`{"a":4}`, 7), `{"a":4}`},
		{shard.Change{Usage: &shard.Usage{HostUUID: host, Generation: 7}}, `{"a":4}`},
		{row("", 8), ""},
	} {
		if got := apply(step.change); got != step.want {
			t.Errorf("after step %d it is %q, want %q", i, got, step.want)
		}
	}
	r.forgetEnded()
	if got := apply(row(`{"a":3}`, 7)); got != "" {
		t.Errorf("an older row brings %s back", got)
	}
	r.forgetEnded()
	if n := len(r.Host(host).Namespaces); n != 0 {
		t.Errorf("%d namespaces are remembered, none is there", n)
	}
}

// A host whose row Nova deleted or cannot use does not count for outages of agents. While Nova's
// tables answer for the cell, it is no error if no host is up.
func TestNoOutageOfAgentsForHostsOfTables(t *testing.T) {
	now := time.Unix(1000, 0)
	l, rows := liveness.New(60*time.Second, func() time.Time { return now }), newRows()
	var out bytes.Buffer
	o := liveness.NewOutageLog(l, rows.ServiceHost, rows.Imported, rows.AnsweredFromTables, slog.New(slog.NewTextHandler(&out, nil)))
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
	logged := func(after time.Duration) string {
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
	if s := logged(2 * time.Minute); s != "" {
		t.Errorf("hosts are imported: %s", s)
	}
	// One row was deleted without a claim, one with a claim, and one cannot be read any more.
	deleted, holding, broken := host(0, 2, false), host(1, 2, false), host(2, 2, true)
	deleted.Disabled, holding.Disabled, broken.Disabled = true, true, true
	broken.Providers[0].Inventories[0].Total = 0
	apply(shard.Change{Host: deleted}, shard.Change{Host: holding}, shard.Change{Usage: &shard.Usage{HostUUID: holding.UUID, Generation: 3, Confirmed: 1}}, shard.Change{Host: broken})
	if s := logged(2 * time.Minute); s != "" {
		t.Errorf("rows of hosts are gone: %s", s)
	}
	agents := host(3, 2, true)
	agents.Imported = false
	apply(shard.Change{Host: agents})
	l.NoteSeen(agents.UUID)
	if s := logged(time.Second); s != "" {
		t.Errorf("an agent came: %s", s)
	}
	if s := logged(2 * time.Minute); !strings.Contains(s, "level=WARN msg=\"hosts went down\" went_down=1 came_back=0 up=0 hosts=1 names=h3") {
		t.Errorf("the only agent is silent, and the tables answer: %s", s)
	}
	l.NoteSeen(agents.UUID)
	logged(time.Minute / 2)
	apply(shard.Change{Gate: &shard.Gate{State: shard.GateNative, Revision: 2}})
	if s := logged(2 * time.Minute); !strings.Contains(s, "level=ERROR msg=\"no host of the cell is up") {
		t.Errorf("the only agent is silent, and nobody else answers: %s", s)
	}
}

// An operation whose name telemetry does not know would be counted as another.
func TestEveryOperationHasAName(t *testing.T) {
	fields := reflect.TypeFor[shard.Op]()
	var names []string
	for i := range fields.NumField() {
		var op shard.Op
		reflect.ValueOf(&op).Elem().Field(i).Set(reflect.New(fields.Field(i).Type.Elem()))
		names = append(names, opKind(&op))
	}
	want := telemetry.Ops()
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("operations are counted as %v, and telemetry knows %v", names, want)
	}
}
