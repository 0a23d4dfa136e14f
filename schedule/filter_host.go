package schedule

import (
	"math/bits"
	"slices"
	"strings"
)

// hostFilter leaves out hosts whose facts cannot be read. Then it applies the request's own restriction, in Nova's
// order (host_manager.py, get_filtered_hosts): cell and requested destination (exact), ignored hosts, forced hosts
// (any case), forced nodes (exact).
func (s *scan) hostFilter() {
	r := s.q.Request
	s.check(HostFilter, "", func(_ int, c *chunk, m uint64) uint64 {
		if s.unreadable = c.unreadable & m; s.unreadable != 0 {
			s.unreadRows(c)
		}
		return ^c.unreadable
	})
	keep := func(detail string, words slotWords) {
		s.check(HostFilter, detail, func(at int, _ *chunk, _ uint64) uint64 { return words.in(at) })
	}
	if d := r.Destination; d != nil {
		if d.Cell != "" && !d.AllowCrossCellMove {
			id := s.t.names.cells.id(d.Cell)
			s.check(HostFilter, "other cell", func(_ int, c *chunk, _ uint64) uint64 { return has(c.labels.cells, id) })
		}
		if d.Host != "" {
			keep("other host", s.t.onServices([]string{d.Host}, false))
		}
		if d.Node != "" {
			keep("other node", s.t.onNodes([]string{d.Node}))
		}
	}
	if len(r.IgnoreHosts)+len(r.IgnoreUUIDs) > 0 {
		words := append(s.t.onServices(r.IgnoreHosts, true), s.t.ofHosts(r.IgnoreUUIDs)...).sorted()
		s.check(HostFilter, "ignored", func(at int, _ *chunk, _ uint64) uint64 { return ^words.in(at) })
	}
	if len(r.ForceHosts) > 0 {
		keep("not forced", s.t.onServices(r.ForceHosts, true))
	}
	if len(r.ForceNodes) > 0 {
		keep("not forced", s.t.onNodes(r.ForceNodes))
	}
}

// unreadRows records the exception that Nova raises when it reads such hosts' rows.
func (s *scan) unreadRows(c *chunk) {
	if len(s.exceptions) > 0 && s.exceptions[0].Stage == StageHostStates {
		return
	}
	host := c.rows.v[bits.TrailingZeros64(s.unreadable)].host
	field := host.Facts.firstFailed()
	class, message, _ := strings.Cut(host.Facts.Failed[field], ": ")
	s.exceptions = slices.Insert(s.exceptions, 0, NovaException{
		Stage: StageHostStates, Host: host.ServiceHost, Class: class, Message: field + ": " + message,
	})
}
