package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// URL is the URL of a database of the server, with the password if there is one.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", Host: s.Addr(), Path: "/" + database, User: url.User("postgres")}
	if s.opts.Password != "" {
		u.User = url.UserPassword("postgres", s.opts.Password)
	}
	if s.opts.CertFile == "" {
		u.RawQuery = "sslmode=disable"
	}
	return u.String()
}

var databases atomic.Int64

// NewDatabase creates an empty database and returns its URL; the test drops it.
func (s *Server) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	s.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() { s.Exec(t, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return s.URL(name)
}

// Exec runs a statement in the database postgres, as its superuser.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		t.Errorf("connecting to PostgreSQL: %v", err)
		return
	}
	defer func() {
		if err := c.Close(ctx); err != nil {
			t.Errorf("leaving PostgreSQL: %v", err)
		}
	}()
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}
