package hostprobe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The usage of each instance directory is reported separately, whatever other files are beside
// them.
func TestWhatDirectoriesOfInstancesTake(t *testing.T) {
	write := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(make([]byte, 4<<20)); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil { // allocates its blocks
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if use, err := diskUse(dir); err != nil || use.Available <= 0 || len(use.Directories) != 0 {
		t.Errorf("an empty one: %+v, %v", use, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if use, err := diskUse(dir); err != nil || use.Available <= 0 {
		t.Errorf("a new file system: %+v, %v", use, err)
	}
	write(filepath.Join(dir, "instances", first, "disk"))
	if _, err := diskUse(dir); !errors.Is(err, errNotInstancesPath) {
		t.Errorf("the directory above was taken for it: %v", err)
	}
	write(filepath.Join(dir, first, "disk"))
	write(filepath.Join(dir, first, "tpm", "state"))
	used, err := blocksBelow(filepath.Join(dir, first))
	if err != nil || used < 8<<20 || used > 9<<20 {
		t.Errorf("an instance has %d bytes, %v", used, err)
	}
	write(filepath.Join(dir, "_base", "image"))
	use, err := diskUse(dir)
	if err != nil {
		t.Fatal(err)
	}
	if size, err := diskSize(dir); err != nil || use.Available <= 0 || use.Available > size || len(use.Directories) != 1 || use.Directories[first] != used {
		t.Errorf("of %d bytes %+v, %v", size, use, err)
	}
	if _, err := diskUse(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there was read")
	}
}
