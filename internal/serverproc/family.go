package serverproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Family lists the server's processes: the main one first, then all of its descendants. Without /proc
// it lists only the main one.
func (p *Process) Family() ([]int, error) {
	pids := []int{p.cmd.Process.Pid}
	found, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, f := range found {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		if parent, state := parentOf(pid); state != "Z" {
			children[parent] = append(children[parent], pid)
		}
	}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids, nil
}

func alive(pid int) bool {
	parent, state := parentOf(pid)
	return parent != 0 && state != "Z"
}

// parentOf returns a process's parent and state; 0 if the process has ended.
func parentOf(pid int) (parent int, state string) {
	f := statOf(fmt.Sprintf("/proc/%d/stat", pid))
	if len(f) < 2 {
		return 0, ""
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return 0, ""
	}
	return parent, f[0]
}

// statOf returns the fields of a process's or thread's stat after its name, from its state on; none if
// it has ended.
func statOf(file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	// The name is in brackets and may have blanks.
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)
}
