package novadb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"cellgate/internal/fault"
)

// Trouble is why a database gave no snapshot. Every error of Load, Refresh and Instances is
// of kind CELL_UNAVAILABLE. Its trouble is in Metadata["reason"], beside "cells" and
// "database" ("cell" or "api").
type Trouble string

// The troubles.
const (
	// Unreachable: no connection, a lost one, or one refused since the server has too many.
	Unreachable Trouble = "unreachable"
	// TimedOut: a query, or all of them together, took too long.
	TimedOut Trouble = "timeout"
	// Denied: the user may not log in, or not read a table.
	Denied Trouble = "denied"
	// OtherSchema: a database, table or column does not exist.
	OtherSchema Trouble = "schema"
	// TooManyRows: a table has more live rows than MaxRows.
	TooManyRows Trouble = "too_many_rows"
	// NotMapped: cell_mappings does not have the cell, or has the name twice.
	NotMapped Trouble = "cell_not_mapped"
	// Cancelled: the caller gave up.
	Cancelled Trouble = "cancelled"
	// Failed: any other error of a server, or a value that cannot be read.
	Failed Trouble = "failed"
)

// TroubleOf gives the trouble of an error of this package; "" for any other.
func TroubleOf(err error) Trouble {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return Trouble(e.Metadata["reason"])
}

// IsDenied reports whether a database's error means that the user may not log in, or not read a table.
func IsDenied(err error) bool { return err != nil && troubleOf(err) == Denied }

// LacksTable reports whether a database's error means that it has no such table.
func LacksTable(err error) bool {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	return errors.As(err, &my) && my.Number == 1146 || errors.As(err, &pg) && pg.Code == "42P01"
}

// unavailable makes the error of a trouble; the text what completes "the cell database of
// cell1 …".
func (d *database) unavailable(t Trouble, cause error, what string) error {
	e := fault.Wrap(fault.CellUnavailable, cause, "the %s database of %s %s", d.role, d.cell, what)
	return e.With("cells", d.cell).With("database", d.role).With("reason", string(t))
}

// fail makes a *fault.Error from a driver's error; it returns a *fault.Error unchanged.
func (d *database) fail(ctx context.Context, err error) error {
	var known *fault.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	t := troubleOf(err)
	// A driver whose context ended often only reports a lost connection.
	if ctx.Err() != nil {
		t = troubleOf(context.Cause(ctx))
	}
	return d.unavailable(t, err, map[Trouble]string{
		Unreachable: "cannot be reached, or ended the connection",
		TimedOut:    "did not answer in time",
		Denied:      "does not let the user in, or not read a table",
		OtherSchema: "lacks a database, a table or a column",
		Cancelled:   "was not waited for",
		Failed:      "failed",
	}[t])
}

func troubleOf(err error) Trouble {
	var my *mysql.MySQLError
	var pg *pgconn.PgError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	case errors.As(err, &my):
		return mysqlTrouble(my.Number)
	case errors.As(err, &pg):
		return postgresTrouble(pg.Code)
	case errors.As(err, &network) && network.Timeout():
		return TimedOut
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return Unreachable
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || strings.HasPrefix(err.Error(), "conn closed") {
		return Unreachable
	}
	return Failed
}

// mysqlTrouble maps the error numbers of MySQL and MariaDB.
func mysqlTrouble(number uint16) Trouble {
	switch number {
	case 1044, 1045, 1142, 1143, 1227, 1698, 3118, 4151:
		return Denied // database, login, table, column, privilege, no such login, locked
	case 1049, 1054, 1146:
		return OtherSchema // database, column, table
	case 1205, 1317, 1969, 3024:
		return TimedOut // lock wait, interrupted, max_statement_time, max_execution_time
	case 1040, 1053, 1077, 1079, 1129, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1927:
		return Unreachable // connections, shutdown, blocked, network, killed
	}
	return Failed
}

// postgresTrouble reads SQLSTATEs.
func postgresTrouble(code string) Trouble {
	switch {
	case strings.HasPrefix(code, "28"), code == "42501":
		return Denied
	case code == "3D000", code == "3F000", code == "42P01", code == "42703":
		return OtherSchema
	case code == "57014", code == "55P03", code == "25P03":
		return TimedOut
	case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "57P"), code == "53300":
		return Unreachable
	}
	return Failed
}
