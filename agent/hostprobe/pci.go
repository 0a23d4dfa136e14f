package hostprobe

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"cellgate/internal/config"
)

// device is a PCI device. Numbers are texts as in Nova: hexadecimal in lower case.
type device struct {
	address         string
	vendor, product string
	// node is the NUMA node; nil if the kernel does not know it.
	node *int64
	kind string
	// parent is the address of a virtual function's physical function.
	parent string
	// parentInterface is the network interface of parent, if a virtual function has an interface
	// itself.
	parentInterface string
}

// The kinds of devices, as Nova names them.
const (
	standardDevice   = "type-PCI"
	physicalFunction = "type-PF"
	virtualFunction  = "type-VF"
	vdpaDevice       = "vdpa"
)

const pciFolder = "sys/bus/pci/devices"

// pciAddress is an address that Nova can parse: it ignores devices of a domain above ffff (nova/pci/manager.py).
var pciAddress = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

// readDevices reads all PCI devices in the order of their addresses. It skips a device that is removed
// meanwhile.
func (r *Reader) readDevices(m *Machine) error {
	names, err := r.list(pciFolder)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !pciAddress.MatchString(name) {
			continue
		}
		d, err := r.readDevice(name)
		if errors.Is(err, fs.ErrNotExist) && !r.has(pciFolder+"/"+name) {
			continue
		}
		if err != nil {
			return err
		}
		m.devices = append(m.devices, d)
	}
	return nil
}

func (r *Reader) readDevice(address string) (d device, err error) {
	folder := pciFolder + "/" + address
	d = device{address: address, kind: standardDevice}
	for name, to := range map[string]*string{"vendor": &d.vendor, "device": &d.product} {
		text, err := r.text(folder + "/" + name)
		if err != nil {
			return d, err
		}
		var ok bool
		if *to, ok = parsePCIID(text); !ok {
			return d, fmt.Errorf("/%s/%s: %.40q is no PCI id", folder, name, text)
		}
	}
	node := int64(-1)
	if err := r.optional(&node, folder+"/numa_node", parseNode); err != nil {
		return d, err
	}
	if node >= 0 {
		d.node = &node
	}
	var functions int64
	if err := r.optional(&functions, folder+"/sriov_totalvfs", parseAmount); err != nil {
		return d, err
	}
	if d.parent, err = r.link(folder + "/physfn"); err != nil {
		return d, err
	}
	switch {
	case d.parent != "":
		d.kind = virtualFunction
		return d, r.readFunction(&d)
	case functions > 0:
		d.kind = physicalFunction
	}
	return d, nil
}

// readFunction reads the attributes that only a virtual function has.
func (r *Reader) readFunction(d *device) error {
	folder := pciFolder + "/" + d.address
	names, err := r.list(folder)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(names, func(name string) bool { return vdpaName.MatchString(name) }) {
		d.kind = vdpaDevice
	}
	own, err := r.list(folder + "/net")
	if err != nil || len(own) == 0 {
		return err
	}
	of, err := r.list(pciFolder + "/" + d.parent + "/net")
	if err != nil {
		return err
	}
	// A switch's representors are listed there, too: among several it is unknown which one is the
	// parent's.
	if len(of) == 1 {
		d.parentInterface = of[0]
	}
	return nil
}

var vdpaName = regexp.MustCompile(`^vdpa[0-9]+$`)

// readInterfaces reads the PCI addresses of the network interfaces that device specs name.
func (r *Reader) readInterfaces(m *Machine, specs []config.PCIDevice) error {
	m.interfaces = map[string]string{}
	for _, s := range specs {
		if s.DevName == "" {
			continue
		}
		address, err := r.link("sys/class/net/" + s.DevName + "/device")
		if err != nil {
			return err
		}
		if pciAddress.MatchString(address) {
			m.interfaces[s.DevName] = address
		}
	}
	return nil
}

// parsePCIID parses "0x8086".
func parsePCIID(text string) (id string, ok bool) {
	id, ok = strings.CutPrefix(text, "0x")
	if !ok || len(id) != 4 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", false
	}
	return id, true
}

// parseNode parses the number of a NUMA node; -1 means unknown.
func parseNode(text string) (int64, error) {
	if text == "-1" {
		return -1, nil
	}
	return parseAmount(text)
}
