package novadb

import (
	"fmt"
	"strconv"
	"strings"
)

// dialect is the kind of a server.
type dialect int

const (
	mysqlDialect dialect = iota
	postgresDialect
)

func (d dialect) String() string {
	if d == mysqlDialect {
		return "MySQL"
	}
	return "PostgreSQL"
}

// sql makes a statement from a text with ? for arguments, "name" for columns with reserved
// names, and HOST(column) for an address without its mask.
func (d dialect) sql(text string) string {
	if d == mysqlDialect {
		return strings.ReplaceAll(strings.ReplaceAll(text, `"`, "`"), "HOST(host_ip)", "host_ip")
	}
	parts := strings.Split(text, "?")
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(p)
	}
	return b.String()
}

// begin starts a read-only transaction in which every query sees one moment.
func (d dialect) begin() string {
	if d == mysqlDialect {
		return "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
	}
	return "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
}

// now is the query for the server's time, in UTC, as in the tables but with a fraction.
func (d dialect) now() string {
	if d == mysqlDialect {
		return "SELECT UTC_TIMESTAMP(6)"
	}
	return "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
}

// schema is the SQL expression for the schema in which tables are looked up.
func (d dialect) schema() string {
	if d == mysqlDialect {
		return "DATABASE()"
	}
	return "current_schema()"
}

// session gives the statements that set up each new connection. They make it read-only, let
// the server end long statements, and bound the wait for an ALTER TABLE. Only MariaDB reads
// the one comment and only MySQL the other, since they name the same bound differently.
func (d dialect) session(o Config) []string {
	ms := max(1, o.QueryTimeout.Milliseconds())
	seconds := max(1, (ms+999)/1000)
	if d == mysqlDialect {
		return []string{
			"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
			fmt.Sprintf("SET SESSION time_zone = '+00:00', lock_wait_timeout = %d"+
				" /*M!100101 , max_statement_time = %d.%03d */ /*!50708 , max_execution_time = %d */", seconds, ms/1000, ms%1000, ms),
		}
	}
	return []string{
		"SET default_transaction_read_only = on", "SET TimeZone = 'UTC'",
		fmt.Sprintf("SET statement_timeout = %d", ms),
		fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", o.LoadTimeout.Milliseconds()),
	}
}

// sameHost normalizes a name so that names are equal if the server takes them as equal:
// MySQL's collation ignores case, and blanks at the end.
func (d dialect) sameHost(name string) string {
	if d == mysqlDialect {
		return strings.ToLower(strings.TrimRight(name, " "))
	}
	return name
}
