package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/serverproc"
	"cellgate/internal/testwait"
)

// Options configure a server.
type Options struct {
	// Durable turns fsync on, for measurements and simulated losses of power. Without it, a killed
	// server loses nothing either, as long as the machine runs.
	Durable bool
	// Password is the password of the user postgres, checked by SCRAM; "" admits everybody.
	Password string
	// CertFile and KeyFile, PEM, make the server speak TLS.
	CertFile string
	KeyFile  string
	// Settings are additional lines of postgresql.conf.
	Settings map[string]string
}

// account runs the servers if the tests run as root.
const account = serverproc.Account("postgres")

// Server is a running PostgreSQL. Its methods are for one goroutine at a time.
type Server struct {
	serverproc.Process
	opts Options
	bin  string
}

// queryLimit bounds the statements that tests run on their servers.
const queryLimit = testwait.Limit

var shared serverproc.Shared[*Server]

// Start returns the server that the tests of this package share, and starts it at the first call.
// TestMain stops it with Stop.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := programs(t)
	return shared.Get(t, func() (*Server, error) { return start(bin, Options{}) })
}

// Stop stops the shared server and ends the process with code.
func Stop(code int) { os.Exit(shared.Stop(code)) }

// New starts a server for one test, which stops it.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	bin := programs(t)
	return serverproc.Own(t, func() (*Server, error) { return start(bin, opts) })
}

// programs finds the folder of the server programs, and skips the test if there is none.
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
	s.Process = serverproc.Process{
		Name: "PostgreSQL", Account: account, End: syscall.SIGINT, Last: syscall.SIGQUIT, Ping: s.ping,
		Command: func() *exec.Cmd {
			return exec.Command(filepath.Join(bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.Port))
		},
	}
	return s, s.Process.Start(s.initialise)
}

// initialise creates the cluster.
func (s *Server) initialise() error {
	args := []string{"--pgdata=" + s.data(), "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"}
	if s.opts.Password == "" {
		args = append(args, "--auth=trust")
	} else {
		pw := filepath.Join(s.Dir, "password")
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
			err = os.WriteFile(filepath.Join(s.Dir, to), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if err := account.Give(s.Dir); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.bin, "initdb"), args...)
	cmd.Dir, cmd.SysProcAttr = s.Dir, account.Attributes(syscall.SIGQUIT)
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
		lines["ssl_cert_file"], lines["ssl_key_file"] = filepath.Join(s.Dir, "cert.pem"), filepath.Join(s.Dir, "key.pem")
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

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

func (s *Server) ping(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return c.Close(ctx)
}

// Restart is Shutdown and Run: sessions end with 57P01, and their uncommitted work is rolled back.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Shutdown(t)
	s.Run(t)
}

// Crash is Kill and Run.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.Kill(t)
	s.Run(t)
}
