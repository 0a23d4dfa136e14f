package mariatest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"cellgate/internal/serverproc"
	"cellgate/internal/testwait"
)

// account is whom servers run as when the tests run as root.
const account = serverproc.Account("nobody")

// Server is a running MariaDB. Its methods are for one goroutine at a time.
type Server struct {
	bin  string
	dir  string
	port int
	cmd  *exec.Cmd
}

// startLimit bounds how long a server may take to start or to stop.
const startLimit = testwait.Limit

var shared struct {
	mu     sync.Mutex
	server *Server
}

// Start gives the server that the tests of this package share, and starts it at
// the first call. TestMain stops it: see Stop.
func Start(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s, err := start(programs(t))
		if err != nil {
			t.Fatalf("MariaDB for the tests: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Stop stops the shared server and ends the process with the code.
func Stop(code int) { os.Exit(StopShared(code)) }

// StopShared stops the shared server and gives the code that the process is to end
// with, for a package with another server to stop.
func StopShared(code int) int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.server; s != nil {
		if err := s.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "mariatest:", err)
			code = max(code, 1)
		}
	}
	return code
}

// New starts a server for one test, which stops it.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := start(programs(t))
	if err != nil {
		t.Fatalf("MariaDB for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("MariaDB of the test: %v", err)
		}
	})
	return s
}

// programs finds the server program, and skips the test where there is none.
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

func start(bin string) (*Server, error) {
	s := &Server{bin: bin}
	var err error
	if s.dir, err = os.MkdirTemp("", "cellgate-mariadb-"); err != nil {
		return nil, err
	}
	if err = s.initialise(); err == nil {
		err = s.run()
	}
	if err != nil {
		_ = os.RemoveAll(s.dir) // the error that counts is the other one
		return nil, err
	}
	return s, nil
}

// initialise makes the data folder.
func (s *Server) initialise() error {
	if err := os.Mkdir(s.data(), 0o700); err != nil {
		return err
	}
	if err := account.Give(s.dir); err != nil {
		return err
	}
	cmd := exec.Command("mariadb-install-db", "--no-defaults", "--datadir="+s.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=16M", "--innodb-flush-method=nosync", "--innodb-doublewrite=0",
		"--tmpdir="+s.dir)
	cmd.Dir, cmd.SysProcAttr = s.dir, account.Attributes(syscall.SIGKILL)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// options make a small server that a killed machine would damage, and a killed
// process does not.
func (s *Server) options() []string {
	return []string{
		"--no-defaults", "--datadir=" + s.data(), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port),
		"--socket=" + s.Socket(), "--pid-file=" + filepath.Join(s.dir, "pid"), "--tmpdir=" + s.dir,
		"--skip-name-resolve", "--skip-log-bin", "--performance-schema=OFF", "--innodb-buffer-pool-size=256M",
		"--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync",
		"--innodb-doublewrite=0", "--max-connections=200", "--character-set-server=utf8mb3",
	}
}

// run starts the program and waits until it answers. The port is the one of the
// first start, so that clients find the server again.
func (s *Server) run() error {
	if s.cmd != nil {
		return fmt.Errorf("the server runs already")
	}
	first := s.port == 0
	var err error
	for range 3 {
		if first {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.launch(); err == nil || !first {
			return err
		}
	}
	return err
}

func (s *Server) launch() error {
	out, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the server has its own copy
	cmd := exec.Command(s.bin, s.options()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, out, out, account.Attributes(syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		err := s.ping(ctx)
		if err == nil {
			return nil
		}
		if gone, werr := s.ended(); gone {
			s.cmd = nil
			return fmt.Errorf("mariadbd ended: %w\n%s", werr, s.lastLog())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("mariadbd does not answer: %w\n%s", err, s.lastLog())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	db, err := s.open("")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // nothing was written
	return db.PingContext(ctx)
}

// open makes a pool for the server's superuser; statements may hold several.
func (s *Server) open(database string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", s.Addr(), database
	c.MultiStatements, c.ParseTime, c.Timeout = true, true, startLimit
	c.Logger = quiet{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

type quiet struct{}

func (quiet) Print(...any) {}

func (s *Server) lastLog() string {
	b, err := os.ReadFile(s.Log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
