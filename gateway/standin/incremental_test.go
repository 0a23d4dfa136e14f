package standin

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// TestIncrementalIsRebuilt: after whatever came, the table is that of a stand-in that
// begins with what is so now.
func TestIncrementalIsRebuilt(t *testing.T) {
	w := newWorld(t, 40)
	w.rng = rand.New(rand.NewPCG(3, 4))
	f := &finding{}
	w.cfg.Find = f.find
	w.update()
	next, last := 0, w.versions.Current().Version()
	var awaited []*cellv1.AwaitedClaim
	for step := range 600 {
		w.at = w.at.Add(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		switch w.rng.IntN(5) {
		case 0:
			next++
			c := newClaim(next%50, w.rng.IntN(40))
			w.Chose(c, w.at.Add(time.Duration(w.rng.IntN(30))*time.Second))
			if w.rng.IntN(2) == 0 {
				awaited = append(awaited, awaitedOf(c))
			}
		case 1:
			w.Ended(fmt.Sprint("claim-", w.rng.IntN(50)))
		case 2:
			id := w.rng.IntN(20)
			f.rows = nil
			w.found([]schedule.ID{instanceID(id)}, map[schedule.ID]string{instanceID(id): service(w.rng.IntN(40))}, w.at)
		default:
			w.mutate()
			awaited = awaited[min(len(awaited), w.rng.IntN(3)):]
			w.update(awaited...)
		}
		if v := w.versions.Current().Version(); v > last+1 {
			t.Fatalf("step %d: %d versions", step, v-last)
		} else {
			last = v
		}
		if step%5 == 0 {
			w.sameAsRebuilt(step)
		}
		if t.Failed() {
			return
		}
	}
}

// mutate changes some rows, services or aggregates.
func (w *world) mutate() {
	for range w.rng.IntN(6) {
		n := w.rng.IntN(40)
		switch w.rng.IntN(7) {
		case 0:
			r := w.change(n)
			r.VCPUsUsed, r.FreeRAMMB = w.rng.Int64N(70), 65536-w.rng.Int64N(70000)
		case 1:
			w.rows[n].gone = !w.rows[n].gone
		case 2:
			w.rows[n].service.Disabled = !w.rows[n].service.Disabled
		case 3:
			w.rows[n].service.ForcedDown = !w.rows[n].service.ForcedDown
		case 4:
			w.aggregates[service(n)] = nil
			for _, name := range []string{"a", "b"} {
				if w.rng.IntN(2) == 0 {
					w.aggregates[service(n)] = append(w.aggregates[service(n)], aggregate(name, w.zone))
				}
			}
		case 5: // an aggregate is another for all its hosts
			w.zone = fmt.Sprint("az", w.rng.IntN(3))
			for s, list := range w.aggregates {
				w.aggregates[s] = nil
				for _, a := range list {
					w.aggregates[s] = append(w.aggregates[s], aggregate(a.Name, w.zone))
				}
			}
		case 6: // the host is renamed
			r := w.change(n)
			r.Host, r.service.Host = service(n)+"x", service(n)+"x"
			if w.rng.IntN(2) == 0 {
				r.Host, r.service.Host = service(n), service(n)
			}
		}
	}
	for _, r := range w.rows {
		r.service.LastSeenUp = w.at
	}
}

func aggregate(name, zone string) schedule.Aggregate {
	return schedule.Aggregate{UUID: name, Name: name, Metadata: map[string]string{"availability_zone": zone + name}}
}

func (w *world) sameAsRebuilt(step int) {
	w.Helper()
	fresh := New(w.cfg)
	fresh.known.ended = w.known.ended
	for _, id := range sortedKeys(w.known.claims) {
		c := *w.known.claims[id]
		fresh.put(&c, newDirty())
	}
	for id, at := range w.named.at {
		fresh.named.at[id] = at
	}
	d := newDirty()
	fresh.read(w.Standin.rows, w.readNow(), d)
	for id := range w.named.at {
		d.instances[id] = struct{}{}
	}
	fresh.publish(d)
	got, want := w.versions.Current(), fresh.versions.Current()
	if got.Len() != want.Len() || got.Len() != len(w.Standin.rows.Hosts) {
		w.Errorf("step %d: %d hosts, %d of %d rows when rebuilt", step, got.Len(), want.Len(), len(w.Standin.rows.Hosts))
	}
	for h := range want.All() {
		other, ok := got.Host(h.UUID)
		if !ok || !reflect.DeepEqual(other, h) {
			w.Errorf("step %d: host\n%+v\nrebuilt\n%+v", step, other, h)
			return
		}
	}
	for n := range 50 {
		a, b := places(got, instanceID(n)), places(want, instanceID(n))
		if !slices.Equal(a, b) {
			w.Errorf("step %d: instance %d is on %v, rebuilt on %v", step, n, a, b)
		}
	}
}

// readNow is the server's time that the rows were given with.
func (w *world) readNow() time.Time { return w.Standin.rows.At }

func places(t *schedule.Table, instance schedule.ID) (out []string) {
	for _, p := range t.Places(instance) {
		out = append(out, p.Host.String())
	}
	slices.Sort(out)
	return out
}

func sortedKeys(m map[string]*claim) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// An update makes those hosts again that are others, and no version when none is.
func TestIncrementalMakesWhatChanged(t *testing.T) {
	w := newWorld(t, 1000)
	w.update()
	before := w.versions.Current().Version()
	w.at = w.at.Add(2 * time.Second)
	w.update()
	if v := w.versions.Current().Version(); v != before {
		t.Errorf("nothing changed, and %d versions were made", v-before)
	}
	for n := range 7 {
		w.change(100*n).VCPUsUsed++
	}
	w.rows[3].service.ForcedDown = true
	d := newDirty()
	w.mu.Lock()
	w.read(w.snapshot(), w.at, d)
	w.mu.Unlock()
	if len(d.hosts) != 8 {
		t.Errorf("%d hosts are made again, want 8", len(d.hosts))
	}
}
