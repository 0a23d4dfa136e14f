package hostprobe

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/config"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
)

var update = flag.Bool("update", false, "write testdata/*.json anew")

// sriov is the settings of the machine two-nodes, with everything that they use.
func sriov() Settings {
	s := plain()
	s.SharedCPUs, s.DedicatedCPUs = "0-1,8-9", "2-3,10-11,4-7,12-15,^7"
	s.ReservedHugePages = []config.ReservedPages{{Node: 0, Size: "2MB", Count: 64}, {Node: 1, Size: "1GB", Count: 1}}
	s.PCIDevices = []config.PCIDevice{
		{VendorID: "8086", ProductID: "154c", Address: "*:81:02.*", Tags: []string{"physical_network=physnet1", "trusted=true"}},
		{VendorID: "10de", Tags: []string{"custom=gpu"}},
		{Address: "0000:c1:00.0", Tags: []string{"physical_network=physnet2"}},
	}
	s.Traits = []string{"CUSTOM_GOLD"}
	s.Aggregates = []config.Aggregate{{UUID: "a0000000-0000-4000-8000-000000000001", Name: "az1", Metadata: []string{"availability_zone=az1"}}}
	s.HypervisorVersion, s.HostIP = "8.2.2", "192.0.2.7"
	return s
}

// testdata has the complete report of each machine, for people to read. go test -update writes it.
func TestMachines(t *testing.T) {
	for name, s := range map[string]Settings{"one-node": plain(), "two-nodes": sriov(), "no-numa": plain(), "arm64": plain(), "offline": plain()} {
		t.Run(name, func(t *testing.T) {
			r := reader(t, tree(t, name))
			if name == "arm64" {
				r.Arch, r.PageKB = "", 64
			}
			got, err := Read(hostUUID, Config{Settings: s}, r.Read)
			if err != nil {
				t.Fatal(err)
			}
			readable(t, got.State)
			text := shown(t, got.State)
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("%s is reported differently from %s:\n%s", name, file, text)
			}
		})
	}
}

// shown writes a state with its facts as JSON objects instead of strings.
func shown(t *testing.T, s *agentv1.FullState) string {
	t.Helper()
	text, err := protojson.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	facts, _ := all["facts"].(map[string]any)
	for key, text := range facts {
		var v any
		if err := json.Unmarshal([]byte(text.(string)), &v); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		facts[key] = bare(v)
	}
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}

// bare removes the wrappers around the data of Nova's objects.
func bare(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if data, ok := v["nova_object.data"]; ok {
			return bare(data)
		}
		for key := range v {
			v[key] = bare(v[key])
		}
	case []any:
		for i := range v {
			v[i] = bare(v[i])
		}
	}
	return v
}

// readable checks that the scheduler can read all facts of a state.
func readable(t testing.TB, s *agentv1.FullState) {
	t.Helper()
	f := s.GetFacts()
	read := schedule.ParseFacts(schedule.FactTexts{
		HypervisorType: s.GetHypervisorType(), HypervisorHostname: s.GetNodename(), HostIP: s.GetHostIp(), CPUInfo: f.GetCpuInfo(),
		SupportedInstances: f.GetSupportedInstances(), NUMATopology: f.GetNumaTopology(), PCIPools: f.GetPciStats(),
	})
	if len(read.Failed) > 0 {
		t.Errorf("the scheduler cannot read %v", read.Failed)
	}
}

func amount(s *agentv1.FullState, class string) *agentv1.Inventory {
	for _, i := range s.GetProviders()[0].GetInventories() {
		if i.GetResourceClass() == class {
			return i
		}
	}
	return nil
}

// cells are the NUMA cells of a state.
func cells(t *testing.T, s *agentv1.FullState) []map[string]any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s.GetFacts().GetNumaTopology()), &v); err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	for _, c := range bare(v).(map[string]any)["cells"].([]any) {
		all = append(all, c.(map[string]any))
	}
	return all
}

func numbers(of any) (all []int) {
	for _, n := range of.([]any) {
		all = append(all, int(n.(float64)))
	}
	return all
}

