package config

import (
	"cmp"
	"slices"
	"time"
)

// legacyTimes checks that rows of the greatest allowed age do not make services look down that are up.
func (l *loader) legacyTimes(path string, c LegacyCell) {
	refresh := cmp.Or(c.Refresh, 2*time.Second)
	if c.ServiceDownTime > 0 && c.ServiceDownTime < 5*refresh {
		l.bad(path+".service_down_time", "%v is below five times refresh (%v): services that are up would look down", c.ServiceDownTime, refresh)
	}
}

// LegacyOnly reports whether the gateway must run the scheduler of a cell.
func (g Gateway) LegacyOnly(cell string) bool {
	return slices.ContainsFunc(g.Legacy, func(c LegacyCell) bool { return c.Cell == cell && c.Only })
}
