package sqlshard

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/shard"
)

// Options describe the shard to open.
type Options struct {
	// Cell and CellUUID are recorded in a new shard, and checked in an existing one.
	Cell     string
	CellUUID string
	// URL is the database's: postgres://user@host:port/name?sslmode=verify-full&sslrootcert=/path. All connection
	// parameters of libpq apply. With the scheme cockroach, the server must be CockroachDB; postgres allows both.
	URL string
	// PasswordFile has the password, if it is neither in the URL nor in ~/.pgpass. It is read for each new
	// connection, so it may change.
	PasswordFile string
	// Create makes the database if it does not exist. Migrate brings its tables up to date; without it, an outdated
	// database is not opened.
	Create  bool
	Migrate bool
	// MaxConns bounds the connections; 0 means pool_max_conns of the URL, or defaultConns. Each Apply and each reader
	// holds one.
	MaxConns int32
	// ConnectTimeout bounds making a connection, AcquireTimeout the wait for a free one, StatementTimeout a
	// statement. IdleTimeout is how long the server keeps the locks of a process that is idle in a transaction.
	ConnectTimeout   time.Duration
	AcquireTimeout   time.Duration
	StatementTimeout time.Duration
	IdleTimeout      time.Duration
	// MaxDecisionBytes bounds the compressed bodies of decisions: TrimDecisions drops the oldest beyond it; 0 for no
	// bound.
	MaxDecisionBytes int64
	// Isolation is PostgreSQL's level for transactions that write: "read committed"
	// (the default), "repeatable read" or "serializable". All are correct; see ADR 10.
	Isolation string
	// Log receives messages about connections; nil means slog.Default().
	Log *slog.Logger

	// skew is added to the server's time; for tests.
	skew func() time.Duration
	// as overrides the detected kind of server, for tests; nil for the detected one.
	as *server
	// dial makes connections, for tests that cut them.
	dial pgconn.DialFunc
}

// readCommitted is the default of Isolation.
const readCommitted = "read committed"

// Defaults of Options.
const (
	defaultConns          = 8
	defaultConnectTimeout = 5 * time.Second
	defaultAcquireTimeout = 2 * time.Second
	// A statement times out before its caller does, after shard.ApplyLimit.
	defaultStatementTimeout = shard.ApplyLimit - 2*time.Second
	defaultIdleTimeout      = 2 * time.Second
	// connLifetime, plus up to a fifth, is how long the pool uses a connection, unless the URL has
	// pool_max_conn_lifetime. After a failover the name may lead to another server than the connection.
	connLifetime = 5 * time.Minute
)

func (o Options) complete() (Options, error) {
	if o.Cell == "" || strings.ContainsAny(o.Cell+o.CellUUID, "\r\n\x00") {
		return o, fmt.Errorf("the name of a shard's cell is %q (uuid %q), must be one line and not empty", o.Cell, o.CellUUID)
	}
	for d, standard := range map[*time.Duration]time.Duration{
		&o.ConnectTimeout: defaultConnectTimeout, &o.AcquireTimeout: defaultAcquireTimeout,
		&o.StatementTimeout: defaultStatementTimeout, &o.IdleTimeout: defaultIdleTimeout,
	} {
		if *d <= 0 {
			*d = standard
		}
	}
	switch o.Isolation {
	case "":
		o.Isolation = readCommitted
	case readCommitted, "repeatable read", "serializable":
	default:
		return o, fmt.Errorf("isolation is %q, must be read committed, repeatable read or serializable", o.Isolation)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.skew == nil {
		o.skew = func() time.Duration { return 0 }
	}
	return o, nil
}

// parseURL parses a shard's URL. demanded is the server that the scheme requires, or nil. The error does not contain
// the password.
func parseURL(text string) (config *pgxpool.Config, demanded *server, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && (scheme == "postgres" || scheme == "postgresql"):
	case ok && (scheme == "cockroach" || scheme == "cockroachdb"):
		demanded = new(cockroach)
	default:
		return nil, nil, fmt.Errorf("a shard's URL begins with postgres:// or cockroach://")
	}
	config, err = pgxpool.ParseConfig("postgres://" + rest)
	if err != nil {
		return nil, nil, fmt.Errorf("the shard's URL %s cannot be read: %w", Redacted(text), err)
	}
	if config.ConnConfig.Database == "" {
		return nil, nil, fmt.Errorf("the shard's URL %s names no database", Redacted(text))
	}
	if !namesParameter(text, "target_session_attrs") && os.Getenv("PGTARGETSESSIONATTRS") == "" {
		config.ConnConfig.ValidateConnect = takesWrites
	}
	if demanded != nil && !namesPort(text) {
		config.ConnConfig.Port = cockroachPort
		for _, f := range config.ConnConfig.Fallbacks {
			f.Port = cockroachPort
		}
	}
	return config, demanded, nil
}

// cockroachPort is CockroachDB's default port.
const cockroachPort = 26257

// namesPort reports whether a URL, or the environment, has a port.
func namesPort(text string) bool {
	u, err := url.Parse(text)
	return err != nil || u.Port() != "" || strings.Contains(u.Host, ",") || u.Query().Has("port") || os.Getenv("PGPORT") != ""
}

// takesWrites fails for a read-only server: a standby would give outdated answers. With several hosts, this finds the
// primary. CockroachDB is not asked. It has no standbys, and its 20.2 line answers from a table of the database,
// which may not exist yet.
func takesWrites(ctx context.Context, c *pgconn.PgConn) error {
	if c.ParameterStatus("crdb_version") != "" {
		return nil
	}
	return pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c)
}

// Redacted gives a URL without its passwords, for messages.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(not a URL)"
	}
	q := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if q.Has(secret) {
			q.Set(secret, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// connecting completes the configuration of connections with the options.
func (o Options) connecting(config *pgx.ConnConfig) {
	if _, named := config.RuntimeParams["application_name"]; !named {
		config.RuntimeParams["application_name"] = "cellgate " + o.Cell
	}
	if o.dial != nil {
		config.DialFunc = o.dial
	}
	if config.ConnectTimeout == 0 || config.ConnectTimeout > o.ConnectTimeout {
		config.ConnectTimeout = o.ConnectTimeout
	}
}

// withSecrets reads the files that may change while the process runs: the URL's TLS files and the password file.
func (o Options) withSecrets(_ context.Context, config *pgx.ConnConfig) error {
	now, _, err := parseURL(o.URL)
	if err != nil {
		return err
	}
	config.TLSConfig, config.Fallbacks = now.ConnConfig.TLSConfig, now.ConnConfig.Fallbacks
	if o.PasswordFile == "" {
		return nil
	}
	b, err := os.ReadFile(o.PasswordFile)
	if err != nil {
		return fmt.Errorf("the password of the shard's database: %w", err)
	}
	config.Password = strings.TrimRight(string(b), "\r\n")
	return nil
}

// warnOfPassword logs a password file that every user of the machine can read. It is not an error: for secrets
// mounted into a container, that is usual.
func (o Options) warnOfPassword() {
	if info, err := os.Stat(o.PasswordFile); o.PasswordFile != "" && err == nil && info.Mode().Perm()&0o007 != 0 {
		o.Log.Warn("the password of the shard's database may be read by every user of this machine: chmod o-rwx it", "file", o.PasswordFile, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// namesParameter reports whether a URL sets a parameter.
func namesParameter(text, name string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Query().Has(name)
}
