package pgtest

import "testing"

// Restart is Shutdown and Run: sessions end with 57P01, and their uncommitted work is rolled back.
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
