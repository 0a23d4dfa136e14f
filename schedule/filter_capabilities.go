package schedule

import (
	"strings"

	"cellgate/internal/python"
)

// CapabilitiesFilter compares extra specs with a host's capabilities (filters/compute_capabilities_filter.py): specs
// of the scope capabilities, and specs without a scope that name an attribute or stat of the host.
// hw:maxphysaddr_bits requires at least that many bits in cpu_info.
const CapabilitiesFilter = "ComputeCapabilitiesFilter"

// capability is an extra spec that the filter reads.
type capability struct {
	path []string
	want operator
	// bare: the spec has no scope; a host without the attribute or stat then passes.
	bare bool
}

func (s *scan) capabilitiesFilter() {
	var shared, own []capability
	for _, spec := range s.nova.Flavor.ExtraSpecs {
		c, ok := s.readCapability(spec)
		switch {
		case !ok:
		case ofPlatform(c.path[0]) && s.t.names.stats.id(c.path[0]) < 0 && !s.options.StrictNova:
			shared = append(shared, c)
		default:
			own = append(own, c)
		}
	}
	if len(shared) > 0 {
		s.perPlatform(CapabilitiesFilter, func(r *row) (bool, *python.Exception) { return r.capable(shared) })
	}
	if len(own) > 0 {
		s.oncePerHost(CapabilitiesFilter, func(r *row) (bool, *python.Exception) { return r.capable(own) })
	}
}

// readCapability parses a spec; false for specs that the filter ignores.
func (s *scan) readCapability(spec Pair) (capability, bool) {
	if spec.Key == "hw:maxphysaddr_bits" {
		return capability{path: []string{"cpu_info", "maxphysaddr", "bits"}, want: readOperator(">= " + spec.Value)}, true
	}
	c := capability{path: strings.Split(spec.Key, ":"), want: readOperator(spec.Value)}
	if len(c.path) == 1 {
		c.bare = true
		return c, HostAttribute(spec.Key) || s.t.names.stats.id(spec.Key) >= 0
	}
	scope := c.path[0]
	c.path = c.path[1:]
	return c, scope == "capabilities"
}

func (r *row) capable(of []capability) (bool, *python.Exception) {
	for i := range of {
		c := &of[i]
		if c.bare {
			if _, ok := r.attribute(c.path[0]); !ok {
				if _, ok := r.stat(c.path[0]); !ok {
					continue
				}
			}
		}
		v := r.capability(c.path)
		if v.Kind == python.KindNone {
			return false, nil
		}
		if ok, err := c.want.matchValue(&v); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// capability follows a path: an attribute of the host, or else of its stats, then keys of that value, which may be
// JSON text.
func (r *row) capability(path []string) python.Value {
	v, _ := r.attribute(path[0])
	if v.Kind == python.KindNone {
		v, _ = r.stat(path[0])
	}
	if len(path) > 1 && path[0] == "service" {
		return python.Value{} // Only JsonFilter sees it as a dictionary.
	}
	for i, key := range path[1:] {
		if v.Kind == python.KindText {
			if i == 0 && path[0] == "cpu_info" && r.host.Facts != nil {
				v = r.host.Facts.cpuInfo // Parsed once, not for every request.
			} else {
				v, _ = python.ParseJSON(v.Text)
			}
		}
		if v.Kind != python.KindDict {
			return python.Value{}
		}
		v = v.Dict.Get(key)
	}
	return v
}

// matchValue is match with the value's text, but does not format numbers.
func (o *operator) matchValue(v *python.Value) (bool, *python.Exception) {
	if n, ok := v.Number(); ok && v.Kind != python.KindBool && o.isNumber {
		return o.holds(n), nil
	}
	return o.match(v.String())
}
