package pgtest

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom servers run as when the tests run as root.
const account = "postgres"

// asServer makes a process that ends with this one, and that is not root's.
func asServer() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	endsWithUs(a)
	if uid, gid, err := ids(); err == nil && os.Getuid() == 0 {
		a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return a
}

// giveAway makes a folder and all in it the server's own.
func giveAway(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := ids()
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

func ids() (uid, gid uint32, err error) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL does not run as root, and there is no user %s: %w", account, err)
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	m, err := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(n), uint32(m), err
}
