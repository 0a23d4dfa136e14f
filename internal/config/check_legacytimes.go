package config

import (
	"cmp"
	"slices"
	"time"
)

// minRefresh and maxRefresh bound gateway.legacy.refresh: a database that is read more
// often does little else, and rows that are read less often are too old to answer from.
const minRefresh, maxRefresh = 100 * time.Millisecond, 5 * time.Second

// legacyTimes: rows that are as old as they may be do not make services look down that
// are up.
func (l *loader) legacyTimes(path string, c LegacyCell) {
	if c.Refresh > 0 {
		l.between(path+".refresh", c.Refresh, minRefresh, maxRefresh)
	}
	refresh := cmp.Or(c.Refresh, 2*time.Second)
	if c.ServiceDownTime > 0 && c.ServiceDownTime < 5*refresh {
		l.bad(path+".service_down_time", "%v is below five times refresh (%v): services that are up would look down", c.ServiceDownTime, refresh)
	}
}

// LegacyOnly reports whether the gateway is to run the scheduler of a cell.
func (g Gateway) LegacyOnly(cell string) bool {
	return slices.ContainsFunc(g.Legacy, func(c LegacyCell) bool { return c.Cell == cell && c.Only })
}
