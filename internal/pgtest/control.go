package pgtest

import (
	"strconv"
	"testing"
	"time"

	"cellgate/internal/serverproc"
)

// Restart is Shutdown and Run: sessions end with 57P01, and what they had not committed
// is rolled back.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Shutdown(t)
	s.Run(t)
}

// Crash is Kill and Run.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.Kill(t)
	s.Run(t)
}

// CPU is the processor time that the server's processes have taken, those that ended
// too, in steps of 10 ms.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	pids, err := s.Family()
	if err != nil {
		t.Fatalf("the processes of PostgreSQL: %v", err)
	}
	var ticks int64
	for i, pid := range pids {
		f := serverproc.Stat(pid)
		last := 12
		if i == 0 {
			last = 14 // with its children that ended
		}
		for n := 11; n < min(last+1, len(f)); n++ {
			v, err := strconv.ParseInt(f[n], 10, 64)
			if err != nil {
				t.Fatalf("the processor time of a process of PostgreSQL: %v", err)
			}
			ticks += v
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
