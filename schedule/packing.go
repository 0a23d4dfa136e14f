package schedule

import "math/bits"

// PackedClasses are the classes of root providers that Packing counts.
var PackedClasses = [...]string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}

// Shape is what an instance takes of each of PackedClasses; 0 for nothing.
type Shape [len(PackedClasses)]int64

// Packing says how well instances are packed on the hosts of a table.
type Packing struct {
	// Empty is how many hosts accept instances and have none.
	Empty int
	// Used and Capacity are sums over all hosts that have an instance, by class.
	Used, Capacity [len(PackedClasses)]int64
	// Rooms are the rooms for the requested shapes, in their order.
	Rooms []Room
}

// Room is how many more instances of a shape fit on the hosts that accept instances. Only amounts count.
type Room struct {
	// Fits is the sum of the instances that fit on each host.
	Fits int64
	// Pooled is how many would fit if one host had everything that is free. Pooled - Fits is lost to fragmentation.
	Pooled int64
}

// Packing measures how well the hosts are packed, and the room for shapes. Each shape must have an amount above 0.
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

// fits gives how many instances of the shape a host with this free capacity holds.
func (s *Shape) fits(of *[len(PackedClasses)]*Resource, free *[len(PackedClasses)]int64) int64 {
	for k, n := range s {
		if r := of[k]; n > 0 && (r == nil || n < r.MinUnit || n > r.MaxUnit || r.StepSize > 1 && n%r.StepSize != 0) {
			return 0
		}
	}
	return s.times(free)
}

// times gives how often the shape is contained in amounts.
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
