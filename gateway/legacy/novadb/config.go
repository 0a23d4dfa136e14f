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
	// URL is mysql://user@host:3306/nova or postgres://user@host:5432/nova. The forms
	// with a driver that nova.conf has (mysql+pymysql, postgresql+psycopg2) are taken too. A mysql
	// URL has no parameter but unix_socket, the path of a socket in the host's place, and
	// charset, which is ignored; a postgres URL has those of libpq. A password in it is refused.
	URL string
	// PasswordFile is read for each new connection; its end of line does not count.
	// Empty: no password, on PostgreSQL what libpq would find.
	PasswordFile string
	// TLS, when set, is used for every connection; there is no going back to plain
	// text. Nil: plain text on MySQL, on PostgreSQL as the URL's sslmode says.
	TLS *tls.Config
}

// Ratios are Nova's options for rows without a ratio (NULL or 0.0):
// X_allocation_ratio if it is not 0, else initial_X_allocation_ratio, else 4.0,
// 1.0 and 1.0. Nova's own defaults differ between releases (16.0, 1.5 and 1.0 up to
// Zed): set what the deployment has.
type Ratios struct {
	CPU, RAM, Disk                      float64
	InitialCPU, InitialRAM, InitialDisk float64
}

// Config says what a Reader reads. Zero fields get the defaults named.
type Config struct {
	// Cell is the cell's name, in messages; without CellUUID it is also the name that
	// cell_mappings has.
	Cell string
	// CellUUID is that of cell_mappings. It may be empty when there is an API
	// database.
	CellUUID string
	// Database is the cell's.
	Database Database
	// API is the API database. Without a URL hosts have no aggregates, and which cell
	// they are mapped to is not looked at.
	API Database

	Ratios Ratios
	// ServiceDownTime is [DEFAULT]service_down_time: 60 s.
	ServiceDownTime time.Duration
	// Importable, when set, says why a cell would not take the host of a row, and which
	// column is to blame, empty for none; the problem is empty for a host that it takes.
	// importer.Importable is one. It is asked when a row changed, of a host without its
	// service's state and its aggregates.
	Importable func(*schedule.Host) (column, problem string)
	// KeepUnreadable keeps rows that Nova fails a request for, or takes for empty, as
	// hosts whose Facts say so: for comparing with Nova.
	KeepUnreadable bool

	// MaxRows bounds the live rows of a table (of aggregate_hosts ten times as many):
	// 100,000. A table with more is an error, not a part of it.
	MaxRows int
	// PageSize bounds the rows of a query: 1,000.
	PageSize int
	// MaxLeftOut bounds Snapshot.LeftOut: 100. The counts are whole.
	MaxLeftOut int
	// Connections bounds those to each database: 2.
	Connections int
	// QueryTimeout bounds a query, a connection attempt, and on the server a statement:
	// 5 s.
	QueryTimeout time.Duration
	// LoadTimeout bounds Load and Refresh: 60 s.
	LoadTimeout time.Duration
	// Overlap is how long after a write that bears the same second another one may be
	// committed: 5 s. See the package comment.
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

// check names every field that is wrong.
func (c *Config) check() error {
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
	for path, r := range map[string]float64{
		"cpu_allocation_ratio": c.Ratios.CPU, "ram_allocation_ratio": c.Ratios.RAM, "disk_allocation_ratio": c.Ratios.Disk,
		"initial_cpu_allocation_ratio": c.Ratios.InitialCPU, "initial_ram_allocation_ratio": c.Ratios.InitialRAM,
		"initial_disk_allocation_ratio": c.Ratios.InitialDisk,
	} {
		if !(r >= 0) {
			say(path, "is negative, or no number")
		}
	}
	return fault.InvalidFields(bad)
}

// unixSocket is the parameter of a mysql URL with the path of a socket.
const unixSocket = "unix_socket"

// check says what is wrong with the URL; the text never has a part of it that may
// be a password.
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
