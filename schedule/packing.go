package schedule

import "math/bits"

// PackedClasses are the classes that Packing counts, of root providers.
var PackedClasses = [...]string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}

// Shape is what an instance takes of each of PackedClasses; 0 for nothing.
type Shape [len(PackedClasses)]int64

// Packing says how well instances are packed on the hosts of a table.
type Packing struct {
	// Empty hosts take instances and have none.
	Empty int
	// Used and Capacity are of all hosts that have an instance, by class.
	Used, Capacity [len(PackedClasses)]int64
	// Rooms are of the shapes that were asked for, in their order.
	Rooms []Room
}

// Room is how many instances of a shape the hosts that take instances hold besides those they have. Only amounts count.
type Room struct {
	// Fits are the instances that fit host by host.
	Fits int64
	// Pooled are those that would fit if one host had all that is free: what Fits lacks of it is fragmentation.
	Pooled int64
}

// Packing counts the hosts' packing, and the room for shapes. Each shape has an amount above 0.
func (t *Table) Packing(shapes []Shape) *Packing {
	out := &Packing{Rooms: make([]Room, len(shapes))}
	var pool [len(PackedClasses)]int64
	for _, c := range t.chunks {
		takes := c.valid &^ (c.disabled | c.withheld | c.down)
		for m := c.valid; m != 0; m &= m - 1 {
			slot := bits.TrailingZeros64(m)
			r := c.rows.v[slot]
			var of [len(PackedClasses)]*Resource
			var free [len(PackedClasses)]int64
			for i := range r.host.Resources {
				x := &r.host.Resources[i]
				for k, class := range PackedClasses {
					if x.Class != class {
						continue
					}
					of[k], free[k] = x, max(0, x.Capacity-r.used[i])
					if len(r.consumers) > 0 {
						out.Used[k] += r.used[i]
						out.Capacity[k] += x.Capacity
					}
				}
			}
			if takes>>slot&1 == 0 {
				continue
			}
			if len(r.consumers) == 0 {
				out.Empty++
			}
			for k := range pool {
				pool[k] += free[k]
			}
			for i := range shapes {
				out.Rooms[i].Fits += shapes[i].fits(&of, &free)
			}
		}
	}
	for i := range shapes {
		out.Rooms[i].Pooled = shapes[i].times(&pool)
	}
	return out
}

// fits gives how many of the shape a host holds that has so much free.
func (s *Shape) fits(of *[len(PackedClasses)]*Resource, free *[len(PackedClasses)]int64) int64 {
	for k, n := range s {
		if r := of[k]; n > 0 && (r == nil || n < r.MinUnit || n > r.MaxUnit || r.StepSize > 1 && n%r.StepSize != 0) {
			return 0
		}
	}
	return s.times(free)
}

// times gives how often the shape is in amounts.
func (s *Shape) times(in *[len(PackedClasses)]int64) int64 {
	least := int64(-1)
	for k, n := range s {
		if n <= 0 {
			continue
		}
		if times := in[k] / n; least < 0 || times < least {
			least = times
		}
	}
	return max(0, least)
}
