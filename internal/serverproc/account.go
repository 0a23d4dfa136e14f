package serverproc

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Account is the user that runs a server if the tests run as root: a name in /etc/passwd. Otherwise it
// is ignored.
type Account string

// Attributes make a process run in its own group, as the account, and get the signal last when the
// tests' process ends.
func (a Account) Attributes(last syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
	if uid, gid, err := a.ids(); err == nil && os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return attr
}

// Give makes the account the owner of a folder and its content.
func (a Account) Give(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := a.ids()
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(uid), int(gid))
	})
}

func (a Account) ids() (uid, gid uint32, err error) {
	u, err := user.Lookup(string(a))
	if err != nil {
		return 0, 0, fmt.Errorf("the server is not run as root, and there is no user %s: %w", a, err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	m, err := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(n), uint32(m), err
}
