//go:build !linux

package serverproc

import "syscall"

func endsWithUs(*syscall.SysProcAttr, syscall.Signal) {}
