package serverproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"cellgate/internal/testwait"
)

// limit bounds how long a server may take to start or to stop.
const limit = testwait.Limit

// Process is a server that listens on a port of 127.0.0.1 and has its own folder. Only one goroutine at
// a time may call its methods.
type Process struct {
	// Name is the server's name in errors.
	Name    string
	Account Account
	// End is the signal that makes it end. Last is sent to it when the tests' process ends.
	End, Last syscall.Signal
	// Command builds the server's command for Dir and Port.
	Command func() *exec.Cmd
	// Ping returns an error until the server answers.
	Ping func(ctx context.Context) error

	// Dir and Port are chosen by Start.
	Dir  string
	Port int
	cmd  *exec.Cmd
}

// Start creates the folder, calls prepare to fill it, and starts the server on a free port.
func (p *Process) Start(prepare func() error) (err error) {
	if p.Dir, err = os.MkdirTemp("", "cellgate-server-"); err != nil {
		return err
	}
	if err = prepare(); err == nil {
		for range 3 { // a port may be taken meanwhile
			if p.Port, err = FreePort(); err != nil {
				break
			}
			if err = p.run(); err == nil {
				return nil
			}
		}
	}
	_ = os.RemoveAll(p.Dir) // the other error counts
	return fmt.Errorf("%s: %w", p.Name, err)
}

// FreePort returns a port on which nobody listened a moment ago.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Addr is the address on which the server listens: 127.0.0.1 and a port.
func (p *Process) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.Port) }

// Log is the path of the server's log.
func (p *Process) Log() string { return filepath.Join(p.Dir, "log") }

// Runs reports whether the server was started, and neither stopped nor killed since.
func (p *Process) Runs() bool { return p.cmd != nil }

// Run starts a stopped or killed server again, at the same address and with its data.
func (p *Process) Run(t testing.TB) {
	t.Helper()
	p.must(t, "starting", p.run())
}

// Shutdown makes the server end, and returns when it has ended.
func (p *Process) Shutdown(t testing.TB) {
	t.Helper()
	p.must(t, "stopping", p.stop())
}

// Kill ends every process of the server with SIGKILL. This is like the death of a machine, except that
// the kernel still writes its buffers.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.must(t, "killing", p.kill())
}

// Freeze stops every process of the server (SIGSTOP), the main one first, which then starts no others.
// When Freeze returns, nothing answers any more, and connections stay open. Thaw undoes it, and Kill
// works in spite of it.
func (p *Process) Freeze(t testing.TB) {
	t.Helper()
	p.must(t, "freezing", p.each(Freeze))
}

// Thaw continues a frozen server.
func (p *Process) Thaw(t testing.TB) {
	t.Helper()
	p.must(t, "thawing", p.each(thaw))
}

// Remove stops the server and deletes its files.
func (p *Process) Remove() error {
	if p.cmd == nil {
		return os.RemoveAll(p.Dir)
	}
	err := p.each(thaw) // a test may have left it frozen
	if p.End == syscall.SIGKILL {
		err = errors.Join(err, p.kill())
	} else {
		err = errors.Join(err, p.stop())
	}
	return errors.Join(err, os.RemoveAll(p.Dir))
}

func (p *Process) must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s %s: %v", what, p.Name, err)
	}
}

// run starts the program and waits until it answers.
func (p *Process) run() error {
	if p.cmd != nil {
		return errors.New("the server runs already")
	}
	out, err := os.OpenFile(p.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the server has its own copy
	cmd := p.Command()
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.Dir, out, out, p.Account.Attributes(p.Last)
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd = cmd
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		err := p.Ping(ctx)
		if err == nil {
			return nil
		}
		var status syscall.WaitStatus
		if pid, gone := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); gone != nil || pid != 0 {
			p.cmd = nil
			return fmt.Errorf("it ended with status %d, %w\n%s", status.ExitStatus(), err, p.lastLog())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w\n%s", err, p.lastLog())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *Process) lastLog() string {
	b, err := os.ReadFile(p.Log())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

func (p *Process) stop() error {
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(p.End); err != nil {
		return err
	}
	return p.wait()
}

func (p *Process) kill() error {
	if p.cmd == nil {
		return nil
	}
	pids, err := p.Family()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := p.wait(); err != nil {
		return err
	}
	// The other processes are not children of this one: they have ended when their ids are gone.
	for _, pid := range pids[1:] {
		for end := time.Now().Add(limit); alive(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("process %d is left", pid)
			}
		}
	}
	return nil
}

// wait reaps the main process, and kills it if it does not end within limit.
func (p *Process) wait() error {
	hard := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() })
	_, err := p.cmd.Process.Wait()
	if !hard.Stop() {
		err = errors.Join(err, fmt.Errorf("it did not end within %v and was killed", limit))
	}
	p.cmd = nil
	return err
}

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// each calls do for every process of the server, the main one first.
func (p *Process) each(do func(pid int) error) error {
	if err := do(p.cmd.Process.Pid); err != nil {
		return err
	}
	pids, err := p.Family()
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
