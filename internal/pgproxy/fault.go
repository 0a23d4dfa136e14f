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
	// Error is an error of the server with Fault.Code. A code of class 57P, and any
	// error of a connection that is being made, ends the connection.
	Error
	// Cut ends the connection without an error; so does a connection that is refused.
	Cut
	// Late ends the connection for the client, while the trip reaches the server
	// Fault.Delay later.
	Late
	// Delay holds a statement back for Fault.Delay, with what came before it done.
	Delay
)

// Fault is what happens at a statement.
type Fault struct {
	Kind Kind
	// Code is an Error's SQLSTATE.
	Code string
	// Done, of an Error and a Cut: the statement was done, and what it wrote outside
	// of a transaction is committed, but the client gets an error.
	Done bool
	// Delay is that of Delay and Late.
	Delay time.Duration
}

// fatal reports whether the client's connection ends with the error.
func (f Fault) fatal() bool { return strings.HasPrefix(f.Code, "57P") }

// name is what a fault is counted as. commit: a COMMIT is what failed.
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

// connectName is what a fault of a connection that is being made is counted as.
func (f Fault) connectName() string {
	switch f.Kind {
	case Error:
		return f.Code + " connect"
	case Delay:
		return "delay connect"
	}
	return "refused connect"
}
