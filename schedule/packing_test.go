package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Packing reports that as many instances fit as Fill places, and that the free amounts in one host
// would hold at least as many.
func TestPacking_RandomFleets_FitsWhatFillPlaces(t *testing.T) {
	fragmented, partly := 0, 0
	for seed := range 200 {
		r := rand.New(rand.NewPCG(2, uint64(seed)))
		e := NewTable().Edit()
		var used, capacity [len(PackedClasses)]int64
		empty := 0
		for i := range 1 + r.IntN(150) {
			h := Host{UUID: testID('h', i), Disabled: r.IntN(8) == 0, Down: r.IntN(8) == 0}
			if r.IntN(8) == 0 {
				h.Withheld = "a test"
			}
			for _, class := range PackedClasses {
				if r.IntN(10) > 0 {
					n := int64(r.IntN(64))
					h.Resources = append(h.Resources, Resource{Class: class, Capacity: n, Used: r.Int64N(70), MinUnit: 1 + r.Int64N(2), MaxUnit: 1 + r.Int64N(64), StepSize: 1 + r.Int64N(2)})
				}
			}
			e.PutHost(h)
			if occupied := r.IntN(3) > 0; occupied {
				e.PutConsumer(h.UUID, Consumer{Instance: testID('i', i)})
				for _, x := range h.Resources {
					for k, class := range PackedClasses {
						if x.Class == class {
							used[k] += x.Used
							capacity[k] += x.Capacity
						}
					}
				}
			} else if !h.Disabled && !h.Down && h.Withheld == "" {
				empty++
			}
		}
		table := e.Table()
		var shapes []Shape
		for range 1 + r.IntN(4) {
			s := Shape{1 + r.Int64N(4)}
			for k := range s {
				if r.IntN(2) == 0 {
					s[k] = 1 + r.Int64N(6)
				}
			}
			shapes = append(shapes, s)
		}
		got := table.Packing(shapes)
		if got.Empty != empty || got.Used != used || got.Capacity != capacity {
			t.Fatalf("seed %d: %+v, want %d empty, %v of %v used", seed, got, empty, used, capacity)
		}
		for i, s := range shapes {
			request := &Request{}
			for k, n := range s {
				if n > 0 {
					request.Resources = append(request.Resources, Amount{Class: PackedClasses[k], N: n})
				}
			}
			filled, err := table.Fill(request, &Rules{}, 1e6, noRest)
			if err != nil {
				t.Fatal(err)
			}
			room := got.Rooms[i]
			if room.Fits != int64(filled.Instances) || room.Pooled < room.Fits {
				t.Fatalf("seed %d: %v: %+v, Fill places %d", seed, s, room, filled.Instances)
			}
			partly += bit2int(room.Fits > 0)
			fragmented += bit2int(room.Fits > 0 && room.Pooled > room.Fits)
		}
	}
	if partly == 0 || fragmented == 0 {
		t.Errorf("the fleets show too little: %d rooms, %d fragmented", partly, fragmented)
	}
}

func TestPacking_TwoHalvesAndAHole_IsFragmented(t *testing.T) {
	e := NewTable().Edit()
	for i := range 2 {
		e.PutHost(Host{UUID: testID('h', i), Resources: []Resource{{Class: "VCPU", Capacity: 8, Used: 5, MinUnit: 1, MaxUnit: 8, StepSize: 1}}})
	}
	e.PutConsumer(testID('h', 0), Consumer{Instance: testID('i', 0)})
	got := e.Table().Packing([]Shape{{2}, {4}})
	if got.Rooms[0] != (Room{Fits: 2, Pooled: 3}) || got.Rooms[1] != (Room{Pooled: 1}) || got.Empty != 1 || got.Used[0] != 5 || got.Capacity[0] != 8 {
		t.Errorf("%+v", got)
	}
}

func BenchmarkPacking(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := NewTable().Edit()
			for _, h := range benchHosts(n) {
				e.PutHost(h)
			}
			table := e.Table()
			shapes := make([]Shape, 10)
			for i := range shapes {
				shapes[i] = Shape{int64(1 + i), 0, int64(1+i) * 2048, 20}
			}
			for b.Loop() {
				table.Packing(shapes)
			}
		})
	}
}
