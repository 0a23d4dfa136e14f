package novadb

import (
	"fmt"
	"strconv"
	"strings"
)

// dialect is what differs between the servers.
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

// sql makes a statement of a text with ? for arguments, "name" for columns that are
// reserved in SQL, and HOST(column) for an address without its mask.
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

// now is the server's time, in UTC, as the tables have it but with a fraction.
func (d dialect) now() string {
	if d == mysqlDialect {
		return "SELECT UTC_TIMESTAMP(6)"
	}
	return "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
}

// schema is where tables are looked for.
func (d dialect) schema() string {
	if d == mysqlDialect {
		return "DATABASE()"
	}
	return "current_schema()"
}

// session are the statements that set up each new connection: it is read-only, the server
// ends statements that take too long, and none waits longer for an ALTER TABLE. One comment is
// read by MariaDB alone, one by MySQL alone, since they name the same bound differently.
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

// prepares: the driver sends a query with arguments in two trips unless it is
// prepared once. pgx keeps prepared statements itself.
func (d dialect) prepares() bool { return d == mysqlDialect }

// sameHost gives what two names have in common that the server's comparison takes for
// equal: MySQL's collation knows no case, and no blanks at the end.
func (d dialect) sameHost(name string) string {
	if d == mysqlDialect {
		return strings.ToLower(strings.TrimRight(name, " "))
	}
	return name
}

// ratio is the value of a ratio's column as Nova reads it. On MySQL the columns are
// FLOAT, of which a client that asks for text, as Nova's does, gets six digits.
func (d dialect) ratio(v float64) float64 {
	if d != mysqlDialect {
		return v
	}
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return v
	}
	return r
}
