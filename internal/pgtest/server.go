package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/serverproc"
	"cellgate/internal/testwait"
)

// Options say what a server is like.
type Options struct {
	// Durable turns fsync on, for measurements and for losses of power. Without it a
	// server that is killed loses nothing either, as long as the machine lives.
	Durable bool
	// Password is that of the user postgres, asked for by SCRAM; empty lets
	// everybody in.
	Password string
	// CertFile and KeyFile, PEM, make it speak TLS.
	CertFile string
	KeyFile  string
	// Settings are more lines of postgresql.conf.
	Settings map[string]string
}

// account is whom servers run as when the tests run as root.
const account = serverproc.Account("postgres")

// Server is a running PostgreSQL. Its methods are for one goroutine at a time.
type Server struct {
	opts Options
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
		s, err := start(programs(t), Options{})
		if err != nil {
			t.Fatalf("PostgreSQL for the tests: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Stop stops the shared server and ends the process with the code.
func Stop(code int) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.server; s != nil {
		if err := s.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// New starts a server for one test, which stops it.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := start(programs(t), opts)
	if err != nil {
		t.Fatalf("PostgreSQL for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("PostgreSQL of the test: %v", err)
		}
	})
	return s
}

// programs finds the folder of the server programs, and skips the test where
// there is none.
func programs(t testing.TB) string {
	t.Helper()
	if p, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(p)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // the pattern is right
	best, version := "", -1
	for _, p := range found {
		dir := filepath.Dir(p)
		if v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && v > version {
			best, version = dir, v
		}
	}
	if best == "" {
		t.Skip("NOT RUN: there is no PostgreSQL server on this machine (make needs installs one)")
	}
	return best
}

func start(bin string, opts Options) (*Server, error) {
	s := &Server{opts: opts, bin: bin}
	var err error
	if s.dir, err = os.MkdirTemp("", "cellgate-postgres-"); err != nil {
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

// initialise makes the cluster.
func (s *Server) initialise() error {
	args := []string{"--pgdata=" + s.data(), "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"}
	if s.opts.Password == "" {
		args = append(args, "--auth=trust")
	} else {
		pw := filepath.Join(s.dir, "password")
		if err := os.WriteFile(pw, []byte(s.opts.Password), 0o600); err != nil {
			return err
		}
		args = append(args, "--auth=scram-sha-256", "--pwfile="+pw)
	}
	for from, to := range map[string]string{s.opts.CertFile: "cert.pem", s.opts.KeyFile: "key.pem"} {
		if from == "" {
			continue
		}
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, to), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if err := account.Give(s.dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, account.Attributes(syscall.SIGQUIT)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(s.configuration()), 0o600)
}

func (s *Server) configuration() string {
	lines := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"fsync":                   onOff(s.opts.Durable),
		"full_page_writes":        onOff(s.opts.Durable),
		"ssl":                     onOff(s.opts.CertFile != ""),
	}
	if s.opts.CertFile != "" {
		lines["ssl_cert_file"], lines["ssl_key_file"] = filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
	}
	for k, v := range s.opts.Settings {
		lines[k] = v
	}
	var b strings.Builder
	for k, v := range lines {
		fmt.Fprintf(&b, "%s = '%s'\n", k, strings.ReplaceAll(v, "'", "''"))
	}
	return b.String()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run starts the programs and waits until they answer. The port is the one of the
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
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.port))
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, out, out, account.Attributes(syscall.SIGQUIT)
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
			return fmt.Errorf("postgres ended: %w\n%s", werr, s.lastLog())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w\n%s", err, s.lastLog())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// ended reports whether the main process is gone, without waiting for it.
func (s *Server) ended() (bool, error) {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WNOHANG, nil)
	if err != nil || pid == 0 {
		return false, err
	}
	return true, fmt.Errorf("exit status %d", status.ExitStatus())
}

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
