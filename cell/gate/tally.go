package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// tally counts the evidence.
type tally struct {
	Judgement
	rules Rules
	now   time.Time
	// closes is why the gate closes; breaks are the reasons why it does not open.
	closes  string
	breaks  []string
	hosts   map[string]*laggard
	counted map[string]struct{}
	nodes   map[string]bool
}

func (r Rules) tally(e Evidence) *tally {
	t := &tally{rules: r, now: e.now, hosts: map[string]*laggard{}, counted: map[string]struct{}{}, nodes: map[string]bool{}}
	for _, report := range e.reports {
		t.required = max(t.required, report.required)
	}
	for _, report := range e.reports {
		if report.unreadable != "" {
			t.breaks = append(t.breaks, fmt.Sprintf("gateway %s cannot read the services: %s", report.displayName(), report.unreadable))
			continue
		}
		for i := range report.Services {
			t.service(&report.Services[i], e.node)
		}
	}
	for _, ok := range t.nodes {
		t.Judgement.hosts++
		if ok {
			t.registered++
		}
	}
	t.list()
	switch {
	case len(e.reports) == 0:
		t.breaks = append(t.breaks, "no gateway reports the cell's legacy tables")
	case t.required <= 0:
		// Without a required version every service would pass for new.
		t.breaks = append(t.breaks, "no gateway says which version of nova-compute is required: set required_version in gateway.legacy")
	case t.services == 0 && len(t.breaks) == 0:
		t.breaks = append(t.breaks, "Nova's tables have no nova-compute service that counts")
	}
	if t.laggingHosts > 0 { // a host that closes the gate is among them
		t.breaks = append(t.breaks, fmt.Sprintf("%s: %s", hostCount(t.laggingHosts), t.firstNames()))
	}
	return t
}

func hostCount(n int) string {
	if n == 1 {
		return "1 host that is not new"
	}
	return fmt.Sprintf("%d hosts that are not new", n)
}

// service adds a service to the counts.
func (t *tally) service(s *Service, node func(string) Registration) {
	counts := s.counts(t.now, t.rules.DownTime)
	if s.version < t.required {
		why := fmt.Sprintf("its nova-compute is of version %d, %d is required", s.version, t.required)
		if slices.ContainsFunc(s.Nodes, func(uuid string) bool { return node(uuid).Agent }) {
			why += ", and its host is an agent's"
		}
		t.late(s, 0, why, counts)
		if counts {
			if s.Up {
				t.close(fmt.Sprintf("nova-compute on %s is up and of version %d, %d is required", s.Host, s.version, t.required))
			}
		}
	}
	if !counts {
		return
	}
	if _, known := t.counted[s.Host]; !known {
		t.counted[s.Host] = struct{}{}
		t.services++
	}
	if t.minVersion == 0 && len(t.counted) == 1 || s.version < t.minVersion {
		t.minVersion = s.version
	}
	if s.disabled {
		return
	}
	if len(s.Nodes) == 0 {
		t.late(s, 0, "none of its compute nodes is a host that can be read (cellgate doctor upgrade says why)", true)
	}
	for _, uuid := range s.Nodes {
		n := node(uuid)
		why := ""
		switch {
		case s.version < t.required && n.Agent:
			// The agent may have registered before a rollback.
			why = "compute node " + uuid + " is an agent's, and its nova-compute is old"
		case !n.Agent:
			why = "no agent reports compute node " + uuid
		case n.AgentVersion < t.rules.AgentVersion:
			why = fmt.Sprintf("its agent is of version %d, %d is required", n.AgentVersion, t.rules.AgentVersion)
			if s.Up {
				t.close(fmt.Sprintf("the agent of %s is of version %d, %d is required", s.Host, n.AgentVersion, t.rules.AgentVersion))
			}
		case n.Lacks != "":
			why = "its agent reports no " + n.Lacks
		}
		if _, is := t.nodes[uuid]; !is && len(n.Differs) > 0 {
			t.differingHosts++
			t.differing = append(t.differing, n.Differs[:min(len(n.Differs), maxDiffering-len(t.differing))]...)
		}
		if known, is := t.nodes[uuid]; !is || known {
			t.nodes[uuid] = why == ""
		}
		if why != "" {
			t.late(s, n.AgentVersion, why, true)
		}
	}
}

// counts reports whether a service blocks the gate.
func (s *Service) counts(now time.Time, downTime time.Duration) bool {
	switch {
	case s.forcedDown:
		return false
	case s.Up:
		return true
	}
	return !s.disabled && !s.lastSeen.IsZero() && now.Sub(s.lastSeen) < 2*downTime
}

// close keeps the alphabetically first reason to close, since the evidence is unordered.
func (t *tally) close(why string) {
	if t.closes == "" || why < t.closes {
		t.closes = why
	}
}

// late records a host that is not new.
func (t *tally) late(s *Service, agent int32, why string, counts bool) {
	l := t.hosts[s.Host]
	if l == nil {
		l = &laggard{host: s.Host, service: s.version, lastSeen: s.lastSeen, reason: why}
		if !counts {
			l.reason += ", but it does not count: " + s.whyItDoesNotCount()
		}
		t.hosts[s.Host] = l
	} else if counts && !l.counts {
		l.service, l.lastSeen, l.reason = s.version, s.lastSeen, why
	}
	l.agent = max(l.agent, agent)
	l.counts = l.counts || counts
}

func (s *Service) whyItDoesNotCount() string {
	switch {
	case s.forcedDown:
		return "it is forced down"
	case s.disabled:
		return "it is disabled and down"
	}
	return "it is down for long"
}

// list puts the laggards in order: those that count first.
func (t *tally) list() {
	for _, l := range t.hosts {
		t.lagging = append(t.lagging, *l)
		if l.counts {
			t.laggingHosts++
		}
	}
	slices.SortFunc(t.lagging, func(a, b laggard) int {
		if a.counts != b.counts {
			if a.counts {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.host, b.host)
	})
	t.lagging = t.lagging[:min(len(t.lagging), maxLagging)]
}

// firstNames names the first laggards; each has its own reason.
func (t *tally) firstNames() string {
	var all []string
	for _, l := range t.lagging[:min(len(t.lagging), t.laggingHosts, 3)] {
		all = append(all, l.host)
	}
	if t.laggingHosts > len(all) {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
