package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cellgate/internal/pgtest"
)

// A database is created and migrated manually, and a cell then starts on it. Two cells cannot share
// a database.
func TestMigrateAndACellOnADatabase(t *testing.T) {
	srv := pgtest.New(t, pgtest.Options{Password: "it's a secret"})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("it's a secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := "postgres://postgres@" + srv.Addr() + "/cell7?sslmode=disable"
	do := func(want int, args ...string) string {
		t.Helper()
		out, stderr, status := typed(t.Context(), "", append(args, "--store", store, "--store-password-file", password)...)
		if status != want || strings.Contains(out+stderr, "secret") {
			t.Fatalf("cellgate %v: status %d, want %d\n%s%s", args, status, want, out, stderr)
		}
		return out + stderr
	}
	cell := []string{"cell", "--name", "cell7", "--uuid", "c0000000-0000-4000-8000-000000000007", "--grpc", "127.0.0.1:0", "--log-level", "info"}
	if out := do(exitRefused, cell...); !strings.Contains(out, "does not exist") || !strings.Contains(out, "run cellgate migrate up") {
		t.Errorf("a cell without a database: %s", out)
	}
	for _, unsafe := range []string{
		"postgres://u:secret@127.0.0.1/cell7", "postgres://u@127.0.0.1/cell7?host=192.0.2.1", "cockroach://u@/cell7?host=192.0.2.1",
	} {
		out, stderr, status := typed(t.Context(), "", "migrate", "status", "--store", unsafe)
		if status != exitUsage || strings.Contains(out+stderr, "secret@") || !strings.Contains(stderr, "--store") {
			t.Errorf("migrate with %s: status %d\n%s%s", unsafe, status, out, stderr)
		}
	}
	srv.Exec(t, "CREATE DATABASE cell7")
	if out := do(exitDone, "migrate", "status"); !strings.Contains(out, "0001_rows") || !strings.Contains(out, "PostgreSQL") {
		t.Errorf("status before: %s", out)
	}
	if out := do(exitRefused, cell...); !strings.Contains(out, "run cellgate migrate up") || !strings.Contains(out, "(--store)") {
		t.Errorf("a cell without tables: %s", out)
	}
	if out := do(exitDone, "migrate", "up"); !strings.Contains(out, "applied 0001_rows") {
		t.Errorf("up: %s", out)
	}
	if out := do(exitDone, "migrate", "up"); out != "up to date\n" {
		t.Errorf("up again: %s", out)
	}
	var status struct {
		Steps []struct {
			Name string
			At   string `json:"applied_at"`
		}
	}
	if err := json.Unmarshal([]byte(do(exitDone, "migrate", "status", "-o", "json")), &status); err != nil || len(status.Steps) == 0 || status.Steps[0].At == "" {
		t.Errorf("status afterwards: %+v, %v", status, err)
	}
	p := launch(t, true, append(cell, "--store", store, "--store-password-file", password)...)
	p.await("cell is ready")
	p.stop()
	other := []string{"cell", "--name", "cell8", "--uuid", "c0000000-0000-4000-8000-000000000008", "--grpc", "127.0.0.1:0"}
	if out := do(exitRefused, other...); !strings.Contains(out, "it is of cell cell7") {
		t.Errorf("another cell on it: %s", out)
	}
	if out := do(exitDone, "doctor", "cell", "--name", "cell7", "--uuid", "c0000000-0000-4000-8000-000000000007", "--grpc", "127.0.0.1:0", "-o", "json"); !strings.Contains(out, "is of cell cell7, schema step") {
		t.Errorf("doctor: %s", out)
	}
}

// A cell is stopped while it opens its shard, in a database that accepts connections and never
// answers. It stops without an error.
func TestACellStopsWhileItOpensItsShard(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for _, migrate := range []string{"--store-migrate=true", "--store-migrate=false"} {
		ctx, stop := context.WithCancel(t.Context())
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				t.Errorf("Accept: %v", err)
			}
			stop()
			accepted <- c
		}()
		began := time.Now()
		_, stderr, status := typed(ctx, "", "cell", "--name", "cell7", "--uuid", "c0000000-0000-4000-8000-000000000007",
			"--grpc", "127.0.0.1:0", "--log-level", "info", "--store", "postgres://u@"+l.Addr().String()+"/cell7?sslmode=disable", migrate)
		if status != 0 || !strings.Contains(stderr, "before it ran") {
			t.Errorf("%s: status %d after %v\n%s", migrate, status, time.Since(began), stderr)
		}
		if c := <-accepted; c != nil {
			_ = c.Close()
		}
		stop()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