// The configuration decides what is VCPU and what PCPU, as in Nova.
func TestCPUSets(t *testing.T) {
	for _, c := range []struct {
		shared, dedicated string
		vcpu, pcpu        int32
		cpuset, pcpuset   string
		problem           string
	}{
		{"", "", 8, 0, "0-7", "0-7", ""},
		{"0-3", "", 4, 0, "0-3", "", ""},
		{"", "4-7", 0, 4, "", "4-7", ""},
		{"0-1", "4-7,^5", 2, 3, "0-1", "4,6-7", ""},
		{"0-4", "4-7", 0, 0, "", "", "has CPUs of cpu_shared_set too: 4"},
		{"", "6-9", 0, 0, "", "", "cpu_dedicated_set: CPUs 8-9 are not online; those are 0-7"},
		{"x", "", 0, 0, "", "", "cpu_shared_set: \"x\" is no CPU"},
		{"3,^3", "", 0, 0, "", "", "names no CPU"},
	} {
		s := plain()
		s.SharedCPUs, s.DedicatedCPUs = c.shared, c.dedicated
		r, err := report(t, tree(t, "one-node"), s)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%q %q: %v, want %q", c.shared, c.dedicated, err, c.problem)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		cell := cells(t, r.State)[0]
		if amount(r.State, "VCPU").GetTotal() != c.vcpu || amount(r.State, "PCPU").GetTotal() != c.pcpu ||
			cpuSet(numbers(cell["cpuset"])).String() != c.cpuset || cpuSet(numbers(cell["pcpuset"])).String() != c.pcpuset {
			t.Errorf("%q %q: %v with cell %v", c.shared, c.dedicated, r.State.GetProviders()[0].GetInventories(), cell)
		}
	}
}

func TestOfflineCPUsAreNotOffered(t *testing.T) {
	r, err := report(t, tree(t, "offline"), plain())
	if err != nil {
		t.Fatal(err)
	}
	cell := cells(t, r.State)[0]
	if amount(r.State, "VCPU").GetTotal() != 6 || !slices.Equal(numbers(cell["cpuset"]), []int{0, 1, 2, 4, 5, 6}) || len(cell["siblings"].([]any)) != 3 {
		t.Errorf("VCPU %v, cell %v", amount(r.State, "VCPU"), cell)
	}
	if !strings.Contains(r.State.GetFacts().GetCpuInfo(), `"topology":{"cells":1,"cores":3,"sockets":1,"threads":2}`) {
		t.Error(r.State.GetFacts().GetCpuInfo())
	}
}

// If every second thread is offline, there is no hyperthreading, even if the kernel still lists the
// threads.
func TestThreadsThatAreOffDoNotCount(t *testing.T) {
	files := tree(t, "one-node")
	files["sys/devices/system/cpu/online"].Data = []byte("0-3\n")
	r, err := report(t, files, plain())
	if err != nil {
		t.Fatal(err)
	}
	cell := cells(t, r.State)[0]
	if slices.Contains(r.State.GetProviders()[0].GetTraits(), "HW_CPU_HYPERTHREADING") || amount(r.State, "VCPU").GetTotal() != 4 ||
		!slices.Equal(numbers(cell["cpuset"]), []int{0, 1, 2, 3}) || !strings.Contains(r.State.GetFacts().GetCpuInfo(), `"cores":4,"sockets":1,"threads":1`) {
		t.Errorf("with threads off: %v", r.State)
	}
	if r, err = report(t, tree(t, "one-node"), plain()); err != nil || !slices.Contains(r.State.GetProviders()[0].GetTraits(), "HW_CPU_HYPERTHREADING") {
		t.Errorf("with threads on: %v %v", r, err)
	}
}

