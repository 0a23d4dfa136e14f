package mariatest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// Socket is the path of its socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, "s") }

// URL is the URL of a database of the server, for its superuser, who has no password.
func (s *Server) URL(database string) string { return "mysql://root@" + s.Addr() + "/" + database }

var databases atomic.Int64

// NewDatabase creates an empty database and returns its name; the test drops it.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	s.Exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if s.Runs() {
			s.Exec(t, "DROP DATABASE "+name)
		}
	})
	return name
}

// Open returns a pool of connections to a database as its superuser; the test closes it. One text may
// hold several statements.
func (s *Server) Open(t testing.TB, database string) *sql.DB {
	t.Helper()
	db, err := s.open(database)
	if err != nil {
		t.Fatalf("MariaDB: %v", err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("leaving MariaDB: %v", err)
		}
	})
	return db
}

// Exec runs statements as the superuser, in no database.
func (s *Server) Exec(t testing.TB, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	db, err := s.open("")
	if err != nil {
		t.Errorf("MariaDB: %v", err)
		return
	}
	defer func() { _ = db.Close() }() // only the answer counts
	if _, err := db.ExecContext(ctx, statements); err != nil {
		t.Errorf("%s: %v", statements, err)
	}
}
