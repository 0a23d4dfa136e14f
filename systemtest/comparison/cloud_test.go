package comparison

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// flavor is what an instance takes.
type flavor struct{ vcpus, memoryMB, diskGB int64 }

func (f flavor) plus(o flavor) flavor {
	return flavor{f.vcpus + o.vcpus, f.memoryMB + o.memoryMB, f.diskGB + o.diskGB}
}

func (f flavor) minus(o flavor) flavor {
	return flavor{f.vcpus - o.vcpus, f.memoryMB - o.memoryMB, f.diskGB - o.diskGB}
}

func (f flavor) fits(o flavor) bool {
	return f.vcpus <= o.vcpus && f.memoryMB <= o.memoryMB && f.diskGB <= o.diskGB
}

var (
	size    = flavor{vcpus: 32, memoryMB: 65536, diskGB: 1000}
	flavors = []flavor{{1, 2048, 20}, {2, 4096, 40}, {4, 8192, 80}, {8, 16384, 160}}
)

// compute is a host with its true state: it decides what runs there.
type compute struct {
	n          int
	uuid, name string
	vcpus      *atomic.Int64 // of the whole cloud

	mu        sync.Mutex
	used      flavor
	instances map[string]flavor
	// local are instances that no scheduler asked for. They change at random.
	local []string
	// onChange is called under mu for every change, in order.
	onChange func(c *compute)
}

// build adds an instance if it fits (Nova's instance_claim).
func (c *compute) build(instance string, f flavor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.used.plus(f).fits(size) {
		return false
	}
	c.put(instance, f)
	c.onChange(c)
	return true
}

func (c *compute) put(instance string, f flavor) {
	c.instances[instance] = f
	c.used = c.used.plus(f)
	c.vcpus.Add(f.vcpus)
}

// remove ends an instance.
func (c *compute) remove(instance string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(instance)
	c.onChange(c)
}

func (c *compute) drop(instance string) {
	c.used = c.used.minus(c.instances[instance])
	c.vcpus.Add(-c.instances[instance].vcpus)
	delete(c.instances, instance)
}

// change adds or removes a local instance, which no scheduler asked for.
func (c *compute) change(r *rand.Rand, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.local); n > 0 && r.IntN(2) == 0 {
		c.drop(c.local[n-1])
		c.local = c.local[:n-1]
	} else if f := flavors[r.IntN(2)]; c.used.plus(f).fits(size) {
		c.put(name, f)
		c.local = append(c.local, name)
	} else {
		return
	}
	c.onChange(c)
}

func (c *compute) has(f flavor) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.plus(f).fits(size)
}

// cloud is the hosts and the VCPUs in use.
type cloud struct {
	computes []*compute
	byUUID   map[string]*compute
	vcpus    atomic.Int64
}

// vcpusUsed returns the VCPUs of all instances.
func (w *cloud) vcpusUsed() int64 { return w.vcpus.Load() }

func uuidOf(kind, n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", kind, n) }

// newCloud creates hosts on which local instances use the fraction full of all VCPUs. Equal seeds
// give equal clouds.
func newCloud(hosts int, full float64, seed uint64) *cloud {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &cloud{byUUID: map[string]*compute{}}
	for i := range hosts {
		c := &compute{n: i, uuid: hostUUID(i), name: hostName(i), vcpus: &w.vcpus, instances: map[string]flavor{}, onChange: func(*compute) {}}
		w.computes = append(w.computes, c)
		w.byUUID[c.uuid] = c
	}
	for n, filled := 0, int64(0); float64(filled) < full*float64(hosts)*float64(size.vcpus); n++ {
		c, f := w.computes[r.IntN(hosts)], flavors[r.IntN(len(flavors))]
		if name := uuidOf(0xff000000, n); c.build(name, f) {
			c.local = append(c.local, name)
			filled += f.vcpus
		}
	}
	return w
}

// room reports whether the flavor fits on any host now.
func (w *cloud) room(f flavor) bool {
	for _, c := range w.computes {
		if c.has(f) {
			return true
		}
	}
	return false
}

// check fails the test if a host is over capacity, or if its usage is not the sum of its instances.
func (w *cloud) check(t *testing.T) {
	t.Helper()
	for _, c := range w.computes {
		c.mu.Lock()
		var sum flavor
		for _, f := range c.instances {
			sum = sum.plus(f)
		}
		if sum != c.used || !sum.fits(size) {
			t.Errorf("%s: instances have %v, its books %v, it has %v", c.name, sum, c.used, size)
		}
		c.mu.Unlock()
	}
}
