package gateway

import (
	"fmt"
	"strings"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/health"
)

// watchedWithin is the longest time between two visits of the directory to a cell. It visits
// each cell every summaryEvery (package cellclient), and waits at most the probe budget.
const watchedWithin = 15 * time.Second

// Health reports whether the gateway is alive (its directory visits the cells) and ready. It
// is ready once every cell was asked, while at least one enabled cell answered within
// cellclient.SummaryMaxAge. A missing cell does not make a gateway unready, since the others
// are still asked.
func (g *Gateway) Health() *health.Monitor { return g.health }

func (g *Gateway) aliveChecks() []health.Check {
	check := health.Check{Name: "directory", OK: true}
	if late := g.cells.Unwatched(watchedWithin); late != "" {
		check.OK, check.Why = false, late
	}
	return []health.Check{check}
}

func (g *Gateway) readyChecks() []health.Check {
	asked := health.Check{Name: "asked", OK: true}
	select {
	case <-g.ready:
	default:
		asked.OK, asked.Why = false, "not every cell has been asked yet"
	}
	return []health.Check{asked, g.cellsCheck()}
}

func (g *Gateway) cellsCheck() health.Check {
	var silent, strange []string
	fresh, enabled := 0, 0
	for _, c := range g.cells.All {
		if c.Disabled() {
			continue
		}
		enabled++
		s := c.NewestSummary()
		who := c.WrongCell()
		switch {
		case who != "":
			strange = append(strange, who)
		case s == nil:
			silent = append(silent, c.Name()+" never")
		case g.now().Sub(s.At) > cellclient.SummaryMaxAge:
			silent = append(silent, fmt.Sprintf("%s %v ago", c.Name(), g.now().Sub(s.At).Round(time.Second)))
		default:
			fresh++
		}
	}
	seen := strings.Join(append(strange, silent...), ", ")
	switch {
	case fresh == enabled && enabled > 0:
		return health.Check{Name: "cells", OK: true}
	case fresh > 0:
		return health.Check{Name: "cells", OK: true, Why: fmt.Sprintf("%d of %d; without: %s", fresh, enabled, seen)}
	case enabled == 0:
		return health.Check{Name: "cells", Why: "every cell is disabled"}
	}
	return health.Check{Name: "cells", Why: fmt.Sprintf("no cell has answered in the last %v: %s", cellclient.SummaryMaxAge, seen)}
}
