package schedule

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"cellgate/internal/python"
)

// NovaException is an exception that ends a whole request in Nova: a filter or weigher cannot handle a row or the
// request. Here such a host is left out and counted, unless Options.StrictNova asks for Nova's behaviour.
type NovaException struct {
	// Stage is host_states, filter or weigh.
	Stage string
	// Filter is the filter's or weigher's name; empty for host_states.
	Filter string
	// Host is the service host that it was raised for.
	Host string
	// Class of the exception, by Python's name: ValueError.
	Class   string
	Message string
}

func (r *NovaException) Error() string {
	s := r.Class + ": " + r.Message
	if r.Filter != "" {
		s = r.Filter + " raises " + s
	}
	if r.Host != "" {
		s += " (host " + r.Host + ")"
	}
	return s
}

// The stages of Nova's scheduling at which it can raise.
const (
	StageHostStates = "host_states"
	StageFilter     = "filter"
	StageWeigh      = "weigh"
)

// unweighable counts the hosts of m for which a weigher raises an exception in Nova, and keeps the first exception.
// Here such a host has the weight that the weigher's column gives.
func (s *scan) unweighable(c *chunk, m uint64) {
	for i := range s.weighers {
		w := &s.weighers[i]
		if w.raises == nil {
			continue
		}
		of := m
		if w.raisesUnfilled {
			of = m & c.unfilled
		}
		if w.mayRaise != nil {
			of = w.mayRaise(s, c, of)
		}
		for ; of != 0; of &= of - 1 {
			r := c.rows.v[bits.TrailingZeros64(of)]
			err := w.raises(s, w, r)
			if err == nil {
				continue
			}
			if w.raised++; w.raised == 1 {
				s.exceptions = append(s.exceptions, NovaException{
					Stage: StageWeigh, Filter: w.name, Host: r.host.ServiceHost, Class: err.Class, Message: err.Message,
				})
			}
		}
	}
}

// noRatio raises for a compute that has not reported and so has no allocation ratio.
func (s *scan) noRatio(*weigher, *row) *python.Exception { return noOwnRatio }

var noOwnRatio = python.NewException("TypeError", "unsupported operand type(s) for *: 'int' and 'NoneType'")

// strictly gives the exception that Nova raises first.
func (s *scan) strictly() *NovaException {
	if len(s.exceptions) == 0 {
		return nil
	}
	first := slices.MinFunc(s.exceptions, func(a, b NovaException) int {
		return cmp.Compare(s.q.Rules.RaisedAt(&a), s.q.Rules.RaisedAt(&b))
	})
	return &first
}

// RaisedAt orders exceptions as Nova raises them, the first one least: reading rows comes first, then the filters in
// order, then weighing.
func (r *Rules) RaisedAt(e *NovaException) int {
	filters := r.filters()
	switch e.Stage {
	case StageHostStates:
		return -1
	case StageWeigh:
		return len(filters) + 1 + slices.IndexFunc(r.weighers(), func(w Weigher) bool { return w.Name == e.Filter })
	}
	if at := slices.Index(filters, e.Filter); at >= 0 {
		return at
	}
	return len(filters) // TreeFilter runs even if it is not named.
}

// maxReason bounds the bytes of an exception's message in a Reject or a Warning: it may quote text of a host or a
// user.
const maxReason = 512

// explain adds to the reject of unreadable hosts the first exception of its filter, and the exception's host.
func (s *scan) explain(r *Reject) {
	for i := range s.exceptions {
		e := &s.exceptions[i]
		if e.Stage == StageFilter && e.Filter == r.Filter || e.Stage == StageHostStates && r.Filter == HostFilter {
			r.Example, r.Class, r.Message = e.Host, e.Class, e.reason()
			return
		}
	}
}

// explainWarning does the same for a weigher's warning.
func (s *scan) explainWarning(w *Warning) {
	for i := range s.exceptions {
		if e := &s.exceptions[i]; e.Stage == StageWeigh && e.Filter == w.Key {
			w.Example, w.Class, w.Message = e.Host, e.Class, e.reason()
			return
		}
	}
}

// reason is the message, cut to maxReason.
func (r *NovaException) reason() string {
	return strings.ToValidUTF8(r.Message[:min(len(r.Message), maxReason)], "")
}
