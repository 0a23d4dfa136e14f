package serverproc

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// A busy process of several threads stands still when Freeze returns, and goes on
// after SIGCONT.
func TestFreeze(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not run: only Linux tells the state of threads")
	}
	c := exec.Command("sh", "-c", "while :; do :; done")
	c.SysProcAttr = Account("nobody").Attributes(syscall.SIGKILL)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed: it fails
	}()
	for range 100 {
		if err := Freeze(c.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if n, err := moving(c.Process.Pid); n != 0 || err != nil {
			t.Fatalf("%d threads go on, %v", n, err)
		}
		if err := syscall.Kill(c.Process.Pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0; n, _ = moving(c.Process.Pid) {
			runtime.Gosched()
		}
	}
}

func TestFreezeOfNobody(t *testing.T) {
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	if err := Freeze(c.Process.Pid); err != nil {
		t.Error(err)
	}
}
