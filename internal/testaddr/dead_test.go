package testaddr

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestDead_WhileTheTestRuns_RefusesAndIsTaken(t *testing.T) {
	addr := Dead(t)
	if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a connection to it: %v", err)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		_ = l.Close()
		t.Error("another one can listen on its port")
	}
}
