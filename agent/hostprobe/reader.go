package hostprobe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
)

// Reader reads a machine.
type Reader struct {
	// FS has /proc and /sys, without the leading slash.
	FS fs.FS
	// Arch is Nova's name of the architecture, for kernels without proc/sys/kernel/arch.
	Arch string
	// PageKB is the size of a memory page.
	PageKB int64
	// Disk gives the size, in bytes, of the file system that has a directory.
	Disk func(path string) (int64, error)
	// Use gives what the file system that has a directory has available, and what the directories in
	// that one take that are named as instances.
	Use func(path string) (DiskUse, error)
}

// ThisMachine reads the machine that the process runs on.
func ThisMachine() Reader {
	return Reader{FS: os.DirFS("/"), Arch: archNames[runtime.GOARCH], PageKB: int64(os.Getpagesize()) >> 10, Disk: diskSize, Use: diskUse}
}

// archNames are Nova's names of Go's architectures.
var archNames = map[string]string{
	"amd64": "x86_64", "386": "i686", "arm64": "aarch64", "arm": "armv7l", "ppc64": "ppc64", "ppc64le": "ppc64le",
	"s390x": "s390x", "riscv64": "riscv64", "loong64": "loongarch64",
}

// Machine is what was read of a machine at one time.
type Machine struct {
	arch string
	info cpuInfo
	cpus []cpu
	// online are the numbers of cpus.
	online   cpuSet
	memoryKB int64
	nodes    []node
	// kvm: the kernel can run guests with hardware support.
	kvm     bool
	devices []device
	// interfaces are the PCI addresses of network interfaces, by name.
	interfaces map[string]string
	diskBytes  int64
	// diskUse is nil when it was not read.
	diskUse *DiskUse
}

// errNotInstancesPath: what instances use would be taken for something else.
var errNotInstancesPath = errors.New("it is not empty, and has no directory of an instance and nothing else that nova-compute makes")

// Read reads those parts of the machine that the settings use. Its error names everything
// that could not be read.
func (r *Reader) Read(s *Settings) (*Machine, error) {
	m := &Machine{arch: r.Arch}
	var errs []error
	try := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if arch, err := r.text("proc/sys/kernel/arch"); err == nil && arch != "" {
		m.arch = arch
	}
	info, err := r.text("proc/cpuinfo")
	try(err)
	m.info = parseCPUInfo(info)
	try(r.readCPUs(m))
	try(r.into(&m.memoryKB, "proc/meminfo", parseMemTotal))
	if len(errs) == 0 { // what they say is needed
		try(r.readNodes(m))
	}
	m.kvm = r.has("sys/class/misc/kvm") || r.has("dev/kvm")
	if len(s.PCIDevices) > 0 {
		try(r.readDevices(m))
		try(r.readInterfaces(m, s.PCIDevices))
	}
	if s.DiskPath != "" {
		if m.diskBytes, err = r.Disk(s.DiskPath); err != nil {
			try(fmt.Errorf("agent.host.disk_path: %w; name a directory on the disk of the instances, or none", err))
		}
		if s.ReserveUsedDisk && err == nil {
			use, err := r.Use(s.DiskPath)
			switch {
			case err == nil:
				m.diskUse = &use
			case errors.Is(err, errNotInstancesPath):
				try(fmt.Errorf("agent.host.reserve_used_disk: agent.host.disk_path %s is not Nova's instances_path: %w; name that one, or turn it off", s.DiskPath, err))
			default:
				try(fmt.Errorf("agent.host.reserve_used_disk: %w; let the agent read disk_path, Nova's instances_path, or turn it off", err))
			}
		}
	}
	return m, errors.Join(errs...)
}

// text reads a file; white space around it is cut.
func (r *Reader) text(name string) (string, error) {
	b, err := fs.ReadFile(r.FS, name)
	if err != nil {
		return "", withWholePath(err)
	}
	return strings.TrimSpace(string(b)), nil
}

// has reports whether there is a file, of whatever kind.
func (r *Reader) has(name string) bool {
	_, err := fs.Lstat(r.FS, name)
	return err == nil
}

// into parses a file into a number.
func (r *Reader) into(to *int64, name string, parse func(string) (int64, error)) error {
	text, err := r.text(name)
	if err != nil {
		return err
	}
	if *to, err = parse(text); err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	return nil
}

// optional does as into; a missing file leaves the number unchanged.
func (r *Reader) optional(to *int64, name string, parse func(string) (int64, error)) error {
	err := r.into(to, name, parse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list gives the names in a directory; none when it is not there.
func (r *Reader) list(dir string) ([]string, error) {
	entries, err := fs.ReadDir(r.FS, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, withWholePath(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// link gives the last part of where a link leads; empty when there is none.
func (r *Reader) link(name string) (string, error) {
	to, err := fs.ReadLink(r.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", withWholePath(err)
	}
	return path.Base(to), nil
}

// withWholePath gives an error of a file with its whole path.
func withWholePath(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return &fs.PathError{Op: cmp.Or(p.Op, "read"), Path: "/" + strings.TrimPrefix(p.Path, "/"), Err: p.Err}
	}
	return err
}
