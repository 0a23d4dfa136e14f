package serverproc

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Freeze stops a process (SIGSTOP) and returns when all of its threads have stopped: after the signal
// alone, a thread may still answer earlier messages. A process that has ended is ignored. SIGCONT
// undoes Freeze.
func Freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		return err
	}
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		running, err := moving(pid)
		if err != nil || running == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d threads of process %d do not stop", running, pid)
		}
	}
}

// moving counts the threads of a process that are not stopped; 0 without /proc.
func moving(pid int) (n int, err error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	if err != nil {
		return 0, err
	}
	for _, f := range stats {
		if fields := statOf(f); len(fields) > 0 && !strings.Contains("TtZX", fields[0]) {
			n++
		}
	}
	return n, nil
}
