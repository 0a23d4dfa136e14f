package cell

import (
	"slices"
	"time"
)

// keepNewest is how many times downTime the rows of a gateway count that is not heard any more.
// Gateways report no rows in which the newest heartbeat is older than downTime, so that what
// comes later is newer than these.
const keepNewest = 2

// maxRowAhead is how far in the future a row may have been written: times further ahead order
// nothing, or a clock that was set back would have rows of now count as old.
const maxRowAhead = time.Minute

// ordering puts the rows of one service, as gateways report them from databases that may be
// behind each other, in order of when Nova wrote them.
type ordering struct {
	until    time.Time
	downTime time.Duration
	// newest row of each service that any gateway reported.
	newest map[string]*legacyService
	// reading is the newest one, as its rows tell, there are its services.
	reading time.Time
	there   map[string]struct{}
}

// writtenAt is when a row was written; zero: not known, or not to be believed.
func (o *ordering) writtenAt(s *legacyService) time.Time {
	if s.changedAt.After(o.until) {
		return time.Time{}
	}
	return s.changedAt
}

// newestRows gives reports with what newer rows say in the place of older ones: a gateway that
// starts on a copy that is behind undoes nothing. Of rows that are as new, and of those whose
// time is not known, all count. gone is the newest report of a gateway that is not heard any more,
// nil for none. A row is left out that the newest reading has not, and that was written more than
// downTime before it: Nova has deleted it since.
func (r gateRules) newestRows(reports []legacyReport, gone *legacyReport, now time.Time) []legacyReport {
	readings := make([]*legacyReport, 0, len(reports)+1)
	for i := range reports {
		if reports[i].unreadable == "" || len(reports[i].services) > 0 { // it read these before
			readings = append(readings, &reports[i])
		}
	}
	if gone != nil {
		readings = append(readings, gone)
	}
	if len(readings) < 2 && !slices.ContainsFunc(reports, func(r legacyReport) bool { return len(r.old) > 0 }) {
		return reports
	}
	o := r.order(readings, now)
	out := make([]legacyReport, len(reports))
	for i, report := range reports {
		if report.unreadable == "" {
			report.services = o.replaced(report.services)
		}
		report.old = o.replaced(report.old)
		out[i] = report
	}
	return out
}

func (r gateRules) order(readings []*legacyReport, now time.Time) *ordering {
	o := &ordering{until: now.Add(maxRowAhead), downTime: r.downTime, newest: map[string]*legacyService{}, there: map[string]struct{}{}}
	var from *legacyReport
	for _, report := range readings {
		for i := range report.services {
			s := &report.services[i]
			at := o.writtenAt(s)
			if at.IsZero() {
				continue
			}
			if at.After(o.reading) {
				o.reading, from = at, report
			}
			if known := o.newest[s.host]; known == nil || at.After(known.changedAt) {
				o.newest[s.host] = s
			}
		}
	}
	if from != nil {
		for i := range from.services {
			o.there[from.services[i].host] = struct{}{}
		}
	}
	return o
}

// replaced gives services as the newest rows have them; the same ones where none is otherwise.
func (o *ordering) replaced(services []legacyService) []legacyService {
	for i := range services {
		if s := o.of(&services[i]); s == nil || !s.says(&services[i]) {
			return o.replaceFrom(i, services)
		}
	}
	return services
}

func (o *ordering) replaceFrom(first int, services []legacyService) []legacyService {
	out := append(make([]legacyService, 0, len(services)), services[:first]...)
	for i := first; i < len(services); i++ {
		if s := o.of(&services[i]); s != nil {
			out = append(out, *s)
		}
	}
	return out
}

// of gives the row that counts in the place of one; nil when none does.
func (o *ordering) of(s *legacyService) *legacyService {
	at := o.writtenAt(s)
	if at.IsZero() {
		return s
	}
	if newest := o.newest[s.host]; newest != nil && newest.changedAt.After(at) {
		s = newest
	}
	if _, there := o.there[s.host]; !there && o.reading.Sub(s.changedAt) > o.downTime {
		return nil
	}
	return s
}

// says reports whether two rows of a service say the same to the rules.
func (s *legacyService) says(o *legacyService) bool {
	return s == o || s.version == o.version && s.disabled == o.disabled && s.forcedDown == o.forcedDown &&
		s.up == o.up && (s.up || s.lastSeen.Equal(o.lastSeen)) && slices.Equal(s.nodes, o.nodes)
}

// goes keeps the report of a gateway that is forgotten, where none is newer. The caller holds mu.
func (k *gatekeeper) goes(g *gatewayReport) {
	if k.gone == nil || !k.gone.newestRow().After(g.newestRow()) {
		k.gone = g
	}
}

// newestRow is when the newest row was written.
func (r *legacyReport) newestRow() (at time.Time) {
	for i := range r.services {
		at = later(at, r.services[i].changedAt)
	}
	return at
}
