package pebbleshard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

func openErr(t *testing.T, dir string, opts Options, says ...string) {
	t.Helper()
	s, err := Open(dir, opts)
	if err == nil {
		mustClose(t, s)
		t.Fatalf("opened %s", dir)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not name %q", err, text)
		}
	}
}

// checkErr demands that Inspect and Open refuse a directory with the same error, and that neither
// changes its files.
func checkErr(t *testing.T, dir string, opts Options, says ...string) {
	t.Helper()
	before := files(t, dir)
	_, err := Open(dir, opts)
	if err == nil {
		t.Fatalf("opened %s", dir)
	}
	if _, inspected := Inspect(dir, opts); inspected == nil || inspected.Error() != err.Error() {
		t.Errorf("Inspect says %v, Open says %v", inspected, err)
	}
	for _, text := range append(says, dir) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not name %q", err, text)
		}
	}
	// Open makes the lock file before it reads FORMAT.
	if err := os.Remove(filepath.Join(dir, lockFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if after := files(t, dir); after != before {
		t.Errorf("files were\n%s\nare\n%s", before, after)
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

func TestOpen_Again_ErrorNamesTheHolder(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, dir, "is held by this process")

	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	openErr(t, link, Options{Cell: "cell1"}, "is held by this process")

	mustClose(t, s)
	s, err = Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatalf("opening after the holder closed: %v", err)
	}
	mustClose(t, s)
}

// TestOpen_FromAnotherProcess_ErrorNamesTheHolder runs this test binary a second time, as the process that holds
// the lock.
func TestOpen_FromAnotherProcess_ErrorNamesTheHolder(t *testing.T) {
	const env = "PEBBLESHARD_TEST_HOLD"
	if dir := os.Getenv(env); dir != "" {
		s, err := Open(dir, Options{Cell: "cell1"})
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
	other := exec.Command(os.Args[0], "-test.run=^TestOpen_FromAnotherProcess_ErrorNamesTheHolder$")
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
	if seen, err := Inspect(dir, Options{Cell: "cell1"}); err != nil || !seen.Exists || seen.HeldBy != fmt.Sprintf("process %d", other.Process.Pid) {
		t.Errorf("Inspect gives %+v, %v", seen, err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, dir, fmt.Sprintf("is held by process %d ", other.Process.Pid))
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
		openErr(t, dir, Options{Cell: "cell1"}, dir, "thesis.tex")
		if after := files(t, dir); after != before {
			t.Errorf("files were\n%s\nare\n%s", before, after)
		}
	})
	t.Run("a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		openErr(t, file, Options{Cell: "cell1"}, file)
	})
}

// An error says what of FORMAT is wrong.
func TestOpen_DamagedFormatFile_ErrorSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"foreign":         {"PNG, 24 bit\n", `line 1 of its FORMAT file is "PNG, 24 bit", not "cellgate shard"`},
		"empty":           {"", "has an empty FORMAT file"},
		"blank":           {"\n\n", "has an empty FORMAT file"},
		"only the title":  {"cellgate shard\n", "has a damaged FORMAT file"},
		"version +1":      {"cellgate shard\nformat +1\ncell cell1\nuuid u\n", `has "format +1" in its FORMAT file`},
		"no version":      {"cellgate shard\nversion 1\ncell cell1\nuuid u\n", "has a damaged FORMAT file"},
		"later version":   {fmt.Sprintf("cellgate shard\nformat %d\nanything\n", FormatVersion+1), fmt.Sprintf(`has "format %d" in its FORMAT file, and this program reads "format %d"`, FormatVersion+1, FormatVersion)},
		"no cell":         {"cellgate shard\nformat 1\n", "has a damaged FORMAT file"},
		"no uuid":         {"cellgate shard\nformat 1\ncell cell1\nu\n", "has a damaged FORMAT file"},
		"a fifth line":    {"cellgate shard\nformat 1\ncell cell1\nuuid u\nmore\n", "has a damaged FORMAT file"},
		"another cell":    {"cellgate shard\nformat 1\ncell cell2\nuuid u\n", "is of cell cell2, uuid u, not of cell cell1, uuid u"},
		"carriage return": {"cellgate shard\r\nformat 1\r\n", `line 1 of its FORMAT file is "cellgate shard\r"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, pebbleDir), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, formatFile), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			checkErr(t, dir, Options{Cell: "cell1", CellUUID: "u"}, c.says)
		})
	}
}

// Every error has the message of the operating system or of Pebble, on one line, and the remedy.
func TestErrorsOfOpenHaveTheirCause(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	openErr(t, filepath.Join(file, "below"), Options{Cell: "cell1"}, filepath.Join(file, "below"), "cannot be made: ", "not a directory; give a place")

	dir := t.TempDir()
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, dir, "lock held by current process", "; stop it, or give another directory")
	mustClose(t, s)
	manifests, err := filepath.Glob(filepath.Join(dir, pebbleDir, "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no manifest in %s: %v", dir, err)
	}
	for _, m := range manifests {
		if err := os.Truncate(m, 3); err != nil {
			t.Fatal(err)
		}
	}
	openErr(t, dir, Options{Cell: "cell1"}, dir, "its rows cannot be read: ", "MANIFEST", "; bring back a copy")

	// A LOCK that cannot be made is not reported as held.
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, lockFile), 0o750); err != nil {
		t.Fatal(err)
	}
	openErr(t, dir, Options{Cell: "cell1"}, dir, "cannot be locked: ", "is a directory")
}

func TestInspect_WhatOpenWouldTake_MakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Inspect(dir, Options{Cell: "cell1"}); err != nil {
		t.Errorf("a new directory: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Inspect made the directory: %v", err)
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(dir, Options{Cell: "cell1"}); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if got := files(t, dir); got != "" {
		t.Errorf("Inspect made %s", got)
	}
	s, err := Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	before := files(t, dir)
	if _, err := Inspect(dir, Options{Cell: "cell1"}); err != nil {
		t.Errorf("a shard: %v", err)
	}
	if after := files(t, dir); after != before {
		t.Errorf("files were\n%s\nare\n%s", before, after)
	}
	s, err = Open(dir, Options{Cell: "cell1"})
	if err != nil {
		t.Fatalf("opening after Inspect: %v", err)
	}
	mustClose(t, s)
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
	openErr(t, dir, Options{Cell: "cell1"}, dir, pebbleDir)
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
	openErr(t, dir, Options{Cell: "cell1"}, dir, "format 99", fmt.Sprintf("format %d", FormatVersion))
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
	openErr(t, dir, Options{Cell: "cell1", CellUUID: "uuid-2"}, dir, "of cell cell2", "of cell cell1")
	openErr(t, dir, Options{Cell: "cell2", CellUUID: "uuid-3"}, "uuid-2", "uuid-3")
	openErr(t, dir, Options{}, "cell")
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
	openErr(t, dir, Options{Cell: "cell1"}, dir, shardtest.HostID(1))
	// The failed Open released the lock.
	openErr(t, dir, Options{Cell: "cell1"}, "cannot be read")
}
