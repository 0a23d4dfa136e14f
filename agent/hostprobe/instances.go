package hostprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"cellgate/internal/rpc"
)

// Instances lists the instances that exist on the host.
type Instances interface {
	// List returns the present instances, each once, with uuids in lower case.
	List() ([]Instance, error)
}

// Instance is one instance and the resources of the host that it has.
type Instance struct {
	UUID      string `json:"instance_uuid"`
	ProjectID string `json:"project_id"`
	UserID    string `json:"user_id"`
	// Resources are amounts by class, of the host's root provider.
	Resources map[string]int32 `json:"resources"`
	// NUMA is empty for an instance without a NUMA topology.
	NUMA []InstanceNode `json:"numa"`
	// PCIDevices are the addresses of the instance's devices.
	PCIDevices []string `json:"pci_devices"`
}

// InstanceNode is an instance's part of one NUMA node.
type InstanceNode struct {
	Node int `json:"node"`
	// CPUs is the number of its virtual CPUs there, including dedicated ones. PinnedCPUs are the host's
	// CPUs that it has for itself.
	CPUs       int   `json:"cpus"`
	PinnedCPUs []int `json:"pinned_cpus"`
	MemoryMB   int64 `json:"memory_mb"`
	// PageSizeKB is the size of its memory pages; 0 if it asked for none.
	PageSizeKB int64 `json:"page_size_kb"`
}

// Directory is a directory with a file UUID.json for each instance, whose object has the fields of
// Instance. Uuids may be in letters of either case. Files whose names begin with a dot are ignored:
// writers should write such a file and rename it.
type Directory struct {
	FS   fs.FS
	Path string
}

// maxInstances is how many instances a cell accepts of a host; maxInstanceFile bounds a file, in bytes.
const (
	maxInstances    = 10000
	maxInstanceFile = 1 << 20
)

// List reads all files. Its error names each invalid file.
func (d Directory) List() ([]Instance, error) {
	entries, err := fs.ReadDir(d.FS, d.Path)
	if err != nil {
		return nil, fmt.Errorf("agent.host.instances_dir: %w", withWholePath(err))
	}
	var all []Instance
	var errs []error
	files := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		i, err := d.read(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file was removed meanwhile
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("agent.host.instances_dir: /%s: %w", path.Join(d.Path, e.Name()), err))
			continue
		}
		if other, is := files[i.UUID]; is {
			errs = append(errs, fmt.Errorf("agent.host.instances_dir: /%s and %s are of one instance, %s: remove one of them", path.Join(d.Path, other), e.Name(), i.UUID))
			continue
		}
		files[i.UUID] = e.Name()
		all = append(all, *i)
	}
	if len(all) > maxInstances {
		errs = append(errs, fmt.Errorf("agent.host.instances_dir: /%s: %d instances, more than %d", d.Path, len(all), maxInstances))
	}
	return all, errors.Join(errs...)
}

func (d Directory) read(name string) (*Instance, error) {
	uuid, ok := strings.CutSuffix(name, ".json")
	if !ok || !rpc.IsUUID(uuid) {
		return nil, errors.New("the file's name is not UUID.json")
	}
	f, err := d.FS.Open(path.Join(d.Path, name))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxInstanceFile+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxInstanceFile {
		return nil, fmt.Errorf("is larger than %d bytes", maxInstanceFile)
	}
	i, err := parseInstance(text)
	if err == nil && i.UUID != strings.ToLower(uuid) {
		err = fmt.Errorf("instance_uuid is %q, not that of the file's name", i.UUID)
	}
	return i, err
}

// parseInstance parses one instance and checks it on its own. The uuid becomes lower case.
func parseInstance(text []byte) (*Instance, error) {
	var i Instance
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&i); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the object")
	}
	if !rpc.IsUUID(i.UUID) {
		return nil, fmt.Errorf("instance_uuid: %q is not a uuid", i.UUID)
	}
	i.UUID = strings.ToLower(i.UUID)
	if len(i.ProjectID) > 255 || len(i.UserID) > 255 {
		return nil, errors.New("project_id, user_id: longer than 255 bytes")
	}
	for class, amount := range i.Resources {
		if !traitName.MatchString(class) || amount < 1 {
			return nil, fmt.Errorf("resources: %q: %d is not an amount above 0 of a resource class", class, amount)
		}
	}
	seen := map[int]bool{}
	for n, c := range i.NUMA {
		at := fmt.Sprintf("numa[%d]", n)
		switch {
		case c.Node < 0 || c.CPUs < 0 || c.MemoryMB < 0 || c.PageSizeKB < 0:
			return nil, fmt.Errorf("%s: a number is below 0", at)
		case c.MemoryMB > math.MaxInt32 || c.CPUs > maxCPU || c.PageSizeKB > maxAmount:
			return nil, fmt.Errorf("%s: a number is too large", at)
		case seen[c.Node]:
			return nil, fmt.Errorf("%s: node %d stands there already", at, c.Node)
		case c.PageSizeKB > 0 && c.MemoryMB<<10%c.PageSizeKB != 0:
			return nil, fmt.Errorf("%s: %d MiB are not a whole number of pages of %d KiB", at, c.MemoryMB, c.PageSizeKB)
		case len(c.PinnedCPUs) > c.CPUs:
			return nil, fmt.Errorf("%s: %d pinned_cpus for %d cpus", at, len(c.PinnedCPUs), c.CPUs)
		}
		seen[c.Node] = true
	}
	for n, a := range i.PCIDevices {
		if !pciAddress.MatchString(a) {
			return nil, fmt.Errorf("pci_devices[%d]: %q is no PCI address in lower case", n, a)
		}
		if slices.Index(i.PCIDevices, a) != n {
			return nil, fmt.Errorf("pci_devices[%d]: %s stands there already", n, a)
		}
	}
	return &i, nil
}
