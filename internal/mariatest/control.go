package mariatest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/serverproc"
)

// Freeze stops the server's process (SIGSTOP): when it returns nothing answers any
// more, and its connections stay open. Thaw undoes it, as Kill does.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	if err := serverproc.Freeze(s.cmd.Process.Pid); err != nil {
		t.Fatalf("freezing MariaDB: %v", err)
	}
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatalf("thawing MariaDB: %v", err)
	}
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.stop(syscall.SIGKILL); err != nil {
		t.Fatalf("killing MariaDB: %v", err)
	}
}

// Run starts a server that was killed, at the same address, with what it had.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("starting MariaDB again: %v", err)
	}
}

func (s *Server) stop(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	limit := time.AfterFunc(startLimit, func() { _ = s.cmd.Process.Kill() })
	_, err := s.cmd.Process.Wait()
	if !limit.Stop() {
		err = errors.Join(err, fmt.Errorf("it did not end within %v and was killed", startLimit))
	}
	s.cmd = nil
	return err
}

// ended reports whether the process is gone, without waiting for it.
func (s *Server) ended() (bool, error) {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WNOHANG, nil)
	if err != nil || pid == 0 {
		return false, err
	}
	return true, fmt.Errorf("exit status %d", status.ExitStatus())
}

// remove stops the server and deletes what it left.
func (s *Server) remove() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGCONT) // a test may have left it frozen
	}
	err := s.stop(syscall.SIGTERM)
	return errors.Join(err, os.RemoveAll(s.dir))
}
