package selection

import (
	"math"
	"time"
)

const (
	// refusedStep and placedStep are what a refused claim, and one that was made,
	// multiply a shape's width by. They balance when about one claim in nine is
	// refused: more refusals widen it, fewer narrow it.
	refusedStep, placedStep = 1.5, 0.95
	// calmHalf is how long it takes to halve when nothing is claimed.
	calmHalf = time.Second
)

// contention is how much requests of one shape get in each other's way, as the refusals
// of their claims show. Several schedulers that decide at the same time see the same
// best host: all but one are refused, plan again and meet at the next one. When that
// happens, each picks one of the first width hosts, so that they part; as refusals
// become rare the width falls back to 1, which is the exact order. The zero value has
// seen nothing.
type contention struct {
	// level is the width at a time, 1 to maxSpread, before rounding.
	level float64
	at    time.Time
}

// width is among how many of the best hosts to pick: 1 when there were no refusals
// lately.
func (c *contention) width(now time.Time) int { return int(math.Round(c.calmed(now))) }

// calmed is the level now.
func (c *contention) calmed(now time.Time) float64 {
	idle := max(now.Sub(c.at), 0)
	return max(1, c.level*math.Exp2(-idle.Seconds()/calmHalf.Seconds()))
}

// record takes claims that were made and claims that others' had forestalled.
func (c *contention) record(now time.Time, placed, refused int) {
	level := c.calmed(now) * math.Pow(placedStep, float64(placed)) * math.Pow(refusedStep, float64(refused))
	c.level, c.at = min(max(level, 1), maxSpread), now
}
