package pgproxy

import (
	"strings"
	"time"
)

// Kind says what goes wrong.
type Kind uint8

const (
	// None lets the statement pass.
	None Kind = iota
	// Error is an error of the server with Fault.Code. The connection also ends if the code is of class
	// 57P, or if the connection is just being made.
	Error
	// Cut ends the connection without an error. A connection that is being made is refused in the same
	// way.
	Cut
	// Late ends the connection for the client, but the trip still reaches the server Fault.Delay later.
	Late
	// Delay delays a statement by Fault.Delay, after everything before it is done.
	Delay
)

// Fault is what happens to a statement.
type Fault struct {
	Kind Kind
	// Code is an Error's SQLSTATE.
	Code string
	// Done, for an Error and a Cut: the statement is done, and its writes outside a transaction are
	// committed, but the client gets an error.
	Done bool
	// Delay is the duration for the kinds Delay and Late.
	Delay time.Duration
}

// fatal reports whether the client's connection ends with the error.
func (f Fault) fatal() bool { return strings.HasPrefix(f.Code, "57P") }

// name is the name under which a fault is counted. commit: the failing statement is a COMMIT.
func (f Fault) name(commit bool) string {
	var n string
	switch f.Kind {
	case Error:
		n = f.Code
	case Cut:
		n = "cut"
	case Late:
		n = "late"
	case Delay:
		n = "delay"
	default:
		return "none"
	}
	if commit {
		n += " commit"
	}
	switch {
	case f.Kind == Delay || f.Kind == Late:
		return n
	case f.Done:
		return n + " done"
	case commit || f.Kind == Cut:
		return n + " not done"
	}
	return n
}

// connectName is the name under which a fault of a new connection is counted.
func (f Fault) connectName() string {
	switch f.Kind {
	case Error:
		return f.Code + " connect"
	case Delay:
		return "delay connect"
	}
	return "refused connect"
}
