package serverproc

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Account is whom a server runs as when the tests run as root: a name of
// /etc/passwd. Otherwise it is not looked at.
type Account string

// Attributes make a process that is a group of its own, is the account's, and gets
// the signal when the tests are gone.
func (a Account) Attributes(last syscall.Signal) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
	if uid, gid, err := a.ids(); err == nil && os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return attr
}

// Give makes a folder and all in it the account's.
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
