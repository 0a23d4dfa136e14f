package serverproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Freeze stops a process (SIGSTOP) and returns when every thread of it stands still.
// The signal alone is only asked for: a thread may still answer what came before.
// A process that is gone is none to freeze. SIGCONT undoes it.
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

// moving counts the threads of a process that are not stopped; none where there is no
// /proc to tell.
func moving(pid int) (n int, err error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/stat", pid))
	if err != nil {
		return 0, err
	}
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread ended
		}
		// The name stands in brackets and may have blanks; the state comes after it.
		_, rest, _ := strings.Cut(string(b), ") ")
		if state, _, _ := strings.Cut(rest, " "); !strings.Contains("TtZX", state) {
			n++
		}
	}
	return n, nil
}
