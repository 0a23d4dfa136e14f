package novadb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// database is a pool of connections to one of Nova's databases.
type database struct {
	*sql.DB
	dialect
	cell string
	// role is "cell" or "api".
	role string
	conf Config
	// known are columns that older releases of Nova lack, and that this database has.
	known sync.Map
}

// open makes the pool. It does not connect yet.
func open(role string, d Database, c Config) (*database, error) {
	db := &database{cell: c.Cell, role: role, conf: c, dialect: postgresDialect}
	connect := postgresConnector
	if scheme, _, _ := strings.Cut(d.URL, "://"); strings.HasPrefix(scheme, "mysql") || strings.HasPrefix(scheme, "mariadb") {
		db.dialect, connect = mysqlDialect, mysqlConnector
	}
	connector, err := connect(d, c)
	if err != nil {
		return nil, err
	}
	db.DB = sql.OpenDB(&sessions{Connector: connector, statements: db.session(c)})
	db.SetMaxOpenConns(c.Connections)
	db.SetMaxIdleConns(c.Connections)
	db.SetConnMaxLifetime(10 * c.LoadTimeout)
	return db, nil
}

// OpenPool makes a pool of read-only connections to a database, for the caller's own queries, each of which may take
// as long as most. The URL may have a password. It does not connect yet.
func OpenPool(d Database, most time.Duration) (*sql.DB, error) {
	db, err := open("", d, Config{QueryTimeout: most, LoadTimeout: most}.withDefaults())
	if err != nil {
		return nil, err
	}
	return db.DB, nil
}

// sessions makes connections on which the statements that set up a session have run.
type sessions struct {
	driver.Connector
	statements []string
}

// Connect implements driver.Connector.
func (s *sessions) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range s.statements {
		if _, err := c.(driver.ExecerContext).ExecContext(ctx, statement, nil); err != nil {
			_ = c.Close() // the first error counts
			return nil, err
		}
	}
	return c, nil
}

func mysqlConnector(d Database, c Config) (driver.Connector, error) {
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read")
	}
	m := mysql.NewConfig()
	m.User, m.DBName, m.Net, m.Addr = u.User.Username(), strings.Trim(u.Path, "/"), "tcp", u.Host
	if u.Port() == "" {
		m.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	if path := u.Query().Get(unixSocket); path != "" {
		m.Net, m.Addr = "unix", path
	}
	m.ParseTime = true // in UTC, which is the default
	// Without prepared statements all values come as text, as they do for Nova: a FLOAT with six digits. And each
	// query is one round trip.
	m.InterpolateParams = true
	m.TLS = d.TLS
	// These timeouts end a connection to a silent server even if no context does.
	m.Timeout, m.ReadTimeout, m.WriteTimeout = c.QueryTimeout, 2*c.QueryTimeout, 2*c.QueryTimeout
	m.Logger = quiet{}
	m.Passwd, _ = u.User.Password()
	err = m.Apply(mysql.BeforeConnect(func(_ context.Context, m *mysql.Config) (err error) {
		if d.PasswordFile != "" {
			m.Passwd, err = d.password()
		}
		return err
	}))
	if err != nil {
		return nil, err
	}
	return mysql.NewConnector(m)
}

// quiet drops the driver's own log lines, since the errors say the same.
type quiet struct{}

func (quiet) Print(...any) {}

func postgresConnector(d Database, c Config) (driver.Connector, error) {
	_, rest, _ := strings.Cut(d.URL, "://")
	p, err := pgx.ParseConfig("postgres://" + rest)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read") // pgx would quote it
	}
	p.RuntimeParams["application_name"] = "cellgate legacy " + c.Cell
	p.ConnectTimeout = c.QueryTimeout
	if d.TLS != nil {
		p.TLSConfig, p.Fallbacks = d.TLS, nil
	}
	return stdlib.GetConnector(*p, stdlib.OptionBeforeConnect(func(_ context.Context, p *pgx.ConnConfig) error {
		if d.PasswordFile == "" {
			return nil
		}
		var err error
		p.Password, err = d.password()
		return err
	})), nil
}

// password reads the file.
func (d *Database) password() (string, error) {
	b, err := os.ReadFile(d.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("the password of the database: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
