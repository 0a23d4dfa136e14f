package sqlshard

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"cellgate/internal/fault"
)

// SQLSTATEs by name.
const (
	serializationFailure  = "40001"
	completionUnknown     = "40003"
	deadlockDetected      = "40P01"
	uniqueViolation       = "23505"
	queryCanceled         = "57014"
	adminShutdown         = "57P01"
	crashShutdown         = "57P02"
	cannotConnectNow      = "57P03"
	idleInTransaction     = "25P03"
	unnamedInternal       = "XXUUU"
	readOnlyTransaction   = "25006"
	undefinedObject       = "42704"
	invalidParameter      = "22023"
	notSupported          = "0A000"
	tooManyConnections    = "53300"
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	invalidCatalogName    = "3D000"
	insufficientPrivilege = "42501"
	duplicateDatabase     = "42P04"
	duplicateObject       = "42710"
	duplicateTable        = "42P07"
	connectionClass       = "08"
	authorizationClass    = "28"
	integrityClass        = "23"
	transactionClass      = "40"
	resourcesClass        = "53"
	cockroachRestartClass = "CR000"
	rangeUnavailable      = "58C00"
	nodeConnectionFailure = "58C01"
)

// trouble classifies errors of the server and of the connection.
type trouble int

const (
	// broken: no remedy is known. The error is shown, and the transaction is not tried again.
	broken trouble = iota
	// race: another transaction was faster. If this one runs again, it sees the other's result.
	race
	// lost: the connection, or the server behind it, is gone or not ready.
	lost
	// slow: the server ended a statement that took too long.
	slow
	// full: the server has no room for another connection.
	full
)

func state(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// meaning classifies errors of statements and connections. It does not say whether a commit was done: see
// commitRefused.
func meaning(err error) trouble {
	if why := restart(""); errors.As(err, &why) {
		return race
	}
	code := state(err)
	switch code {
	case "":
		return lost // no answer from the server: the connection broke, or was never made
	case serializationFailure, deadlockDetected, uniqueViolation, completionUnknown, cockroachRestartClass:
		return race
	case adminShutdown, crashShutdown, cannotConnectNow, idleInTransaction:
		return lost
	case rangeUnavailable, nodeConnectionFailure:
		return lost // CockroachDB's nodes do not reach each other; a new connection may reach one that works
	case readOnlyTransaction:
		return lost // the server is, or was, a standby; another one may not be
	case queryCanceled:
		return slow
	case tooManyConnections:
		return full
	}
	if code[:2] == connectionClass || code == unnamedInternal && strings.Contains(err.Error(), "i/o timeout") {
		// CockroachDB reports this when it ends a connection that was idle in a transaction.
		return lost
	}
	return broken
}

// settingRefused reports whether the server does not know a setting, or not this value.
func settingRefused(err error) bool {
	switch state(err) {
	case undefinedObject, invalidParameter, notSupported:
		return true
	}
	return false
}

// commitRefused reports whether the server's error means that a commit was not done. Any other error of a commit
// leaves that open.
func commitRefused(err error) bool {
	code := state(err)
	return code != "" && code != completionUnknown && (code[:2] == transactionClass || code[:2] == integrityClass)
}

// restart is the reason why a transaction must run again.
type restart string

func (r restart) Error() string { return string(r) }

// retryable makes crdb.ExecuteCtx repeat a transaction; it decides by the SQLSTATE.
type retryable struct{ error }

func (retryable) SQLState() string { return serializationFailure }

func (r retryable) Unwrap() error { return r.error }

// applyError gives the error for callers of Apply. If the server ended a slow statement, it presumably waited for
// rows that other transactions lock. Load and Tail wait for no locks, so they detect a server that does not answer.
func (s *Store) applyError(ctx context.Context, err error) error {
	if e := s.typed(ctx, err); meaning(err) != slow || fault.KindOf(e) != fault.CellUnavailable || s.isClosed() {
		return e
	}
	return fault.Wrap(fault.Contended, err, "other transactions held rows that the batch wants in the shard of cell %s for more than %v", s.opts.Cell, s.opts.StatementTimeout)
}

// typed gives the error for callers: a *fault.Error, or the end of their context. Nothing was written.
func (s *Store) typed(ctx context.Context, err error) error {
	var known *fault.Error
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return fault.New(fault.CellUnavailable, "the shard of cell %s is closed", s.opts.Cell)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &known):
		return known
	}
	switch meaning(err) {
	case race:
		return fault.Wrap(fault.Contended, err, "the shard of cell %s lost every race for its rows", s.opts.Cell)
	case slow:
		return fault.Wrap(fault.CellUnavailable, err, "the database of cell %s took longer than %v", s.opts.Cell, s.opts.StatementTimeout)
	case full:
		return fault.Wrap(fault.CellUnavailable, err, "the database of cell %s has no connection left", s.opts.Cell)
	case lost:
		if state(err) == readOnlyTransaction {
			return fault.Wrap(fault.CellUnavailable, err, "the database of cell %s takes no writes: it is a standby, or was set to read only", s.opts.Cell)
		}
		return fault.Wrap(fault.CellUnavailable, err, "the database of cell %s cannot be reached", s.opts.Cell)
	}
	return fault.Wrap(fault.CellUnavailable, err, "the database of cell %s failed", s.opts.Cell)
}

// outcomeUnknown is the error if it is not known whether a commit was done.
func (s *Store) outcomeUnknown(cause error) error {
	var known *fault.Error
	if errors.As(cause, &known) && known.Kind == fault.OutcomeUnknown {
		return known
	}
	return fault.Wrap(fault.OutcomeUnknown, cause, "the database of cell %s did not say whether it committed", s.opts.Cell)
}

// poolEmpty is the error if all connections of the pool are in use.
func (s *Store) poolEmpty(cause error) error {
	s.count.full.Add(1)
	e := fault.Wrap(fault.Overloaded, cause, "all %d connections to the database of cell %s were in use for %v", s.pool.Config().MaxConns, s.opts.Cell, s.opts.AcquireTimeout)
	e.RetryAfter = time.Second
	return e
}

// damaged is the error for rows that this program does not write like that.
func damaged(format string, args ...any) error {
	return fault.New(fault.Internal, format, args...)
}
