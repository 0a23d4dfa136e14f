package pebbleshard

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// tabled makes a shard whose rows are in tables, and gives its directory. body is the random body
// of one decision, which Open does not read.
func tabled(t *testing.T) (dir string, body []byte) {
	t.Helper()
	dir, body = t.TempDir(), make([]byte, 12<<10) // fills a block of the table
	_, _ = rand.Read(body)                        // it never fails
	s := openDir(t, dir)
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 8)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.PutDecisions(t.Context(), []shard.Decision{{ID: "a.0", At: time.Now(), Body: bytes.Repeat(body[:6<<10], 3)}, {ID: "a.1", At: time.Now(), Body: body}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, body
}

func openDir(t *testing.T, dir string) *Store {
	t.Helper()
	opts := testOptions
	opts.Log = slog.New(slog.DiscardHandler)
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spoil inverts the first of the bytes holds in the first table that has them, and gives the
// table's path.
func spoil(t *testing.T, dir string, holds []byte) string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, pebbleDir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables: %v %v", tables, err)
	}
	for _, path := range tables {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(text, holds); i >= 0 {
			text[i] ^= 0xff
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatalf("no table has %x", holds)
	return ""
}

// isDamage demands an error that names a damaged file and says what to do.
func isDamage(t *testing.T, what string, err error, file string) {
	t.Helper()
	var d *DamagedError
	if !errors.As(err, &d) || filepath.Base(d.File) != filepath.Base(file) || !strings.Contains(err.Error(), "bring back a copy of the directory") {
		t.Errorf("%s: %v, want the damage of %s", what, err, file)
	}
}

// If a compaction or a reader finds a damaged table, the store's next operation fails with the
// damage.
func TestADamagedTableEndsTheStoreByAnError(t *testing.T) {
	for name, meet := range map[string]func(context.Context, *Store){
		// Pebble retries the compaction without end.
		"a compaction": func(ctx context.Context, s *Store) { _ = s.db.Compact(ctx, []byte{0}, []byte{0xff}, false) },
		"a reader":     func(ctx context.Context, s *Store) { _, _ = s.FindDecisions(ctx, shard.DecisionQuery{ID: "a.0"}) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, body := tabled(t)
			file := spoil(t, dir, body[:64])
			s := openDir(t, dir)
			ctx, cancel := context.WithCancel(t.Context())
			var met sync.WaitGroup
			met.Go(func() { meet(ctx, s) })
			_, err := s.Now(t.Context())
			for err == nil {
				runtime.Gosched()
				_, err = s.Now(t.Context())
			}
			cancel()
			met.Wait()
			isDamage(t, "Now", err, file)
			if fault.KindOf(err) != fault.CellUnavailable || !errors.Is(err, shard.ErrBroken) {
				t.Errorf("Now: %v, want %s and %v", err, fault.CellUnavailable, shard.ErrBroken)
			}
			if err := s.Close(); err == nil {
				t.Error("Close said nothing")
			}
		})
	}
}

// Open fails on damage in the files that it reads.
func TestOpen_DamagedTable_ErrorNamesTheFile(t *testing.T) {
	dir, body := tabled(t)
	file := spoil(t, dir, body[:64])
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(text)*9/10; i += 50 { // every block, but not the index at the end
		text[i] ^= 0xff
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, testOptions)
	isDamage(t, "Open", err, file)
}

// If the directory cannot be made, Inspect fails as Open does.
func TestOpen_DirectoryCannotBeMade_IsRefused(t *testing.T) {
	top := t.TempDir()
	file, link := filepath.Join(top, "file"), filepath.Join(top, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(filepath.Join(top, "nowhere"), link)); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{
		filepath.Join(file, "a", "b"):                file + " is a file",
		filepath.Join(link, "a"):                     link + " is a symbolic link to nothing",
		filepath.Join(top, strings.Repeat("x", 300)): "file name too long",
	} {
		if _, err := Inspect(dir, testOptions); err == nil || !strings.Contains(err.Error(), "data directory "+dir+" cannot be made: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v, want %q", dir, err, says)
		}
	}
	if _, err := os.Stat(filepath.Join(top, "nowhere")); err == nil {
		t.Error("something was made")
	}
	for _, dir := range []string{filepath.Join(top, "new"), filepath.Join(top, "new", "deep")} {
		if _, err := Inspect(dir, testOptions); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
