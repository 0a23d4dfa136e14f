package hostprobe

import (
	"fmt"
	"maps"
	"slices"

	"cellgate/agent"
)

// pool is a set of devices that are equal in everything that a request can ask for.
type pool struct {
	vendor, product string
	node            *int64
	// tags include the kind of the devices, as in Nova's column.
	tags  map[string]string
	count int
}

// pools groups the configured devices that are free: no instance has the device, one of its functions,
// or its physical function. unmatched are the indexes of the specs that match no device.
func (m *Machine) pools(specs []spec, taken map[string]bool) (all []pool, unmatched []int) {
	busy := map[string]bool{}
	for _, d := range m.devices {
		if taken[d.address] && d.parent != "" {
			busy[d.parent] = true
		}
	}
	used := make([]bool, len(specs))
	where := map[string]int{}
	for i := range m.devices {
		d := &m.devices[i]
		at := slices.IndexFunc(specs, func(s spec) bool { return s.matches(m, d) })
		if at < 0 {
			continue
		}
		used[at] = true
		if taken[d.address] || busy[d.address] || taken[d.parent] {
			continue
		}
		p := pool{vendor: d.vendor, product: d.product, node: d.node, tags: tagsOf(d, &specs[at]), count: 1}
		key := p.key()
		if was, there := where[key]; there {
			all[was].count++
			continue
		}
		where[key] = len(all)
		all = append(all, p)
	}
	for i := range specs {
		if !used[i] {
			unmatched = append(unmatched, i)
		}
	}
	return all, unmatched
}

// tagsOf are the tags of a pool with the device (nova/pci/stats.py,
// _create_pool_keys_from_dev).
func tagsOf(d *device, s *spec) map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, s.tags)
	tags["dev_type"] = d.kind
	if d.parentInterface != "" {
		tags["parent_ifname"] = d.parentInterface
	}
	if d.kind != standardDevice {
		tags["remote_managed"] = "false"
	}
	return tags
}

// key is equal for equal pools.
func (p *pool) key() string {
	node := "none"
	if p.node != nil {
		node = fmt.Sprint(*p.node)
	}
	return fmt.Sprintf("%s %s %s %q", p.vendor, p.product, node, p.tagList())
}

// tagList is the tags as name=value, sorted.
func (p *pool) tagList() []string {
	var all []string
	for _, tag := range slices.Sorted(maps.Keys(p.tags)) {
		all = append(all, tag+"="+p.tags[tag])
	}
	return all
}

// poolText is the column pci_stats.
func poolText(pools []pool) string {
	objects := make([]any, len(pools))
	for i, p := range pools {
		objects[i] = agent.NovaObject("PciDevicePool", "1.1", map[string]any{
			"vendor_id": p.vendor, "product_id": p.product, "numa_node": p.node, "tags": p.tags, "count": p.count,
		})
	}
	return agent.JSONText(agent.NovaObject("PciDevicePoolList", "1.1", map[string]any{"objects": objects}))
}
