package novadb

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/fault"
	"cellgate/internal/testaddr"
)

// unavailable demands the error of a trouble with a database, and that it names no
// secret.
func unavailable(t *testing.T, err error, role string, want Trouble) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.CellUnavailable || TroubleOf(err) != want || e.Metadata["database"] != role || e.Metadata["cells"] != "cell1" {
		t.Errorf("%v (%q of %q), want %s of the %s database", err, TroubleOf(err), e, want, role)
	}
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error has the password: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := Open(t.Context(), Config{
		Database: Database{URL: "mysql://nova:s3cret@db/nova"}, API: Database{URL: "mysql://db/nova?timeout=3s"},
	})
	var e *fault.Error
	if !errors.As(err, &e) || e.Kind != fault.InvalidRequest || strings.Contains(err.Error(), "s3cret") {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, f := range e.Fields {
		paths[f.Path] = true
	}
	for _, p := range []string{"cell", "database.url", "api.url"} {
		if !paths[p] {
			t.Errorf("%s is not named: %v", p, e.Fields)
		}
	}
	for text, good := range map[string]bool{
		"mysql+pymysql://nova@db/nova?charset=utf8": true, "postgresql+psycopg2://nova@db/nova": true, "mariadb://db/nova": true,
		"sqlite:///nova.db": false, "mysql://db": false, "postgres://": false, "mysql://db:x/nova": false,
		"mysql://nova@localhost/nova?unix_socket=/run/mysqld/mysqld.sock": true, "mysql://nova@localhost/nova?unix_socket=mysqld.sock": false,
	} {
		if problem := (&Database{URL: text}).check(); (problem == "") != good {
			t.Errorf("%s: %q", text, problem)
		}
	}
}

func TestTroubles(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		x := w.load()
		open := func(f func(*Config)) error {
			c := w.conf
			f(&c)
			r, err := Open(t.Context(), c)
			if err == nil {
				_, err = r.Load(t.Context())
				_ = r.Close()
			}
			return err
		}
		unavailable(t, open(func(c *Config) { c.Database.URL = at(t, c.Database.URL, testaddr.Dead(t)) }), "cell", Unreachable)
		unavailable(t, open(func(c *Config) { c.API.URL = at(t, c.API.URL, testaddr.Dead(t)) }), "api", Unreachable)
		unavailable(t, open(func(c *Config) {
			c.Database.URL = at(t, c.Database.URL, silent(t))
			c.QueryTimeout = 50 * time.Millisecond
		}), "cell", TimedOut)
		unavailable(t, open(func(c *Config) { c.Database.URL = strings.Replace(c.Database.URL, "/test_", "/not_", 1) }), "cell", OtherSchema)
		unavailable(t, open(func(c *Config) { c.Database.URL = c.API.URL }), "cell", OtherSchema)
		unavailable(t, open(func(c *Config) { c.MaxRows = 2 }), "cell", TooManyRows)
		unavailable(t, open(func(c *Config) { c.Cell, c.CellUUID = "cell1", uuid(9) }), "api", NotMapped)
		change(t, w.api, "UPDATE cell_mappings SET name = 'cell1'")
		unavailable(t, open(func(*Config) {}), "api", NotMapped)

		// A refresh that fails does not return what was loaded before.
		change(t, w.api, "UPDATE cell_mappings SET name = 'cell2' WHERE id = 2")
		change(t, w.api, "ALTER TABLE aggregates RENAME TO gone")
		y, err := w.Refresh(t.Context(), x)
		unavailable(t, err, "api", OtherSchema)
		if y != nil {
			t.Error("there is a snapshot, without aggregates")
		}
		// The connection whose transaction failed is not used again, and holds no lock on a table: this
		// statement would wait for the lock.
		w.api.Exec(t, "ALTER TABLE host_mappings RENAME TO away; ALTER TABLE away RENAME TO host_mappings")
		change(t, w.api, "ALTER TABLE gone RENAME TO aggregates")
		w.refresh(x)
	})
}

// A user with SELECT and nothing else is enough, and no session writes.
func TestReadOnlyUserWithAPasswordFile(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 3)
		file := filepath.Join(t.TempDir(), "password")
		write := func(s string) {
			if err := os.WriteFile(file, []byte(s+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("s3cret'1")
		user := "reader" + strings.ToLower(string(k)) + w.now.Format("150405")
		for _, d := range []*legacytest.Database{w.cell, w.api} {
			if k == legacytest.MariaDB {
				d.Exec(t, "CREATE USER IF NOT EXISTS "+user+"@'127.0.0.1' IDENTIFIED BY 's3cret\\'1'; GRANT SELECT ON * TO "+user+"@'127.0.0.1'")
			} else {
				if d == w.cell {
					d.Exec(t, "CREATE USER "+user+" PASSWORD 's3cret''1'")
					t.Cleanup(func() { change(t, legacytest.NewCell(t, k.Shared(t)), "DROP USER "+user) })
				}
				d.Exec(t, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+user)
				t.Cleanup(func() { d.Exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM "+user) })
			}
		}
		as := func(d Database) Database {
			return Database{URL: strings.NewReplacer("//root@", "//"+user+"@", "//postgres@", "//"+user+"@").Replace(d.URL), PasswordFile: file}
		}
		w.conf.Database, w.conf.API = as(w.conf.Database), as(w.conf.API)
		w.open()
		if x := w.load(); len(x.Hosts) != 3 {
			t.Errorf("%d hosts", len(x.Hosts))
		}
		for _, d := range []*database{w.Reader.cell, w.Reader.api} {
			s, err := d.openSession(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.exec(t.Context(), "UPDATE compute_nodes SET vcpus = 1"); err == nil {
				t.Error("it may write")
			}
			s.close(t.Context())
		}
		if k == legacytest.MariaDB { // the PostgreSQL of the tests asks for no password
			write("s3cret2")
			_, err := Open(t.Context(), w.conf)
			unavailable(t, err, "cell", Denied)
		}
	})
}

// Even the superuser's session is read-only.
func TestSessionsDoNotWrite(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 1)
		s, err := w.Reader.cell.openSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.close(t.Context())
		if err := s.exec(t.Context(), "UPDATE compute_nodes SET vcpus = 1"); err == nil || !strings.Contains(strings.ToLower(err.Error()), "read") {
			t.Errorf("it wrote: %v", err)
		}
	})
}

// at gives a URL of another address.
func at(t *testing.T, text, addr string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

// silent is an address whose listener takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
