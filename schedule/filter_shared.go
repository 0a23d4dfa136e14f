package schedule

import (
	"math/bits"

	"cellgate/internal/python"
)

// rule is a filter's decision about an object that hosts share: whether its hosts pass, or the exception that Nova
// raises.
type rule[T any] func(of *T) (bool, *python.Exception)

// ruled is the result of a rule, kept for all hosts that share the object.
type ruled uint8

const (
	unasked ruled = iota
	passes
	fails
	raises
)

// judge evaluates a rule for a host, and records an exception for the filter.
func judge[T any](s *scan, filter string, ask rule[T], of *T, host *row) ruled {
	ok, err := ask(of)
	switch {
	case err != nil:
		s.raised(filter, host, err)
		return raises
	case ok:
		return passes
	}
	return fails
}

// raised keeps a filter's first exception.
func (s *scan) raised(filter string, host *row, err *python.Exception) {
	for i := range s.exceptions {
		if s.exceptions[i].Filter == filter {
			return
		}
	}
	s.exceptions = append(s.exceptions, NovaException{
		Stage: StageFilter, Filter: filter, Host: host.host.ServiceHost, Class: err.Class, Message: err.Message,
	})
}

// perPlatform makes a check that judges each platform once, by any one of its hosts.
func (s *scan) perPlatform(filter string, ask rule[row]) {
	perPart(s, filter, "", make([]ruled, s.t.names.platforms.n), func(c *chunk) []part[platform] { return c.platforms.all() },
		func(p *platform) int { return p.id }, func(_ *platform, host *row) ruled { return judge(s, filter, ask, host, host) })
}

// perSet makes a check that depends on a host's aggregates alone.
func (s *scan) perSet(filter, detail string, ask rule[aggregateSet]) {
	perPart(s, filter, detail, make([]ruled, s.t.names.sets.n), func(c *chunk) []part[aggregateSet] { return c.sets.all() },
		func(a *aggregateSet) int { return a.id }, func(a *aggregateSet, host *row) ruled { return judge(s, filter, ask, a, host) })
}

// perPart makes a check that judges each object that hosts share once. known are the results by the object's id.
func perPart[T any](s *scan, filter, detail string, known []ruled, all func(*chunk) []part[T], id func(*T) int, judge func(of *T, host *row) ruled) {
	s.check(filter, detail, func(_ int, c *chunk, m uint64) (kept uint64) {
		for _, p := range all(c) {
			if p.mask&m == 0 {
				continue
			}
			v := &known[id(p.of)]
			if *v == unasked {
				*v = judge(p.of, c.rows.v[bits.TrailingZeros64(p.mask&m)])
			}
			switch *v {
			case passes:
				kept |= p.mask
			case raises:
				s.unreadable |= p.mask & m
			}
		}
		return kept
	})
}

// perHost makes a check that judges every remaining host.
func (s *scan) perHost(filter string, ask rule[row]) {
	s.check(filter, "", func(_ int, c *chunk, m uint64) uint64 {
		return s.askHosts(filter, c, m, ask)
	})
}

// oncePerHost is perHost for a filter that Nova runs once for each request (run_filter_once_per_request): it sees
// hosts as they were before any pick.
func (s *scan) oncePerHost(filter string, ask rule[row]) {
	s.check(filter, "", func(at int, _ *chunk, m uint64) uint64 {
		return s.askHosts(filter, s.before.chunks[at], m, ask)
	})
}

func (s *scan) askHosts(filter string, c *chunk, m uint64, ask rule[row]) (kept uint64) {
	for ; m != 0; m &= m - 1 {
		bit := m & -m
		host := c.rows.v[bits.TrailingZeros64(m)]
		switch judge(s, filter, ask, host, host) {
		case passes:
			kept |= bit
		case raises:
			s.unreadable |= bit
		}
	}
	return kept
}
