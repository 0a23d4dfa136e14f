package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// benchTarget is the system that bench measures. pid is 0 and data "" when bench does not know them.
type benchTarget struct {
	addr, data string
	pid        int
}

// ownSystem is bench's own system. It runs in a child process, so that its CPU time is apart from the
// client's.
type ownSystem struct {
	target benchTarget
	cmd    *exec.Cmd
	// printed ends when the child's output ends.
	printed chan struct{}
	// remove is the temporary directory; "" when the caller named one.
	remove string
}

// startOwn starts `cellgate dev` and waits until its hosts are registered.
func startOwn(ctx context.Context, b *benchFlags, t terminal) (s *ownSystem, err error) {
	s = &ownSystem{printed: make(chan struct{})}
	data := b.data
	if data == "" {
		if data, err = os.MkdirTemp("", "cellgate-bench-"); err != nil {
			return nil, err
		}
		s.remove = data
	} else if data, err = filepath.Abs(data); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, s.clean())
	}
	// Neither ctx nor a signal to the terminal's group ends the child, so that bench can release claims
	// first.
	s.cmd = exec.Command(self, "dev", "--cells", strconv.Itoa(b.cells), "--hosts", strconv.Itoa(b.hosts), "--data", data,
		"--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--cell-base-port", "0", "--log-level", "warn")
	s.cmd.Env = t.env
	s.cmd.Stderr = t.err
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.clean())
	}
	s.target = benchTarget{data: data, pid: s.cmd.Process.Pid}
	serving := make(chan struct{})
	go s.read(out, serving)
	select {
	case <-serving:
	case <-s.printed:
		err = errors.New("the system ended while it started")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// read takes the addresses from the child's output. It closes serving once the child serves.
func (s *ownSystem) read(out io.Reader, serving chan<- struct{}) {
	defer close(s.printed)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) == 2 && f[0] == "gRPC":
			s.target.addr = f[1]
		case len(f) > 0 && f[0] == "Serving":
			close(serving)
		}
	}
}

// stop ends the child, waits for it and removes its data.
func (s *ownSystem) stop() error {
	err := s.cmd.Process.Signal(os.Interrupt)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	hard := time.AfterFunc(shutdownWithin+5*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer hard.Stop()
	<-s.printed
	if ended := s.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("the system of the measurement: %w", ended))
	}
	return errors.Join(err, s.clean())
}

func (s *ownSystem) clean() error {
	if s.remove == "" {
		return nil
	}
	return os.RemoveAll(s.remove)
}

// cpuTimes are the CPU seconds used; Server is negative when not known.
type cpuTimes struct {
	Client float64 `json:"client_cpu_seconds"`
	Server float64 `json:"server_cpu_seconds"`
}

func (c cpuTimes) since(before cpuTimes) cpuTimes {
	d := cpuTimes{Client: c.Client - before.Client, Server: -1}
	if c.Server >= 0 && before.Server >= 0 {
		d.Server = c.Server - before.Server
	}
	return d
}

// cpuOf gives the CPU time that this process and process pid have used.
func cpuOf(pid int) cpuTimes {
	t := cpuTimes{Server: -1}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil {
		t.Client = time.Duration(own.Utime.Nano() + own.Stime.Nano()).Seconds()
	}
	if server, err := statOf(pid); err == nil {
		t.Server = server.CPUTime()
	}
	return t
}

// memoryOf gives the resident memory of a process in bytes; 0 when not known.
func memoryOf(pid int) int {
	s, err := statOf(pid)
	if err != nil {
		return 0
	}
	return s.ResidentMemory()
}

// statOf reads what Linux counts for a process. Its error is for another system, or a pid that no process has.
func statOf(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}
