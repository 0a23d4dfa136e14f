package rabbittest

import (
	"context"
	"errors"
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

	amqp "github.com/rabbitmq/amqp091-go"

	"cellgate/internal/serverproc"
	"cellgate/internal/testwait"
)

// account is whom brokers run as when the tests run as root.
const account = serverproc.Account("nobody")

// startLimit bounds how long a broker may take to start or to stop.
const startLimit = testwait.Limit

// Server is a running broker. Its methods are for one goroutine at a time.
type Server struct {
	bin, dir           string
	port, dist, mapper int
	epmd, cmd          *exec.Cmd
}

var shared struct {
	mu     sync.Mutex
	server *Server
}

// Start gives the broker that the tests of this package share, and starts it at the
// first call. TestMain stops it: see Stop.
func Start(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s, err := start(program(t))
		if err != nil {
			t.Fatalf("RabbitMQ for the tests: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Stop stops the shared broker and ends the process with the code.
func Stop(code int) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if s := shared.server; s != nil {
		if err := s.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "rabbittest:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// program finds the broker's start script, and skips the test where there is none.
func program(t testing.TB) string {
	t.Helper()
	// Debian's command of this name changes to an account and a folder of its own.
	for _, name := range []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"} {
		if p, err := exec.LookPath(name); err == nil {
			if _, err := exec.LookPath("epmd"); err == nil {
				return p
			}
		}
	}
	t.Skip("NOT RUN: there is no RabbitMQ on this machine (make needs installs one)")
	return ""
}

// Addr is where it listens: 127.0.0.1 and a port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL is its address as Nova's transport_url has it.
func (s *Server) URL() string { return "rabbit://guest:guest@" + s.Addr() + "//" }

// Log is the path of the broker's log.
func (s *Server) Log() string { return filepath.Join(s.dir, "log") }

// Open gives a connection as guest, that the test closes.
func (s *Server) Open(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial("amqp://guest:guest@" + s.Addr() + "/")
	if err != nil {
		t.Fatalf("RabbitMQ: %v", err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("leaving RabbitMQ: %v", err)
		}
	})
	return conn
}

// Kill ends the broker with SIGKILL. What it had on disk is kept.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.kill(); err != nil {
		t.Fatalf("killing RabbitMQ: %v", err)
	}
}

// Run starts a broker that was killed, at the same address.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("starting RabbitMQ again: %v", err)
	}
}

func start(bin string) (*Server, error) {
	s := &Server{bin: bin}
	var err error
	if s.dir, err = os.MkdirTemp("", "cellgate-rabbit-"); err != nil {
		return nil, err
	}
	if err = account.Give(s.dir); err == nil {
		for range 3 { // a port may be taken meanwhile
			if err = errors.Join(s.choosePorts(), s.startMapper()); err == nil {
				err = s.run()
			}
			if err == nil {
				return s, nil
			}
			s.stopMapper()
		}
	}
	_ = os.RemoveAll(s.dir) // the error that counts is the other one
	return nil, err
}

func (s *Server) choosePorts() error {
	for _, port := range []*int{&s.port, &s.dist, &s.mapper} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*port = l.Addr().(*net.TCPAddr).Port
		defer func() { _ = l.Close() }() // all are chosen by then
	}
	return nil
}

// startMapper starts the port mapper, which a broker would start for good otherwise.
func (s *Server) startMapper() error {
	s.epmd = exec.Command("epmd", "-port", strconv.Itoa(s.mapper), "-address", "127.0.0.1")
	s.epmd.Dir, s.epmd.SysProcAttr = s.dir, account.Attributes(syscall.SIGKILL)
	return s.epmd.Start()
}

func (s *Server) stopMapper() {
	if s.epmd != nil && s.epmd.Process != nil {
		_ = s.epmd.Process.Kill()
		_ = s.epmd.Wait() // killed: it fails
	}
	s.epmd = nil
}

// environment makes a node that has nothing of the machine's own.
func (s *Server) environment() []string {
	file := func(name string) string { return filepath.Join(s.dir, name) }
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "LANG=C.UTF-8", "RUNNING_UNDER_SYSTEMD=true", // the script becomes the broker
		"ERL_EPMD_PORT=" + strconv.Itoa(s.mapper), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=cellgate" + strconv.Itoa(s.port) + "@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(s.port), "RABBITMQ_DIST_PORT=" + strconv.Itoa(s.dist),
		"RABBITMQ_MNESIA_BASE=" + file("data"), "RABBITMQ_LOG_BASE=" + file("logs"), "RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + file("plugins"), "RABBITMQ_PID_FILE=" + file("pid"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + file("none"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + file("none"),
	}
}

// run starts the program and waits until it lets clients in.
func (s *Server) run() error {
	out, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the broker has its own copy
	cmd := exec.Command(s.bin)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, s.environment(), out, out, account.Attributes(syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd = cmd
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		conn, err := amqp.Dial("amqp://guest:guest@" + s.Addr() + "/")
		if err == nil {
			return conn.Close()
		}
		var status syscall.WaitStatus
		if pid, werr := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); werr != nil || pid != 0 {
			s.cmd = nil
			return fmt.Errorf("RabbitMQ ended with exit status %d\n%s", status.ExitStatus(), s.lastLog())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("RabbitMQ does not answer: %w\n%s", err, s.lastLog())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) lastLog() string {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// kill ends the broker and what it started, which is one process group.
func (s *Server) kill() error {
	if s.cmd == nil {
		return nil
	}
	err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	_ = s.cmd.Wait() // killed: it fails
	for syscall.Kill(-s.cmd.Process.Pid, 0) == nil {
		time.Sleep(10 * time.Millisecond)
	}
	s.cmd = nil
	return err
}

// remove stops the broker and deletes what it left.
func (s *Server) remove() error {
	err := s.kill()
	s.stopMapper()
	return errors.Join(err, os.RemoveAll(s.dir))
}
