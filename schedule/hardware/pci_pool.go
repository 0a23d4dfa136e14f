package hardware

import (
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/python"
)

// pciPool is what the devices of a pool have in common (nova/pci/stats.py).
type pciPool struct {
	// properties have lower-case values; None where the value is None in Nova.
	properties []PCIProperty
	node       int64
	hasNode    bool
	// kind is the type of device. Devices of type-PF and vdpa, and remotely managed ones, are only given to requests
	// for them.
	kind   string
	remote bool
	// provider is the uuid of the devices' provider in Placement; empty for none.
	provider string
}

const (
	pciNode   = "numa_node"
	pciCount  = "count"
	pciType   = "dev_type"
	pciRemote = "remote_managed"
	// pciProvider is the uuid of the devices' provider in Placement.
	pciProvider = "rp_uuid"

	physicalFunction = "type-PF"
	vdpaDevice       = "vdpa"
)

// readPools parses a serialized PciDevicePoolList, or the older list of dictionaries. Pools are in the order in which
// Nova tries them: by the number of their properties.
func readPools(text string) (pools []pciPool, free []int64, problem string) {
	v, err := python.ParseJSON(text)
	if err != nil {
		return nil, nil, "" // Text that is not JSON has no pools, in Nova as well.
	}
	objects := []python.Value{v}
	if v.Kind == python.KindList {
		objects = v.List
	} else if d, ok := dataOf(&v); ok {
		objects = d.Get("objects").List
	} else if !v.Truth() {
		return nil, nil, ""
	}
	type one struct {
		pool pciPool
		free int64
		size int
	}
	var all []one
	for i := range objects {
		var x one
		if x.pool, x.free, problem = readPool(&objects[i]); problem != "" {
			return nil, nil, "[" + strconv.Itoa(i) + "]: " + problem
		}
		x.size = len(x.pool.properties)
		all = append(all, x)
	}
	slices.SortStableFunc(all, func(a, b one) int { return a.size - b.size })
	for _, x := range all {
		pools, free = append(pools, x.pool), append(free, x.free)
	}
	return pools, free, ""
}

func readPool(v *python.Value) (p pciPool, free int64, problem string) {
	d, isObject := dataOf(v)
	if !isObject {
		if v.Kind != python.KindDict {
			return p, 0, "must be an object"
		}
		d = v.Dict
	}
	add := func(key string, v python.Value) bool {
		x := PCIProperty{Key: key, None: v.Kind == python.KindNone}
		if !x.None {
			x.Value = strings.ToLower(v.String())
		}
		if was := p.property(key); was != nil {
			*was = x
		} else {
			p.properties = append(p.properties, x)
		}
		return v.Kind <= python.KindText
	}
	for key, v := range d.All() {
		switch key {
		case pciCount, pciNode:
		case "tags":
			for tag, x := range tagsOf(&v).All() {
				if !add(tag, x) {
					return p, 0, "tags: " + tag + " must be text"
				}
			}
		default:
			if !add(key, v) {
				return p, 0, key + " must be text"
			}
		}
	}
	for _, key := range []string{"vendor_id", "product_id"} {
		if p.property(key) == nil {
			return p, 0, key + " is missing"
		}
	}
	var ok bool
	if free, ok = small(d, pciCount); !ok {
		return p, 0, "count must be an integer"
	}
	if p.node, p.hasNode = small(d, pciNode); !p.hasNode && d.Get(pciNode).Kind != python.KindNone {
		return p, 0, "numa_node must be an integer"
	}
	p.kind = p.text(d, pciType)
	if provider := p.property(pciProvider); provider != nil {
		p.provider = provider.Value
	}
	if remote := p.property(pciRemote); remote != nil {
		p.remote = boolFromString(remote.Value)
	}
	return p, free, ""
}

// tagsOf gives a pool's tags.
func tagsOf(v *python.Value) *python.Dict {
	if v.Kind != python.KindDict {
		return &python.Dict{}
	}
	return v.Dict
}

// text gives a property without change of case.
func (p *pciPool) text(d *python.Dict, key string) string {
	tags := d.Get("tags")
	if v, ok := tagsOf(&tags).Lookup(key); ok {
		return v.Text
	}
	return d.Get(key).Text
}

// boolFromString is oslo.utils' bool_from_string of a text in lower case.
func boolFromString(s string) bool {
	return slices.Contains([]string{"1", "t", "true", "on", "y", "yes"}, python.Strip(s))
}

// matches reports whether the pool's devices meet one of the specs.
func (p *pciPool) matches(specs []PCISpec) bool {
	return slices.ContainsFunc(specs, func(spec PCISpec) bool {
		for i := range spec {
			if !p.has(&spec[i]) {
				return false
			}
		}
		return true
	})
}

func (p *pciPool) has(want *PCIProperty) bool {
	switch want.Key {
	case pciNode:
		return want.None && !p.hasNode // Nova compares a number with text, which are never equal.
	case pciCount:
		return false
	}
	got := p.property(want.Key)
	if got == nil || got.None {
		return want.None
	}
	return !want.None && (got.Value == want.Value || strings.EqualFold(got.Value, want.Value))
}

// property gives the pool's property of a key; nil for none.
func (p *pciPool) property(key string) *PCIProperty {
	for i := range p.properties {
		if p.properties[i].Key == key {
			return &p.properties[i]
		}
	}
	return nil
}

// given counts the pool's devices that Placement gave to a request.
func (p *pciPool) given(r *PCIRequest) (n int64) {
	for _, id := range r.Providers {
		if id == p.provider {
			n++
		}
	}
	return n
}

// splitProvider reports whether the devices of some provider are in several pools.
func splitProvider(pools []pciPool) bool {
	seen := map[string]bool{}
	return slices.ContainsFunc(pools, func(p pciPool) bool {
		again := p.provider != "" && seen[p.provider]
		seen[p.provider] = true
		return again
	})
}

// asksFor reports whether a spec names the kind of device.
func (r *PCIRequest) asksFor(kind string) bool {
	return slices.ContainsFunc(r.Specs, func(spec PCISpec) bool {
		return slices.ContainsFunc(spec, func(p PCIProperty) bool { return p.Key == pciType && p.Value == kind && !p.None })
	})
}

// AsksRemoteManaged reports whether a spec asks for remotely managed devices of a SmartNIC.
func (r *PCIRequest) AsksRemoteManaged() bool {
	return slices.ContainsFunc(r.Specs, func(spec PCISpec) bool {
		return slices.ContainsFunc(spec, func(p PCIProperty) bool {
			return p.Key == pciRemote && boolFromString(strings.ToLower(p.Value))
		})
	})
}

// freeAt counts the free devices of a NUMA cell.
func (hw *Host) freeAt(cell int64) (n int64) {
	for i := range hw.pools {
		if p := &hw.pools[i]; p.hasNode && p.node == cell {
			n += hw.free[i]
		}
	}
	return n
}
