package novadb

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// Database says where one of Nova's databases is.
type Database struct {
	// URL is mysql://user@host:3306/nova or postgres://user@host:5432/nova. The forms with a
	// driver in nova.conf (mysql+pymysql, postgresql+psycopg2) are accepted too. A mysql URL has
	// at most two parameters: unix_socket, the path of a socket that replaces the host, and
	// charset, which is ignored. A postgres URL has those of libpq. A password in the URL is
	// refused.
	URL string
	// PasswordFile is read for each new connection, without its end of line. Empty: no
	// password; on PostgreSQL, what libpq finds.
	PasswordFile string
	// TLS, if set, is used for every connection, without a fallback to plain text. Nil: plain
	// text on MySQL; on PostgreSQL, by the URL's sslmode.
	TLS *tls.Config
}

// Ratios are Nova's options for rows without a ratio (NULL or 0.0). A row gets
// X_allocation_ratio if that is not 0, else initial_X_allocation_ratio, else 4.0, 1.0 and
// 1.0. Nova's own defaults differ between releases (16.0, 1.5 and 1.0 up to Zed), so set
// those of the deployment.
type Ratios struct {
	CPU, RAM, Disk                      float64
	InitialCPU, InitialRAM, InitialDisk float64
}

// Config configures a Reader. Zero fields get the defaults named.
type Config struct {
	// Cell is the cell's name in messages. Without CellUUID it must also be its name in
	// cell_mappings.
	Cell string
	// CellUUID is the cell's uuid in cell_mappings. It may be empty if there is an API
	// database.
	CellUUID string
	// Database is the cell's database.
	Database Database
	// API is the API database. Without a URL, hosts have no aggregates, and their mapping to
	// cells is not checked.
	API Database

	Ratios Ratios
	// ServiceDownTime is [DEFAULT]service_down_time: 60 s.
	ServiceDownTime time.Duration
	// Importable, if set, gives the problem because of which a cell would not take the host
	// of a row, and the column that causes it, which may be empty. The problem is empty if a
	// cell would take the host. importer.Importable is one. It is called when a row changed,
	// before the host has its service's state and its aggregates.
	Importable func(*schedule.Host) (column, problem string)
	// KeepUnreadable keeps rows that Nova fails a request for, or takes as empty, as hosts
	// whose Facts say so, for comparisons with Nova.
	KeepUnreadable bool

	// MaxRows bounds the live rows of a table (of aggregate_hosts ten times as many):
	// 100,000. A table with more is an error.
	MaxRows int
	// PageSize bounds the rows of a query: 1,000.
	PageSize int
	// MaxLeftOut bounds Snapshot.LeftOut: 100. The counts are whole.
	MaxLeftOut int
	// Connections bounds the connections to each database: 2, since instances are read while rows are.
	Connections int
	// QueryTimeout bounds a query, a connection attempt, and a statement on the server: 5 s.
	QueryTimeout time.Duration
	// LoadTimeout bounds Load and Refresh: 60 s.
	LoadTimeout time.Duration
	// Overlap is how long after a write another write with the same second may be committed:
	// 5 s. See the package comment.
	Overlap time.Duration
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	c.ServiceDownTime = cmp.Or(c.ServiceDownTime, time.Minute)
	c.MaxRows = cmp.Or(c.MaxRows, 100_000)
	c.PageSize = cmp.Or(c.PageSize, 1000)
	c.MaxLeftOut = cmp.Or(c.MaxLeftOut, 100)
	c.Connections = cmp.Or(c.Connections, 2)
	c.QueryTimeout = cmp.Or(c.QueryTimeout, 5*time.Second)
	c.LoadTimeout = cmp.Or(c.LoadTimeout, time.Minute)
	c.Overlap = cmp.Or(c.Overlap, 5*time.Second)
	return c
}

// Check names every field that is wrong. It connects to nothing.
func (c *Config) Check() error {
	var bad []fault.Field
	say := func(path, format string, args ...any) {
		bad = append(bad, fault.Field{Path: path, Problem: fmt.Sprintf(format, args...)})
	}
	if c.Cell == "" {
		say("cell", "is empty")
	}
	if c.CellUUID == "" && c.API.URL == "" {
		say("cell_uuid", "is needed when there is no API database to look it up in")
	}
	for path, d := range map[string]Database{"database": c.Database, "api": c.API} {
		if path == "api" && d.URL == "" {
			if d.PasswordFile != "" || d.TLS != nil {
				say("api.url", "is empty, but the API database has a password file or TLS")
			}
			continue
		}
		if problem := d.check(); problem != "" {
			say(path+".url", "%s", problem)
		}
	}
	return fault.InvalidFields(bad)
}

// unixSocket is the parameter of a mysql URL with the path of a socket.
const unixSocket = "unix_socket"

// check gives the error of the URL; the text never has a part of the URL that may be a
// password.
func (d *Database) check() string {
	u, err := url.Parse(d.URL)
	if err != nil {
		return "is not a URL"
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	_, password := u.User.Password()
	switch {
	case scheme != "mysql" && scheme != "mariadb" && scheme != "postgres" && scheme != "postgresql":
		return "begins with mysql:// or postgres://"
	case password || u.Query().Has("password"):
		return "has a password, which everybody sees who sees the configuration: put it into a file"
	case u.Host == "" && !u.Query().Has("host"):
		return "names no host"
	case strings.Trim(u.Path, "/") == "" && !u.Query().Has("dbname"):
		return "names no database"
	}
	if scheme == "mysql" || scheme == "mariadb" {
		for name := range u.Query() {
			if name != "charset" && name != unixSocket {
				return "has the parameter " + name + ", and mysql:// takes none but charset and " + unixSocket
			}
		}
		if path := u.Query().Get(unixSocket); path != "" && path[0] != '/' {
			return "has a " + unixSocket + " that is no absolute path"
		}
	}
	return ""
}
