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
	// Arch is Nova's name of the architecture. It is used if the kernel has no proc/sys/kernel/arch.
	Arch string
	// PageKB is the size of a memory page.
	PageKB int64
	// Disk returns the size, in bytes, of the file system of a directory.
	Disk func(path string) (int64, error)
	// Use returns the available space of the file system of a directory, and the space used by the
	// directories in it that are named like instances.
	Use func(path string) (DiskUse, error)
}

// ThisMachine returns a Reader of the machine that the process runs on.
func ThisMachine() Reader {
	return Reader{FS: os.DirFS("/"), Arch: archNames[runtime.GOARCH], PageKB: int64(os.Getpagesize()) >> 10, Disk: diskSize, Use: diskUse}
}

// archNames maps Go's names of architectures to Nova's.
var archNames = map[string]string{
	"amd64": "x86_64", "386": "i686", "arm64": "aarch64", "arm": "armv7l", "ppc64": "ppc64", "ppc64le": "ppc64le",
	"s390x": "s390x", "riscv64": "riscv64", "loong64": "loongarch64",
}

// Machine is what a Reader read of a machine at one time.
type Machine struct {
	arch string
	info cpuInfo
	cpus []cpu
	// online are the numbers of cpus.
	online   cpuSet
	memoryKB int64
	nodes    []node
	// kvm: the kernel can run guests with hardware virtualization.
	kvm     bool
	devices []device
	// interfaces are the PCI addresses of network interfaces, by name.
	interfaces map[string]string
	diskBytes  int64
	// diskUse is nil if it was not read.
	diskUse *DiskUse
}

// errNotInstancesPath: in such a directory, the use of instances would be taken for other use.
var errNotInstancesPath = errors.New("it is not empty, and has no directory of an instance and nothing else that nova-compute makes")

// Read reads those parts of the machine that the settings use. Its error names every part that could
// not be read.
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
	if len(errs) == 0 { // readNodes needs the CPUs and the memory
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

// text reads a file and trims white space.
func (r *Reader) text(name string) (string, error) {
	b, err := fs.ReadFile(r.FS, name)
	if err != nil {
		return "", withWholePath(err)
	}
	return strings.TrimSpace(string(b)), nil
}

// has reports whether a file of any kind exists.
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

// optional is into for a file that may be missing: then the number stays unchanged.
func (r *Reader) optional(to *int64, name string, parse func(string) (int64, error)) error {
	err := r.into(to, name, parse)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// list returns the names in a directory; none if it does not exist.
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

// link returns the last element of a symbolic link's target; "" if the link does not exist.
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

// withWholePath completes the path in a file's error.
func withWholePath(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return &fs.PathError{Op: cmp.Or(p.Op, "read"), Path: "/" + strings.TrimPrefix(p.Path, "/"), Err: p.Err}
	}
	return err
}
