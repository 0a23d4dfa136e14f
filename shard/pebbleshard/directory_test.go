package pebbleshard

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

func openErr(t *testing.T, dir string, opts Options, kind fault.Kind, says ...string) {
	t.Helper()
	s, err := Open(dir, opts)
	if err == nil {
		mustClose(t, s)
		t.Fatalf("opened %s", dir)
	}
	if fault.KindOf(err) != kind {
		t.Errorf("error is %v, want %s", err, kind)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not name %q", err, text)
		}
	}
}

func files(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			all = append(all, fmt.Sprintf("%s %x", path, b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestASecondOpenerIsToldTheHolder(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell1", Holder: "cellgate cell cell1, pid 4711"})
	if err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1", Holder: "another"}, fault.CellUnavailable, dir, "cellgate cell cell1, pid 4711")

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	openErr(t, link, Options{Cell: "cell1"}, fault.CellUnavailable, "pid 4711")

	mustClose(t, s)
	s, err = Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatalf("opening after the holder closed: %v", err)
	}
	mustClose(t, s)
}

// TestASecondProcessIsToldTheHolder runs this test binary again as the holder.
func TestASecondProcessIsToldTheHolder(t *testing.T) {
	const env = "PEBBLESHARD_TEST_HOLD"
	if dir := os.Getenv(env); dir != "" {
		s, err := Open(dir, Options{Cell: "cell1", Holder: "the other process"})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("holding")
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			t.Error(err)
		}
		mustClose(t, s)
		return
	}
	dir := t.TempDir()
	other := exec.Command(os.Args[0], "-test.run=^TestASecondProcessIsToldTheHolder$")
	other.Env = append(os.Environ(), env+"="+dir)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "holding" {
		t.Log(lines.Text())
	}
	openErr(t, dir, Options{Cell: "cell1"}, fault.CellUnavailable, dir, "the other process")
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := other.Wait(); err != nil {
		t.Fatalf("the other process: %v", err)
	}
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatalf("opening after the other process ended: %v", err)
	}
	mustClose(t, s)
}

func TestADirectoryOfSomethingElseIsLeftAsItIs(t *testing.T) {
	t.Run("foreign files", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		before := files(t, dir)
		openErr(t, dir, Options{Cell: "cell1"}, fault.InvalidRequest, dir, "thesis.tex")
		if after := files(t, dir); after != before {
			t.Errorf("files were\n%s\nare\n%s", before, after)
		}
	})
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		openErr(t, file, Options{Cell: "cell1"}, fault.CellUnavailable, file)
	})
	t.Run("a foreign FORMAT", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, formatFile), []byte("PNG, 24 bit\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		openErr(t, dir, Options{Cell: "cell1"}, fault.InvalidRequest, dir, "PNG, 24 bit")
	})
}

func TestLostRowsAreAnError(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if err := os.RemoveAll(filepath.Join(dir, pebbleDir)); err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, fault.InvalidRequest, dir, pebbleDir)
}

func TestAnotherFormatVersionIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "down")
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	file := filepath.Join(dir, formatFile)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(b), fmt.Sprintf("format %d\n", FormatVersion), "format 99\nfancy yes\n", 1)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, fault.InvalidRequest, dir, "99", fmt.Sprint(FormatVersion))
	if now, err := os.ReadFile(file); err != nil || string(now) != other {
		t.Errorf("FORMAT is %q now (%v)", now, err)
	}
}

func TestAnotherCellIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell2", CellUUID: "uuid-2"})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	openErr(t, dir, Options{Cell: "cell1", CellUUID: "uuid-2"}, fault.InvalidRequest, dir, `"cell1"`, `"cell2"`)
	openErr(t, dir, Options{Cell: "cell2", CellUUID: "uuid-3"}, fault.InvalidRequest, "uuid-2", "uuid-3")
	openErr(t, dir, Options{}, fault.InvalidRequest, "cell")
	s, err = Open(dir, Options{Cell: "cell2", CellUUID: "uuid-2"})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

func TestRowsThatCannotBeReadAreAnError(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.OpenLane(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 8)}}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	b := s.db.NewBatch()
	if err := b.Set(nameKey(hostKey, shardtest.HostID(1)), []byte("not a row"), nil); err != nil {
		t.Error(err)
	}
	if _, err := s.commit(b); err != nil {
		t.Error(err)
	}
	s.mu.Unlock()
	mustClose(t, s)
	openErr(t, dir, Options{Cell: "cell1"}, fault.Internal, dir, shardtest.HostID(1))
	// The directory is free again.
	openErr(t, dir, Options{Cell: "cell1"}, fault.Internal)
}
