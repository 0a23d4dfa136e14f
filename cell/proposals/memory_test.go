package proposals

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"cellgate/schedule"
)

func tableOf(n int) *schedule.Table {
	e := schedule.NewTable().Edit()
	for i := range n {
		e.PutHost(schedule.Host{
			UUID: schedule.ID{1, byte(i), byte(i >> 8)}, ServiceHost: fmt.Sprint("host", i),
			Resources: []schedule.Resource{{Class: "VCPU", Capacity: 64, MinUnit: 1, MaxUnit: 64, StepSize: 1}},
			View:      schedule.View{FreeRAMMB: int64(i)},
		})
	}
	return e.Table()
}

func shapeOf(vcpus int64) *Shape {
	return &Shape{
		request: &schedule.Request{Resources: []schedule.Amount{{Class: "VCPU", N: vcpus}}},
		rules:   &schedule.Rules{Weighers: []schedule.Weigher{{Name: schedule.RAMWeigher, Multiplier: 1}}},
	}
}

// Many callers ask for the same shapes while hosts change. They are answered as from the table,
// with room for the caches of all shapes, of one, or of none.
func TestMemoriesAnswerAsTheTable(t *testing.T) {
	const hosts = 500
	one := schedule.NewFilterCache(shapeOf(1).request, shapeOf(1).rules).Bytes(hosts)
	for _, most := range []int{maxMemory, 3 * one / 2, one / 2} {
		m := &memories{most: most}
		shapes := []*Shape{shapeOf(1), shapeOf(2), shapeOf(3)}
		tables := []*schedule.Table{tableOf(hosts)}
		for i := range 20 {
			e := tables[i].Edit()
			e.Take(schedule.TentativePlacement{Host: schedule.ID{1, byte(7 * i)}, Instance: schedule.ID{2, byte(i)}}, shapes[2].request)
			tables = append(tables, e.Table())
		}
		var all sync.WaitGroup
		for caller := range 4 {
			all.Go(func() {
				dice := rand.New(rand.NewPCG(1, uint64(caller)))
				for range 300 {
					of, table := shapes[dice.IntN(len(shapes))], tables[dice.IntN(len(tables))]
					q := &schedule.Query{Request: of.request, Rules: of.rules, Seed: dice.Uint64(), Limit: 4}
					got, err := m.propose(of, table, q)
					want, wantErr := table.Propose(q)
					if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
						t.Errorf("got  %+v, %v\nwant %+v, %v", got, err, want, wantErr)
						return
					}
				}
			})
		}
		all.Wait()
		holding := 0
		for _, s := range shapes {
			if k := s.memory.free.Load(); k != nil && k.epoch == m.epoch.Load() {
				holding++
			}
		}
		if want := map[int]int{maxMemory: 3, one / 2: 0}; most != 3*one/2 && holding != want[most] || holding > 1 && most == 3*one/2 {
			t.Errorf("%d bytes: %d shapes have a memory", most, holding)
		}
		if m.bytes > most {
			t.Errorf("%d bytes are kept, the most is %d", m.bytes, most)
		}
	}
}

// A shape that is asked for once leaves no cache, nor does one that cannot be cached.
func TestMemoryIsForWhatComesAgain(t *testing.T) {
	m, table := &memories{most: maxMemory}, tableOf(10)
	grouped := shapeOf(1)
	grouped.request.Group = &schedule.Group{Policy: schedule.AntiAffinity}
	for of, want := range map[*Shape]int{shapeOf(1): 1, grouped: 0} {
		for i := range 3 {
			if _, err := m.propose(of, table, &schedule.Query{Request: of.request, Rules: of.rules, Limit: 1}); err != nil {
				t.Fatal(err)
			}
			if i == 0 && of.memory.free.Load() != nil {
				t.Error("the first query left a memory")
			}
		}
		if got := of.memory.free.Load() != nil; got != (want == 1) {
			t.Errorf("group %v: kept %v", of.request.Group, got)
		}
	}
}
