package rabbittest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"cellgate/internal/serverproc"
)

// account runs the brokers if the tests run as root.
const account = serverproc.Account("nobody")

// Server is a running broker. Its methods are for one goroutine at a time.
type Server struct {
	serverproc.Process
	dist, mapper int
	epmd         *exec.Cmd
}

var shared serverproc.Shared[*Server]

// Start returns the broker that the tests of this package share, and starts it at the first call.
// TestMain stops it with Stop.
func Start(t testing.TB) *Server {
	t.Helper()
	bin := program(t)
	return shared.Get(t, func() (*Server, error) { return start(bin) })
}

// Stop stops the shared broker and ends the process with code.
func Stop(code int) { os.Exit(shared.Stop(code)) }

// program finds the broker's start script, and skips the test if there is none.
func program(t testing.TB) string {
	t.Helper()
	// Debian's command of this name changes the account and the folder.
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

// URL is the broker's address in the form of Nova's transport_url.
func (s *Server) URL() string { return "rabbit://guest:guest@" + s.Addr() + "//" }

// Open returns a connection as guest; the test closes it.
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

func start(bin string) (*Server, error) {
	s := &Server{}
	s.Process = serverproc.Process{
		Name: "RabbitMQ", Account: account, End: syscall.SIGKILL, Last: syscall.SIGKILL, Ping: s.ping,
		Command: func() *exec.Cmd {
			cmd := exec.Command(bin)
			cmd.Env = s.environment()
			return cmd
		},
	}
	err := s.Process.Start(func() (err error) {
		if s.dist, err = serverproc.FreePort(); err == nil {
			s.mapper, err = serverproc.FreePort()
		}
		return errors.Join(err, account.Give(s.Dir), s.startMapper())
	})
	if err != nil {
		s.stopMapper()
	}
	return s, err
}

func (s *Server) ping(context.Context) error {
	conn, err := amqp.Dial("amqp://guest:guest@" + s.Addr() + "/")
	if err != nil {
		return err
	}
	return conn.Close()
}

// Remove stops the broker and deletes its files.
func (s *Server) Remove() error {
	err := s.Process.Remove()
	s.stopMapper()
	return err
}

// startMapper starts the port mapper: otherwise a broker would start one that keeps running.
func (s *Server) startMapper() error {
	s.epmd = exec.Command("epmd", "-port", strconv.Itoa(s.mapper), "-address", "127.0.0.1")
	s.epmd.Dir, s.epmd.SysProcAttr = s.Dir, account.Attributes(syscall.SIGKILL)
	return s.epmd.Start()
}

func (s *Server) stopMapper() {
	if s.epmd != nil && s.epmd.Process != nil {
		_ = s.epmd.Process.Kill()
		_ = s.epmd.Wait() // killed: it fails
	}
	s.epmd = nil
}

// environment configures a node that uses nothing of the machine's own configuration.
func (s *Server) environment() []string {
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "LANG=C.UTF-8", "RUNNING_UNDER_SYSTEMD=true", // the script becomes the broker
		"ERL_EPMD_PORT=" + strconv.Itoa(s.mapper), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=cellgate" + strconv.Itoa(s.Port) + "@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(s.Port), "RABBITMQ_DIST_PORT=" + strconv.Itoa(s.dist),
		"RABBITMQ_MNESIA_BASE=" + file("data"), "RABBITMQ_LOG_BASE=" + file("logs"), "RABBITMQ_LOGS=-",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + file("plugins"), "RABBITMQ_PID_FILE=" + file("pid"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_CONFIG_FILE=" + file("none"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + file("none"),
	}
}
