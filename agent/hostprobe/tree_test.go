package hostprobe

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"cellgate/internal/config"
)

// tree reads a machine of testdata: "PATH = TEXT" is a file, "PATH <<" begins one of
// several lines, which ">>" ends, and "PATH -> TARGET" is a link.
func tree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	files, open := fstest.MapFS{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		path, value, isFile := strings.Cut(line, " = ")
		from, to, isLink := strings.Cut(line, " -> ")
		switch begun, isOpen := strings.CutSuffix(line, " <<"); {
		case open != "" && line == ">>":
			open = ""
		case open != "":
			files[open].Data = append(files[open].Data, line+"\n"...)
		case strings.HasPrefix(line, "#"):
		case isOpen:
			open = strings.TrimPrefix(begun, "/")
			files[open] = &fstest.MapFile{Mode: 0o444}
		case isLink:
			files[from[1:]] = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(to)}
		case isFile || strings.HasSuffix(line, " ="):
			path = strings.TrimSuffix(path, " =")
			files[path[1:]] = &fstest.MapFile{Mode: 0o444, Data: []byte(value + "\n")}
		default:
			t.Fatalf("%s: %q is no line of a tree", name, line)
		}
	}
	return files
}

// reader reads a machine of testdata, whose disk has slightly more than 500 GiB.
func reader(t testing.TB, files fs.FS) Reader {
	t.Helper()
	return Reader{FS: files, Arch: "x86_64", PageKB: 4, Disk: func(path string) (int64, error) {
		if path != "/var/lib/nova/instances" {
			return 0, fmt.Errorf("%s: asked for the wrong disk", path)
		}
		return 500<<30 + 12345, nil
	}}
}

// plain is the settings of a host where nothing is configured.
func plain() Settings {
	return Settings{Cell: "cell1", Host: config.Host{
		ServiceHost: "compute1", NodeName: "compute1.example", DiskPath: "/var/lib/nova/instances",
		ReservedMemoryMB: 512, CPURatio: 4, MemoryRatio: 1, DiskRatio: 1, HypervisorType: "QEMU",
	}}
}

const hostUUID = "c0a80101-0000-4000-8000-000000000001"

// report reads a machine of testdata and evaluates it.
func report(t testing.TB, files fs.FS, s Settings, instances ...Instance) (*Report, error) {
	t.Helper()
	r := reader(t, files)
	return Read(hostUUID, Config{Settings: s, Instances: list(instances)}, r.Read)
}

// list is Instances that do not change.
type list []Instance

func (l list) List() ([]Instance, error) { return l, nil }
