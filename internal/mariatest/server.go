package mariatest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"cellgate/internal/serverproc"
	"cellgate/internal/testwait"
)

// account runs the servers if the tests run as root.
const account = serverproc.Account("nobody")

// Server is a running MariaDB. Its methods are for one goroutine at a time.
type Server struct {
	serverproc.Process
	durable bool
}

// queryLimit bounds the statements that tests run on their servers.
const queryLimit = testwait.Limit

var shared serverproc.Shared[*Server]

// Start returns the server that the tests of this package share, and starts it at the first call.
// TestMain stops it with StopShared.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := programs(t)
	return shared.Get(t, func() (*Server, error) { return start(bin, false) })
}

// StopShared stops the shared server and returns the code with which the process must end.
func StopShared(code int) int { return shared.Stop(code) }

// New starts a server for one test, which stops it.
func New(t testing.TB) *Server {
	t.Helper()
	bin := programs(t)
	return serverproc.Own(t, func() (*Server, error) { return start(bin, false) })
}

// NewDurable starts a server for one test, which stops it. The server is as durable as a MariaDB in
// production, with the settings of deploy/openstack: for measurements.
func NewDurable(t testing.TB) *Server {
	t.Helper()
	bin := programs(t)
	return serverproc.Own(t, func() (*Server, error) { return start(bin, true) })
}

// programs finds the server program, and skips the test if there is none.
func programs(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/usr/libexec/mariadbd"} {
		if p, err := exec.LookPath(name); err == nil {
			if _, err := exec.LookPath("mariadb-install-db"); err == nil {
				return p
			}
		}
	}
	t.Skip("NOT RUN: there is no MariaDB server on this machine (make needs installs one)")
	return ""
}

func start(bin string, durable bool) (*Server, error) {
	s := &Server{durable: durable}
	s.Process = serverproc.Process{
		Name: "MariaDB", Account: account, End: syscall.SIGTERM, Last: syscall.SIGKILL, Ping: s.ping,
		Command: func() *exec.Cmd { return exec.Command(bin, s.options()...) },
	}
	return s, s.Process.Start(s.initialise)
}

// initialise creates the data folder.
func (s *Server) initialise() error {
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return err
	}
	if err := account.Give(s.Dir); err != nil {
		return err
	}
	cmd := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M", "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
		"--tmpdir="+s.Dir)
	cmd.Dir, cmd.SysProcAttr = s.Dir, account.Attributes(syscall.SIGKILL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// options are those of a small server that survives a killed process but not a killed machine; or of a
// durable server.
func (s *Server) options() []string {
	all := []string{
		"--no-defaults", "--datadir=" + s.data(), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.Port),
		"--socket=" + s.Socket(), "--pid-file=" + filepath.Join(s.Dir, "pid"), "--tmpdir=" + s.Dir,
		"--skip-name-resolve", "--skip-log-bin", "--performance-schema=OFF", "--max-connections=200", "--character-set-server=utf8mb3",
	}
	if s.durable {
		return append(all, "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=256M", "--collation-server=utf8mb3_general_ci")
	}
	return append(all, "--innodb-buffer-pool-size=256M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-flush-method=nosync", "--innodb-doublewrite=0")
}

func (s *Server) ping(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return db.PingContext(ctx)
}

// open makes a pool for the server's superuser; one text may hold several statements.
func (s *Server) open(database string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", s.Addr(), database
	c.MultiStatements, c.ParseTime, c.Timeout = true, true, queryLimit
	c.Logger = quiet{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

type quiet struct{}

func (quiet) Print(...any) {}
