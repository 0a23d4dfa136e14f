//go:build !linux

package hostprobe

import (
	"errors"
	"os"
)

// Only Linux hosts are read.
var errNotLinux = errors.New("only a Linux host can be read; a simulated one needs agent.hosts")

func diskSize(string) (int64, error) { return 0, errNotLinux }

func diskUse(string) (DiskUse, error) { return DiskUse{}, errNotLinux }

func lockFile(*os.File) (bool, error) { return false, errNotLinux }
