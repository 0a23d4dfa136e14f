package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/serverproc"
)

// Shutdown stops the server as an operator does: sessions end with 57P01, and what
// they had not committed is rolled back. It returns when the server is gone.
func (s *Server) Shutdown(t testing.TB) {
	t.Helper()
	if err := s.stop(syscall.SIGINT); err != nil {
		t.Fatalf("stopping PostgreSQL: %v", err)
	}
}

// Kill ends every process of the server with SIGKILL, as a machine that dies does
// but for what the kernel still writes.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.kill(); err != nil {
		t.Fatalf("killing PostgreSQL: %v", err)
	}
}

// Run starts a server that was stopped or killed, at the same address, with what
// it had.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("starting PostgreSQL again: %v", err)
	}
}

// Restart is Shutdown and Run.
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

func (s *Server) stop(sig syscall.Signal) error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	return s.wait()
}

func (s *Server) kill() error {
	if s.cmd == nil {
		return nil
	}
	pids, err := s.family()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := s.wait(); err != nil {
		return err
	}
	// The others are not our children: they are gone when nobody has their number.
	for end := time.Now().Add(startLimit); ; time.Sleep(time.Millisecond) {
		left := 0
		for _, pid := range pids[1:] {
			if alive(pid) {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d processes are left", left)
		}
	}
}

// wait reaps the main process, and kills the server when it does not end.
func (s *Server) wait() error {
	limit := time.AfterFunc(startLimit, func() { _ = s.cmd.Process.Kill() })
	_, err := s.cmd.Process.Wait()
	if !limit.Stop() {
		err = errors.Join(err, fmt.Errorf("it did not end within %v and was killed", startLimit))
	}
	s.cmd = nil
	return err
}

// family lists the server's processes, the main one first.
func (s *Server) family() ([]int, error) {
	main := s.cmd.Process.Pid
	pids := []int{main}
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		if parent, state := stat(pid); parent == main && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// CPU is the processor time that the server's processes have taken, those that ended
// too, in steps of 10 ms.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	pids, err := s.family()
	if err != nil {
		t.Fatalf("the processes of PostgreSQL: %v", err)
	}
	var ticks int64
	for i, pid := range pids {
		f := fields(pid)
		last := 12
		if i == 0 {
			last = 14 // with its children that ended
		}
		for n := 11; n < min(last+1, len(f)); n++ {
			v, err := strconv.ParseInt(f[n], 10, 64)
			if err != nil {
				t.Fatalf("the processor time of a process of PostgreSQL: %v", err)
			}
			ticks += v
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func alive(pid int) bool {
	parent, state := stat(pid)
	return parent != 0 && state != "Z"
}

// stat gives a process's parent and state; 0 for a process that is gone.
func stat(pid int) (parent int, state string) {
	f := fields(pid)
	if len(f) < 2 {
		return 0, ""
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return 0, ""
	}
	return parent, f[0]
}

// fields are those of a process's stat after its name, from its state on; none for a
// process that is gone.
func fields(pid int) []string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name stands in brackets and may have blanks.
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)
}

// remove stops the server and deletes what it left.
func (s *Server) remove() error {
	err := s.stop(syscall.SIGINT)
	return errors.Join(err, os.RemoveAll(s.dir))
}

// Freeze stops every process of the server (SIGSTOP), the main one first, which then
// makes no others: when it returns nothing answers any more, and its connections stay
// open. Thaw undoes it, as Kill does.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	if err := s.each(serverproc.Freeze); err != nil {
		t.Fatalf("freezing PostgreSQL: %v", err)
	}
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw(t testing.TB) {
	t.Helper()
	if err := s.each(func(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }); err != nil {
		t.Fatalf("thawing PostgreSQL: %v", err)
	}
}

// each does something to every process of the server, the main one first.
func (s *Server) each(do func(pid int) error) error {
	if err := do(s.cmd.Process.Pid); err != nil {
		return err
	}
	pids, err := s.family()
	if err != nil {
		return err
	}
	for _, pid := range pids[1:] {
		if err := do(pid); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
