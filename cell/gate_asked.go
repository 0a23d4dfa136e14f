package cell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// asked is what a gateway asks of Nova's services, by its configuration. Where gateways differ
// the strictest counts: the highest version is required, and a service is up that is so by the
// longest service_down_time.
type asked struct {
	gateway string
	// required is below zero where it is not known.
	required int32
	// downTime is zero where it is not known.
	downTime time.Duration
}

// dispute is where gateways differ, in words that name them; "" where they do not.
type dispute struct {
	required, downTime string
	// leastRequired and leastDownTime are the lowest that any asks for.
	leastRequired int32
	leastDownTime time.Duration
}

func disputeOf(all []asked) (d dispute) {
	d.required, d.leastRequired = whoAsks(all, func(a asked) (int32, bool) { return a.required, a.required >= 0 }, func(n int32, one bool) string {
		verb := "require"
		if one {
			verb = "requires"
		}
		if n <= 0 {
			return verb + " none"
		}
		return fmt.Sprintf("%s %d", verb, n)
	})
	d.downTime, d.leastDownTime = whoAsks(all, func(a asked) (time.Duration, bool) { return a.downTime, a.downTime > 0 }, func(n time.Duration, one bool) string {
		if one {
			return "has " + n.String()
		}
		return "have " + n.String()
	})
	return d
}

// whoAsks names gateways by what they ask for, the highest first: the first of each, and how many
// ask for the same. "" when all ask for the same. least is the lowest.
func whoAsks[T cmp.Ordered](all []asked, of func(asked) (T, bool), say func(n T, one bool) string) (text string, least T) {
	const mostValues = 4
	by := map[T][]string{}
	for _, a := range all {
		if v, known := of(a); known {
			by[v] = append(by[v], a.gateway)
		}
	}
	values := slices.Sorted(maps.Keys(by))
	if len(values) > 0 {
		least = values[0]
	}
	if len(values) < 2 {
		return "", least
	}
	slices.Reverse(values)
	var parts []string
	for i, v := range values {
		if i >= mostValues-1 && i < len(values)-1 {
			continue // the lowest is named
		}
		name := "gateway " + slices.Min(by[v])
		if n := len(by[v]) - 1; n > 0 {
			name += fmt.Sprintf(" and %d more", n)
		}
		parts = append(parts, name+" "+say(v, len(by[v]) == 1))
	}
	return strings.Join(parts, ", "), least
}

// GatewaysDiffer says in which required_version, and in which service_down_time, the gateways of a
// gate differ, in words that name them; "" where they do not.
func GatewaysDiffer(readers []*cellgatev1.GateReader) (required, downTime string) {
	all := make([]asked, len(readers))
	for i, r := range readers {
		all[i] = asked{r.GetGateway(), -1, r.GetServiceDownTime().AsDuration()}
		if r.RequiredVersion != nil {
			all[i].required = r.GetRequiredVersion()
		}
	}
	d := disputeOf(all)
	return d.required, d.downTime
}

// askedBy gives what the gateways of reports ask for, each once: one that is started anew is the
// same.
func askedBy(reports []legacyReport) []asked {
	newest := map[string]*legacyReport{}
	for i := range reports {
		r := &reports[i]
		if known := newest[r.said()]; known == nil || r.heard.After(known.heard) {
			newest[r.said()] = r
		}
	}
	all := make([]asked, 0, len(newest))
	for name, r := range newest {
		all = append(all, asked{name, r.required, r.downTime})
	}
	return all
}

// disputed says what gateways differ in, where that is why a host of t is not new.
func (t *tally) disputed() (breaks []string) {
	if t.byVersion {
		breaks = append(breaks, "gateways differ in required_version, and the highest counts: "+t.dispute.required)
	}
	if t.byDownTime {
		breaks = append(breaks, "gateways differ in service_down_time, and by the longest a service is up: "+t.dispute.downTime)
	}
	return breaks
}

// whose notes, and says, that a service which is up and not new would not close the gate by what
// some gateway asks for; "" when it would by all.
func (t *tally) whose(s *legacyService) (text string) {
	if t.dispute.required != "" && s.version < t.required && s.version >= t.dispute.leastRequired {
		t.byVersion = true
		text += "; by required_version gateways differ: " + t.dispute.required
	}
	if t.dispute.downTime != "" && s.up && t.now.Sub(s.lastSeen) > t.dispute.leastDownTime {
		t.byDownTime = true
		text += "; by service_down_time gateways differ: " + t.dispute.downTime
	}
	return text
}

// differing gives what the gateways that are remembered differ in; news: so many values there
// were not when it was asked last.
func (w *novaReaders) differing() (d dispute, news bool) {
	var all []asked
	versions, times := map[int32]struct{}{}, map[time.Duration]struct{}{}
	for _, g := range w.byName {
		all = append(all, g.asked())
		versions[g.required], times[g.downTime] = struct{}{}, struct{}{}
	}
	d = disputeOf(all)
	values := ""
	if d.required != "" || d.downTime != "" {
		values = fmt.Sprint(slices.Sorted(maps.Keys(versions)), slices.Sorted(maps.Keys(times)))
	}
	news = values != w.told
	w.told = values
	return d, news
}

func (g *novaReader) asked() asked { return asked{g.name, g.required, g.downTime} }

// differing counts the gateways that are heard and ask for less than another.
func (k *gatekeeper) differing() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	heard := k.readers.heard(k.now())
	var required int32
	var downTime time.Duration
	for _, g := range heard {
		required, downTime = max(required, g.required), max(downTime, g.downTime)
	}
	for _, g := range heard {
		if g.required < required || g.downTime > 0 && g.downTime < downTime {
			n++
		}
	}
	return n
}

// tellDispute tells, for the audit, what gateways differ in.
func (c *Cell) tellDispute(d dispute) {
	if d.required == "" && d.downTime == "" {
		c.log.Info("audit: gateways ask the same of Nova's services again")
		return
	}
	c.log.Warn("audit: gateways differ in what they ask of Nova's services, and the strictest counts", "required_version", d.required, "service_down_time", d.downTime)
}
