package schedule

import (
	"strconv"

	"cellgate/internal/python"
)

// ImageFilter keeps hosts that can run the image. They advertise its architecture, hypervisor and mode together, in a
// version that it accepts, and have enough physical address bits (filters/image_props_filter.py).
const ImageFilter = "ImagePropertiesFilter"

func (s *scan) imageFilter() {
	need, err := s.imageNeeds()
	if err == nil && need == nil {
		return
	}
	s.perPlatform(ImageFilter, func(r *row) (bool, *python.Exception) {
		if err != nil {
			return false, err
		}
		return need.met(r)
	})
}

// imageNeeds are the requirements of an image. Empty names match anything.
type imageNeeds struct {
	names   [3]string // architecture, hypervisor, mode
	version []versionBound
	// bad is the exception of an invalid version; raised only when the version is compared.
	bad  *python.Exception
	bits int64
}

// imageNeeds is nil if the image requires nothing.
func (s *scan) imageNeeds() (*imageNeeds, *python.Exception) {
	n := &imageNeeds{}
	asked := [3]string{s.options.DefaultArchitecture}
	for i, name := range []string{"hw_architecture", "img_hv_type", "hw_vm_mode"} {
		if p := s.nova.property(name); p != nil {
			asked[i] = p.Text
		}
	}
	for i, canonical := range []func(string) (string, bool){Architecture, HypervisorType, VMMode} {
		if asked[i] == "" {
			continue
		}
		known, ok := canonical(asked[i])
		if !ok {
			class := []string{"InvalidArchitectureName", "InvalidHypervisorVirtType", "InvalidVirtualMachineMode"}[i]
			return nil, python.NewException(class, strconv.Quote(asked[i])+" is not valid")
		}
		n.names[i] = known
	}
	if p := s.nova.property("img_hv_requested_version"); p != nil && p.Text != "" {
		n.version, n.bad = readVersionBounds(p.Text)
	}
	if p := s.nova.property("hw_maxphysaddr_bits"); p != nil {
		n.bits, _ = python.Int(p.Text)
	}
	if n.names == [3]string{} && n.bits == 0 {
		return nil, nil
	}
	return n, nil
}

func (n *imageNeeds) met(r *row) (bool, *python.Exception) {
	if n.bits > 0 && !r.addresses(n.bits) {
		return false, nil
	}
	if n.names == [3]string{} {
		return true, nil
	}
	f := r.host.Facts
	if f == nil || f.Unfilled {
		return false, nil
	}
	for i := range f.supported {
		if !n.fits(&f.supported[i]) {
			continue
		}
		if version := r.view.HypervisorVersion; version != 0 && (n.bad != nil || len(n.version) > 0) {
			if n.bad != nil {
				return false, n.bad
			}
			if ok, err := inBounds(versionText(version), n.version); !ok || err != nil {
				if err != nil {
					return false, err
				}
				continue
			}
		}
		return true, nil
	}
	return false, nil
}

// fits reports whether every requested name is in one supported triple, at any position.
func (n *imageNeeds) fits(supported *[3]string) bool {
	for _, w := range n.names {
		if w != "" && w != supported[0] && w != supported[1] && w != supported[2] {
			return false
		}
	}
	return true
}

// addresses reports whether a host has this many physical address bits. A host that does not report them passes.
func (r *row) addresses(bits int64) bool {
	if r.host.Facts == nil {
		return true
	}
	v := r.capability([]string{"cpu_info", "maxphysaddr", "bits"})
	has, ok := v.Number()
	return !ok || float64(bits) <= has
}
