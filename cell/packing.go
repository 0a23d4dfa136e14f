package cell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cellgate/internal/telemetry"
	"cellgate/schedule"
)

const (
	// packingAge is how long a count of the cell's packing is used: over 100,000 hosts and ten shapes
	// it takes 50 ms.
	packingAge = 15 * time.Second
	// packedShapes is how many shapes have metrics.
	packedShapes = 10
	// sampledClaims is the number of live claims from which the shapes are sampled.
	sampledClaims = 4096
)

// packing measures how well the cell is packed, for metrics. Safe for concurrent use.
type packing struct {
	mu      sync.Mutex
	counted time.Time
	reading telemetry.PackingReading
}

// read returns the newest count, which is at most packingAge old.
func (p *packing) read(c *Cell) telemetry.PackingReading {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := c.now(); p.counted.IsZero() || now.Sub(p.counted) >= packingAge {
		p.counted = now
		shapes := frequentShapes(c.shapeCounts())
		p.reading = packingReading(c.versions.Current().Packing(shapes), shapes)
	}
	return p.reading
}

// shapeCounts counts the shapes of live claims. If there are many claims, it counts a different sample
// each time.
func (c *Cell) shapeCounts() map[schedule.Shape]int {
	counts := map[schedule.Shape]int{}
	for claim := range c.rows.SomeClaims(sampledClaims) {
		var s schedule.Shape
		for i := range claim.Allocations {
			a := &claim.Allocations[i]
			if k := slices.Index(schedule.PackedClasses[:], a.ResourceClass); k >= 0 && a.ProviderUUID == claim.HostUUID {
				s[k] += a.Amount
			}
		}
		if s != (schedule.Shape{}) {
			counts[s]++
		}
	}
	return counts
}

// frequentShapes returns the most frequent shapes.
func frequentShapes(counts map[schedule.Shape]int) []schedule.Shape {
	all := slices.SortedFunc(maps.Keys(counts), func(a, b schedule.Shape) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), slices.Compare(a[:], b[:]))
	})
	return all[:min(len(all), packedShapes)]
}

func packingReading(of *schedule.Packing, shapes []schedule.Shape) telemetry.PackingReading {
	out := telemetry.PackingReading{Empty: of.Empty, Density: map[string]float64{}}
	for k, class := range schedule.PackedClasses {
		if of.Capacity[k] > 0 {
			out.Density[class] = float64(of.Used[k]) / float64(of.Capacity[k])
		}
	}
	for i, s := range shapes {
		out.Shapes = append(out.Shapes, telemetry.ShapeReading{Shape: shapeText(s), Fits: of.Rooms[i].Fits, Pooled: of.Rooms[i].Pooled})
	}
	return out
}

// shapeText is a shape as a label: "4 VCPU, 8192 MEMORY_MB, 80 DISK_GB".
func shapeText(s schedule.Shape) string {
	var parts []string
	for k, n := range s {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, schedule.PackedClasses[k]))
		}
	}
	return strings.Join(parts, ", ")
}
