package mariatest

import "syscall"

// endsWithUs lets the kernel stop the server when the tests are gone.
func endsWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
