package hostprobe

import (
	"slices"
	"strings"
	"testing"

	"cellgate/internal/config"
)

// A set that is written as a list is read back unchanged.
func FuzzCPUSets(f *testing.F) {
	for _, s := range []string{"", "0", "0-3,8\n", "3,1-2,2", "^1,0-3", " 5 - 7 ,,", "0-16384", "1-0", "-1", "99999999999999999999", "0-3:1/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, parse := range map[string]func(string) (cpuSet, error){"list": parseCPUList, "spec": parseCPUSpec} {
			set, err := parse(text)
			if err != nil {
				continue
			}
			if !slices.IsSorted(set) || len(set) > 0 && (set[0] < 0 || set[len(set)-1] > maxCPU) || len(slices.Compact(slices.Clone(set))) != len(set) {
				t.Errorf("%s %q is read as %v", name, text, set)
			}
			again, err := parseCPUList(set.String())
			if err != nil || !slices.Equal(again, set) {
				t.Errorf("%s %q is %v, written %q, read as %v %v", name, text, []int(set), set.String(), []int(again), err)
			}
		}
	})
}

func FuzzCPUInfo(f *testing.F) {
	for _, m := range []string{"one-node", "arm64", "no-numa"} {
		f.Add(string(tree(f, m)["proc/cpuinfo"].Data))
	}
	f.Add("flags: a b a\nflags: b c\naddress sizes: 999999999999999999999 bits physical\nflags")
	f.Fuzz(func(t *testing.T, text string) {
		c := parseCPUInfo(text)
		if !slices.IsSorted(c.flags) || c.physBits < 0 || c.physBits > 64 {
			t.Errorf("%q is read as %+v", text, c)
		}
		for _, flag := range c.flags {
			if flag == "" || strings.ContainsAny(flag, " \n") || strings.Count(text, flag) < strings.Count(text, "\nflags") {
				t.Errorf("%q has a flag %q", text, flag)
			}
		}
	})
}

func FuzzMemTotal(f *testing.F) {
	f.Add("MemTotal:       65701234 kB\nMemFree: 1 kB")
	f.Add("Node 0 MemTotal:  5 kB")
	f.Add("MemTotal: -1 kB")
	f.Add("MemTotal: 5 MB")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseMemTotal(text); err == nil && (n < 0 || n > maxAmount || !strings.Contains(text, "MemTotal:")) {
			t.Errorf("%q is read as %d", text, n)
		}
	})
}

// A spec that can be read matches only devices that agree with it.
func FuzzDeviceSpec(f *testing.F) {
	f.Add("8086", "154c", "0000:81:02.*", "0000:81:02.1")
	f.Add("0x8086", "*", ":00.", "0000:81:00.0")
	f.Add("", "", "", "00000:00:00.0")
	f.Add("g", "-1", "*:*:*.*.*", "x")
	f.Fuzz(func(t *testing.T, vendor, product, address, of string) {
		s := config.PCIDevice{VendorID: vendor, ProductID: product, Address: address}
		out, problems := parseSpec(&s, "x")
		if len(problems) > 0 {
			return
		}
		d := device{address: of, vendor: "8086", product: "154c"}
		parts := pciAddress.FindStringSubmatch(of)
		if !out.matches(&Machine{}, &d) {
			return
		}
		if parts == nil || out.vendor != anything && out.vendor != d.vendor || out.product != anything && out.product != d.product {
			t.Errorf("%+v names %+v", s, d)
		}
		for i, want := range out.address {
			if want != anything && want != parts[i+1] {
				t.Errorf("%q names %q", address, of)
			}
		}
	})
}

func FuzzInstance(f *testing.F) {
	f.Add(`{"instance_uuid": "11111111-0000-4000-8000-000000000001", "resources": {"VCPU": 1}, "numa": [{"node": 1, "cpus": 2, "pinned_cpus": [4], "memory_mb": 64, "page_size_kb": 2048}], "pci_devices": ["0000:81:02.0"]}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		i, err := parseInstance([]byte(text))
		if err != nil {
			return
		}
		s := sriov()
		r, err := report(t, tree(t, "two-nodes"), s, *i)
		if err == nil {
			readable(t, r.State)
		}
	})
}

// Whatever is in a machine's files, the read ends with an error, or with a state that the scheduler
// can read.
func FuzzMachine(f *testing.F) {
	f.Add("sys/devices/system/cpu/online", "0-99")
	f.Add("sys/devices/system/node/online", "0-70")
	f.Add("sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "9999999999999")
	f.Add("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "5")
	f.Add("sys/devices/system/cpu/cpu3/topology/physical_package_id", "-1")
	f.Add("sys/bus/pci/devices/0000:81:02.0/numa_node", "1099511627776")
	f.Add("proc/sys/kernel/arch", "pdp11")
	f.Add("proc/cpuinfo", "flags : \xff\xfe\nmodel name: \x00")
	f.Fuzz(func(t *testing.T, path, text string) {
		files := tree(t, "two-nodes")
		was, known := files[path]
		if !known && path != "proc/sys/kernel/arch" || known && was.Mode.Type() != 0 {
			return
		}
		if known {
			was.Data = []byte(text)
		}
		s := sriov()
		r, err := report(t, files, s)
		if err == nil {
			readable(t, r.State)
		}
	})
}