// Reserved amounts and ratios are as in Nova. Fractions of a GiB are rounded up when reserved.
func TestReservedAndRatios(t *testing.T) {
	s := plain()
	s.ReservedCPUs, s.ReservedMemoryMB, s.ReservedDiskMB = 2, 4096, 10241
	s.CPURatio, s.MemoryRatio, s.DiskRatio = 16, 1.5, 2
	r, err := report(t, tree(t, "one-node"), s)
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string][3]float64{"VCPU": {8, 2, 16}, "MEMORY_MB": {64161, 4096, 1.5}, "DISK_GB": {500, 11, 2}} {
		i := amount(r.State, class)
		if got := [3]float64{float64(i.GetTotal()), float64(i.GetReserved()), i.GetAllocationRatio()}; got != want || i.GetMaxUnit() != i.GetTotal() || i.GetMinUnit() != 1 || i.GetStepSize() != 1 {
			t.Errorf("%s is %v, want %v", class, i, want)
		}
	}
	s.ReservedCPUs, s.ReservedDiskMB = 9, 501<<10
	_, err = report(t, tree(t, "one-node"), s)
	for _, want := range []string{"reserved_host_cpus: reserves 9 of VCPU, and the machine has 8", "reserved_host_disk_mb: reserves 501 of DISK_GB, and the machine has 500"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s = plain()
	s.DiskPath = ""
	if r, err = report(t, tree(t, "one-node"), s); err != nil || amount(r.State, "DISK_GB") != nil {
		t.Errorf("without a disk path: %v %v", r, err)
	}
}

func TestVirtualization(t *testing.T) {
	for machine, want := range map[string]string{"one-node": `[["x86_64","kvm","hvm"],["x86_64","qemu","hvm"],["i686","kvm","hvm"],["i686","qemu","hvm"]]`, "no-numa": `[["x86_64","qemu","hvm"],["i686","qemu","hvm"]]`} {
		r, err := report(t, tree(t, machine), plain())
		if err != nil || r.State.GetFacts().GetSupportedInstances() != want {
			t.Errorf("%s: %v %v, want %s", machine, r, err, want)
		}
	}
	s := plain()
	s.VirtType = "kvm"
	r, err := report(t, tree(t, "no-numa"), s)
	if err != nil || !strings.Contains(r.State.GetFacts().GetSupportedInstances(), "kvm") || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "does not have") {
		t.Errorf("kvm where there is none: %v %v", r, err)
	}
	s.SupportedInstances = `[["aarch64", "kvm", "hvm"]]`
	if r, err = report(t, tree(t, "no-numa"), s); err != nil || r.State.GetFacts().GetSupportedInstances() != s.SupportedInstances {
		t.Errorf("what is set: %v %v", r, err)
	}
	for _, bad := range []string{`[["x86_64", "kvm"]]`, `[["x86_64", "none", "hvm"]]`, `kvm`, `[]`} {
		s.SupportedInstances = bad
		if problems := s.Problems(); len(problems) != 1 || problems[0].Path != "supported_instances" {
			t.Errorf("%s: %v", bad, problems)
		}
	}
}

// If a file is corrupt or missing, the read ends with an error that names it, unless the file is
// optional.
func TestEveryFileThatCannotBeReadIsNamed(t *testing.T) {
	optional := []string{"etc/machine-id", "sys/class/misc/kvm/dev", "sys/devices/system/cpu/present", "/class", "/mtu", "sys/class/net/eth9/device", "proc/sys/kernel/arch", "/uevent", "proc/cpuinfo"}
	missing := []string{"topology/", "numa_node", "sriov_totalvfs", "nr_hugepages", "physfn", "sys/class/net", "node/online"}
	isIn := func(list []string, path string) bool {
		return slices.ContainsFunc(list, func(part string) bool { return strings.Contains(path, part) })
	}
	s := sriov()
	s.PCIDevices = append(s.PCIDevices, config.PCIDevice{DevName: "ens1f0"})
	files := tree(t, "two-nodes")
	tried := 0
	for path, file := range files {
		if isIn(optional, path) || file.Mode.Type() != 0 {
			continue
		}
		tried++
		was := file.Data
		file.Data = []byte("garbage of another kind\n")
		if _, err := report(t, files, s); err == nil || !strings.Contains(err.Error(), "/"+path) {
			t.Errorf("%s spoiled: %v", path, err)
		}
		file.Data = was
		if isIn(missing, path) {
			continue
		}
		delete(files, path)
		if _, err := report(t, files, s); err == nil || !strings.Contains(err.Error(), "/"+path) {
			t.Errorf("%s gone: %v", path, err)
		}
		files[path] = file
	}
	if tried < 60 {
		t.Errorf("%d files spoiled only", tried)
	}
	if _, err := report(t, files, s); err != nil {
		t.Errorf("whole again: %v", err)
	}
}
