package novadb

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

func (w *world) instance(i int) legacytest.Row {
	return legacytest.Row{
		"id": i, "uuid": uuid(i), "host": name(1 + i%3), "node": name(1+i%3) + ".example", "deleted": 0,
		"vcpus": 2, "memory_mb": 2048, "root_gb": 20, "ephemeral_gb": 5, "instance_type_id": 7, "project_id": "p", "user_id": "u",
		"vm_state": "active", "created_at": w.now.Add(-240 * time.Hour), "updated_at": w.now.Add(-24 * time.Hour),
	}
}

// pass returns the instances of a pass, and its last page.
func (w *world) pass(from InstancePoint) (all []Instance, last *InstancePage) {
	w.Helper()
	for p, err := range w.Instances(w.Context(), from) {
		if err != nil {
			w.Fatal(err)
		}
		if len(p.Instances) > w.conf.PageSize {
			w.Errorf("a page of %d", len(p.Instances))
		}
		all, last = append(all, p.Instances...), p
	}
	return all, last
}

func ids(all []Instance) (ids []int64) {
	for _, i := range all {
		ids = append(ids, i.ID)
	}
	return ids
}

func TestInstances(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 0)
		if all, _ := w.pass(InstancePoint{}); len(all) != 0 {
			t.Errorf("no rows, and %v", all)
		}
		var rows []legacytest.Row
		for i := 1; i <= 30; i++ {
			rows = append(rows, w.instance(i))
		}
		rows[1]["image_ref"], rows[2]["image_ref"] = "", uuid(1)
		// One row is beyond a window of ids, and one is deleted.
		rows = append(rows, with(w.instance(31), legacytest.Row{"id": 3*instanceWindow + 1}),
			with(w.instance(32), legacytest.Row{"deleted": 32, "deleted_at": w.now.Add(-time.Hour), "host": nil, "node": nil, "vcpus": nil, "task_state": "deleting"}))
		w.cell.Insert(t, "instances", rows...)

		all, last := w.pass(InstancePoint{})
		want := []int64{3*instanceWindow + 1}
		for i := int64(30); i > 0; i-- {
			want = append([]int64{i}, want...)
		}
		if !slices.Equal(ids(all), want) {
			t.Fatalf("%v", ids(all))
		}
		one := Instance{
			ID: 1, UUID: uuid(1), Host: "host2", Node: "host2.example", VCPUs: 2, MemoryMB: 2048, RootGB: 20, EphemeralGB: 5,
			Project: "p", User: "u", VMState: "active", CreatedAt: w.now.Add(-240 * time.Hour), UpdatedAt: w.now.Add(-24 * time.Hour),
		}
		if !reflect.DeepEqual(all[0], one) {
			t.Errorf("%+v, want %+v", all[0], one)
		}
		if all[0].FromVolume || !all[1].FromVolume || all[2].FromVolume {
			t.Errorf("of no image, an empty one and one: %v, %v, %v", all[0].FromVolume, all[1].FromVolume, all[2].FromVolume)
		}
		if last.At.Before(w.now) {
			t.Errorf("the pass was at %v", last.At)
		}

		// A pass goes on where one was left.
		for p, err := range w.Instances(t.Context(), InstancePoint{}) {
			if err != nil {
				t.Fatal(err)
			}
			rest, _ := w.pass(InstancePoint{After: p.Last})
			if !slices.Equal(ids(append(p.Instances, rest...)), want) {
				t.Errorf("%v and %v", ids(p.Instances), ids(rest))
			}
			break
		}

		// A pass since a time has the rows that were updated, made or deleted since, and some from a little before.
		if all, _ := w.pass(InstancePoint{Since: last.At}); len(all) != 0 {
			t.Errorf("nothing was written, and %v", ids(all))
		}
		w.do("UPDATE instances SET task_state = 'resize_prep', updated_at = ? WHERE id = 4", w.now)
		w.do("UPDATE instances SET deleted = id, deleted_at = ? WHERE id = 5", w.now)
		w.cell.Insert(t, "instances", with(w.instance(40), legacytest.Row{"created_at": w.now.Add(-time.Minute), "updated_at": nil}))
		all, _ = w.pass(InstancePoint{Since: last.At})
		if got := fmt.Sprint(ids(all)); got != "[4 5 40]" {
			t.Fatalf("since the pass: %s", got)
		}
		if all[0].TaskState != "resize_prep" || !all[1].Deleted || !all[1].Gone || all[0].Gone || !all[1].DeletedAt.Equal(w.now) || all[2].Deleted {
			t.Errorf("%+v", all)
		}
		all, _ = w.pass(InstancePoint{Since: w.now.Add(-time.Hour)})
		if i := slices.IndexFunc(all, func(i Instance) bool { return i.ID == 32 }); i < 0 || !all[i].Incomplete || all[i].Host != "" || all[i].TaskState != "deleting" {
			t.Errorf("a deleted one without amounts: %+v", all)
		}
	})
}

// Ids have gaps where rows were purged. A column of PostgreSQL takes no bound beyond its type.
func TestInstances_GreatestID_ReadInFewPages(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 0)
		w.cell.Insert(t, "instances", w.instance(1), with(w.instance(2), legacytest.Row{"id": math.MaxInt32}))
		for _, since := range []time.Time{{}, w.now.Add(-48 * time.Hour), w.now} {
			var all []int64
			pages := 0
			for p, err := range w.Instances(t.Context(), InstancePoint{Since: since}) {
				if err != nil {
					t.Fatal(err)
				}
				if pages++; pages > 5 {
					t.Fatalf("since %v: page %d ends at id %d", since, pages, p.Last)
				}
				all = append(all, ids(p.Instances)...)
			}
			if want := []int64{1, math.MaxInt32}; !since.Equal(w.now) && !slices.Equal(all, want) {
				t.Errorf("since %v: %v, want %v", since, all, want)
			}
		}
	})
}

func TestFaultsOfInstances(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		proxy := newProxy(t, k.Shared(t).Addr())
		w := newWorld(t, k, 0, func(c *Config) { c.Database.URL = at(t, c.Database.URL, proxy.address()) })
		var rows []legacytest.Row
		for i := 1; i <= 30; i++ {
			rows = append(rows, w.instance(i))
		}
		w.cell.Insert(t, "instances", rows...)
		seen, ended := 0, false
		for p, err := range w.Instances(t.Context(), InstancePoint{}) {
			if ended {
				t.Error("it goes on after an error")
			}
			if err != nil {
				unavailable(t, err, "cell", Unreachable)
				ended = true
				continue
			}
			seen += len(p.Instances)
			proxy.cutAfter(100)
		}
		if !ended || seen == 0 || seen == 30 {
			t.Errorf("%d of 30 rows, an error: %t", seen, ended)
		}
		proxy.cutAfter(-1)
		if all, _ := w.pass(InstancePoint{After: int64(seen)}); len(all) != 30-seen {
			t.Errorf("the rest is %d, %d were seen", len(all), seen)
		}
	})
}
