package selection

import (
	"math"
	"time"
)

const (
	// refusedStep and placedStep multiply a shape's width for each refused claim, and for
	// each claim made. They balance if about one claim in nine is refused: more refusals
	// widen it, fewer narrow it.
	refusedStep, placedStep = 1.5, 0.95
	// calmHalf is the time in which the width halves while nothing is claimed.
	calmHalf = time.Second
)

// contention measures how often concurrent requests of one shape choose the same host, by the
// refusals of their claims. Schedulers that decide at the same time see the same best host.
// All but one are refused, plan again, and meet at the next host. To part them, each then
// picks one of the first width hosts. As refusals become rare, width falls back to 1, which
// is the exact order. The zero value has seen no claim.
type contention struct {
	// level is the width at time at, 1 to maxSpread, before rounding.
	level float64
	at    time.Time
}

// width is how many of the best hosts to pick among; 1 if there were no recent refusals.
func (c *contention) width(now time.Time) int { return int(math.Round(c.calmed(now))) }

// calmed gives the level at now.
func (c *contention) calmed(now time.Time) float64 {
	idle := max(now.Sub(c.at), 0)
	return max(1, c.level*math.Exp2(-idle.Seconds()/calmHalf.Seconds()))
}

// record counts claims that were made, and claims that were refused since other claims came first.
func (c *contention) record(now time.Time, placed, refused int) {
	level := c.calmed(now) * math.Pow(placedStep, float64(placed)) * math.Pow(refusedStep, float64(refused))
	c.level, c.at = min(max(level, 1), maxSpread), now
}
