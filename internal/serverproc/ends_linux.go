package serverproc

import "syscall"

func endsWithUs(a *syscall.SysProcAttr, last syscall.Signal) { a.Pdeathsig = last }
