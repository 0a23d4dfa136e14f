package pgproxy

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Statement is a statement that is about to be sent to the server. If N is 0, it is a connection that
// is being made.
type Statement struct {
	// Conn numbers a proxy's connections from 1. N numbers a connection's statements, and Trip its
	// trips that execute statements.
	Conn int
	N    int
	Trip int
	SQL  string
	Role Role
}

// Role is the role of a statement in its transaction.
type Role uint8

// The roles. A text with several statements is Work.
const (
	Work Role = iota
	Begin
	Commit
	Rollback
	Connect
)

func roleOf(sql string) Role {
	statement, _, _ := strings.Cut(strings.TrimLeft(sql, " \t\r\n"), ";")
	if strings.Trim(sql[strings.Index(sql, statement)+len(statement):], "; \t\r\n") != "" {
		return Work
	}
	switch first, _, _ := strings.Cut(strings.TrimSpace(statement), " "); strings.ToUpper(first) {
	case "BEGIN", "START":
		return Begin
	case "COMMIT", "END":
		return Commit
	case "ROLLBACK", "ABORT":
		return Rollback
	}
	return Work
}

// Plan returns the fault of a statement. Several connections call it concurrently. For a connection
// that is being made, every kind except Error and Delay refuses the connection.
type Plan func(Statement) Fault

// Chance is a fault, where it may happen, and its probability there.
type Chance struct {
	P     float64
	Where Where
	// Fault is the fault, with the longest Delay.
	Fault Fault
}

// Where is where a fault may happen.
type Where uint8

// The places. AtStatement is every statement except COMMIT and ROLLBACK.
const (
	AtStatement Where = iota
	AtCommit
	AtConnect
)

func (w Where) holds(r Role) bool {
	switch r {
	case Commit:
		return w == AtCommit
	case Connect:
		return w == AtConnect
	case Rollback:
		return false
	}
	return w == AtStatement
}

// Seeded is a plan in which the fault of a statement depends only on the seed, and on the numbers of
// the connection and the statement.
func Seeded(seed uint64, chances ...Chance) Plan {
	return func(s Statement) Fault {
		rng := rand.New(rand.NewPCG(seed, uint64(s.Conn)<<32|uint64(s.N)))
		roll := rng.Float64()
		for _, c := range chances {
			if !c.Where.holds(s.Role) {
				continue
			}
			if roll -= c.P; roll < 0 {
				f := c.Fault
				f.Delay = time.Duration(rng.Float64() * float64(f.Delay))
				return f
			}
		}
		return Fault{}
	}
}

// Weather is a mix of all faults. About p of the statements fail, and three times as many of the
// commits and of the new connections.
func Weather(p float64) []Chance {
	const while = 20 * time.Millisecond
	return []Chance{
		{p * 0.50, AtStatement, Fault{Kind: Error, Code: "40001"}},
		{p * 0.08, AtStatement, Fault{Kind: Error, Code: "57P01"}},
		{p * 0.07, AtStatement, Fault{Kind: Cut}},
		{p * 0.05, AtStatement, Fault{Kind: Cut, Done: true}},
		{p * 0.05, AtStatement, Fault{Kind: Late, Delay: while}},
		{p * 0.25, AtStatement, Fault{Kind: Delay, Delay: while}},

		{p * 0.60, AtCommit, Fault{Kind: Error, Code: "40001"}},
		{p * 0.30, AtCommit, Fault{Kind: Error, Code: "40003"}},
		{p * 0.30, AtCommit, Fault{Kind: Error, Code: "40003", Done: true}},
		{p * 0.15, AtCommit, Fault{Kind: Error, Code: "57P01"}},
		{p * 0.15, AtCommit, Fault{Kind: Error, Code: "57P01", Done: true}},
		{p * 0.30, AtCommit, Fault{Kind: Cut}},
		{p * 0.60, AtCommit, Fault{Kind: Cut, Done: true}},
		{p * 0.30, AtCommit, Fault{Kind: Late, Delay: while}},
		{p * 0.30, AtCommit, Fault{Kind: Delay, Delay: while}},

		{p * 1.00, AtConnect, Fault{Kind: Cut}},
		{p * 0.50, AtConnect, Fault{Kind: Error, Code: "57P03"}},
		{p * 0.50, AtConnect, Fault{Kind: Error, Code: "53300"}},
		{p * 1.00, AtConnect, Fault{Kind: Delay, Delay: while}},
	}
}

// When is a plan with one fault, at the first statement that matches.
func When(match func(Statement) bool, f Fault) Plan {
	once := make(chan struct{}, 1)
	return func(s Statement) Fault {
		if !match(s) {
			return Fault{}
		}
		select {
		case once <- struct{}{}:
			return f
		default:
			return Fault{}
		}
	}
}
