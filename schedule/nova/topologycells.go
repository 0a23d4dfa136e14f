package nova

import (
	"fmt"
	"strconv"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule"
)

// guestCell is a NUMA node as a flavor or an image describes it.
type guestCell struct {
	cpus   cpuSet
	memory int64
}

// cellLists are the CPUs and the memory (MiB) of NUMA nodes, by node; nil if not given.
type cellLists struct {
	cpus   []cpuSet
	memory []int64
}

const (
	numaCPUs = "numa_cpus"
	numaMem  = "numa_mem"
	// maxNodeKeys bounds the node numbers whose keys Nova reads (NUMA_NODES_MAX).
	maxNodeKeys = 128
)

// imageCells reads hw_numa_cpus.N and hw_numa_mem.N, from N = 0 to the first that is missing. Nova reads them even if
// it makes no topology.
func (g *guest) imageCells() cellLists {
	return g.cellLists(g.spec.Path+".image.properties", "hw_", g.spec.ImageProperties)
}

func (g *guest) cellLists(path, prefix string, pairs map[string]string) (l cellLists) {
	for node := range maxNodeKeys {
		key := prefix + numaCPUs + "." + strconv.Itoa(node)
		spec, ok := pairs[key]
		if !ok {
			break
		}
		cpus, problem := cpuSpec(spec, min(g.spec.Flavor.VCPUs, maxGuestCPUs), false)
		if problem != "" {
			g.invalid(at(path, key), "%s", problem)
		}
		l.cpus = append(l.cpus, cpus)
	}
	for node := range maxNodeKeys {
		key := prefix + numaMem + "." + strconv.Itoa(node)
		text, ok := pairs[key]
		if !ok {
			break
		}
		n, ok := python.Int(text)
		problem := amountProblem(n)
		if !ok {
			problem = fmt.Sprintf("must be a number of MiB, not %q", shorten(text))
		}
		if problem != "" {
			g.invalid(at(path, key), "%s", problem)
		}
		l.memory = append(l.memory, n)
	}
	return l
}

// cells spreads CPUs and memory over the NUMA nodes: evenly, or as the flavor or the image describes each node
// (_get_numa_topology_auto, _get_numa_topology_manual). Nil if the description is wrong.
func (g *guest) cells(nodes int64, image cellLists) []guestCell {
	before := len(g.paths)
	lists := g.cellLists(g.spec.Path+".flavor.extra_specs", "hw:", g.spec.Flavor.ExtraSpecs)
	switch {
	case lists.cpus != nil && image.cpus != nil:
		g.invalid(g.extraSpec("hw:"+numaCPUs+".0"), "is there, and the image has hw_numa_cpus too")
	case lists.cpus == nil:
		lists.cpus = image.cpus
	}
	switch {
	case lists.memory != nil && image.memory != nil:
		g.invalid(g.extraSpec("hw:"+numaMem+".0"), "is there, and the image has hw_numa_mem too")
	case lists.memory == nil:
		lists.memory = image.memory
	}
	var cells []guestCell
	if lists.cpus == nil && lists.memory == nil {
		cells = g.evenly(nodes)
	} else {
		cells = g.asListed(nodes, lists)
	}
	if len(g.paths) > before {
		return nil
	}
	return cells
}

func (g *guest) evenly(nodes int64) (cells []guestCell) {
	f := &g.spec.Flavor
	if f.VCPUs%nodes != 0 || f.MemoryMB%nodes != 0 {
		g.invalid(g.at("hw:numa_nodes", "hw_numa_nodes"), "is %d: neither CPUs nor memory of the flavor may be left over", nodes)
		return nil
	}
	each := f.VCPUs / nodes
	for node := range nodes {
		c := guestCell{cpus: cpuSet{}, memory: f.MemoryMB / nodes}
		for cpu := node * each; cpu < (node+1)*each; cpu++ {
			c.cpus[cpu] = true
		}
		cells = append(cells, c)
	}
	return cells
}

func (g *guest) asListed(nodes int64, l cellLists) (cells []guestCell) {
	where := func(what string, node int) string {
		n := "." + strconv.Itoa(node)
		return g.at("hw:"+what+n, "hw_"+what+n)
	}
	if int64(len(l.cpus)) != nodes || int64(len(l.memory)) != nodes {
		g.invalid(where(numaCPUs, 0), "and hw:numa_mem must be there for each NUMA node: %d and %d of %d are", len(l.cpus), len(l.memory), nodes)
		return nil
	}
	f := &g.spec.Flavor
	left, memory := cpuSet{}, int64(0)
	for cpu := range f.VCPUs {
		left[cpu] = true
	}
	for node, cpus := range l.cpus {
		for cpu := range cpus {
			if !left[cpu] {
				g.invalid(where(numaCPUs, node), "has a CPU that another NUMA node has, or that is not one of the flavor's %d", f.VCPUs)
			}
			delete(left, cpu)
		}
		memory += l.memory[node]
		cells = append(cells, guestCell{cpus: cpus, memory: l.memory[node]})
	}
	if len(left) > 0 {
		g.invalid(where(numaCPUs, 0), "leaves CPUs without a NUMA node: every CPU of the flavor must be on one")
	}
	if memory != f.MemoryMB {
		g.invalid(where(numaMem, 0), "and those of the other NUMA nodes are %d MiB, the flavor's memory is %d", memory, f.MemoryMB)
	}
	return cells
}

// cellProperties are the image's lists of NUMA nodes, as Python's str writes them.
func cellProperties(given map[string]string) (out []schedule.Property) {
	list := func(name string, text func(string) string) {
		var parts []string
		for node := range maxNodeKeys {
			v, ok := given[name+"."+strconv.Itoa(node)]
			if !ok {
				break
			}
			parts = append(parts, text(v))
		}
		if parts != nil {
			out = append(out, schedule.Property{Name: name, Text: "[" + strings.Join(parts, ", ") + "]"})
		}
	}
	list("hw_"+numaCPUs, func(spec string) string {
		cpus, _ := cpuSpec(spec, maxGuestCPUs, false) // cellLists refuses a bad one
		if len(cpus) == 0 {
			return "set()"
		}
		var all []string
		for cpu := range int64(maxGuestCPUs) {
			if cpus[cpu] {
				all = append(all, strconv.FormatInt(cpu, 10))
			}
		}
		return "{" + strings.Join(all, ", ") + "}"
	})
	list("hw_"+numaMem, func(text string) string {
		n, _ := python.Int(text) // as above
		return strconv.FormatInt(n, 10)
	})
	return out
}
