package nova

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellgate/internal/testlong"
)

// topologyCase is a flavor and an image, with the NUMA topology and the device requests that Nova
// made of them.
type topologyCase struct {
	Flavor struct {
		VCPUs      int64             `json:"vcpus"`
		MemoryMB   int64             `json:"memory_mb"`
		ExtraSpecs map[string]string `json:"extra_specs"`
	} `json:"flavor"`
	Properties map[string]string `json:"properties"`
	// Aliases are values of the option alias of [pci].
	Aliases []string `json:"aliases,omitempty"`
	madeByNova
}

// madeByNova is Nova's answer; Error is the exception's class.
type madeByNova struct {
	Cells   []cellMade    `json:"cells,omitempty"`
	Isolate bool          `json:"isolate,omitempty"`
	Devices []devicesMade `json:"devices,omitempty"`
	Error   string        `json:"error,omitempty"`
}

type cellMade struct {
	ID        int64  `json:"id"`
	CPUs      int    `json:"cpus"`
	Dedicated int    `json:"dedicated"`
	Memory    int64  `json:"memory"`
	PageSize  int64  `json:"pagesize,omitempty"`
	Policy    string `json:"policy,omitempty"`
	Threads   string `json:"threads,omitempty"`
}

type devicesMade struct {
	Count  int64               `json:"count"`
	Policy string              `json:"policy"`
	Specs  []map[string]string `json:"specs"`
}

const bundledTopologies = "testdata/topologies.jsonl.gz"

var updateTopologies = flag.Bool("update-topologies", false, "ask Nova anew for "+bundledTopologies)

// ours is what this package makes of the case. refused has the paths and problems of what the
// package refuses.
func (c *topologyCase) ours() (made madeByNova, refused []string) {
	f := findings{options: &Options{}}
	s := &Spec{
		Path:            "r",
		Flavor:          Flavor{VCPUs: c.Flavor.VCPUs, MemoryMB: c.Flavor.MemoryMB, ExtraSpecs: c.Flavor.ExtraSpecs},
		ImageProperties: c.Properties, HasImage: true,
	}
	var entries []Alias
	for _, text := range c.Aliases {
		var m map[string]string
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return made, []string{"alias: " + err.Error()}
		}
		entries = append(entries, Alias{
			Name: m["name"], VendorID: m["vendor_id"], ProductID: m["product_id"], DeviceType: m["device_type"],
			NUMAPolicy: m["numa_policy"], CapabilityType: m["capability_type"],
		})
	}
	aliases, _, err := NewAliases(entries)
	// Nova reads the aliases only if a flavor names one.
	if _, named := c.Flavor.ExtraSpecs["pci_passthrough:alias"]; named && err != nil {
		refused = append(refused, "alias: "+err.Error())
	}
	f.options.Aliases = aliases
	f.resolve(s)
	for _, x := range f.fields {
		refused = append(refused, x.Path+": "+x.Problem)
	}
	if len(refused) > 0 {
		return made, refused
	}
	if s.NUMA != nil {
		made.Isolate = s.NUMA.IsolateEmulator
		for _, x := range s.NUMA.Cells {
			made.Cells = append(made.Cells, cellMade{x.ID, x.CPUs, x.Dedicated, x.MemoryMB, x.PageSize, x.Policy, x.Threads})
		}
	}
	for _, r := range s.PCI {
		d := devicesMade{Count: r.Count, Policy: r.Policy}
		for _, spec := range r.Specs {
			m := map[string]string{}
			for _, p := range spec {
				m[p.Key] = p.Value
			}
			d.Specs = append(d.Specs, m)
		}
		made.Devices = append(made.Devices, d)
	}
	return made, nil
}

// refusalsOf has texts for each exception of Nova's. A refusal here must contain one of them.
var refusalsOf = map[string][]string{
	"InvalidNUMANodesNumber":              {"must be a number of at least 1"},
	"ImageNUMATopologyForbidden":          {"and the image has hw_numa_"},
	"MemoryPageSizeInvalid":               {"must be small, large, any"},
	"MemoryPageSizeForbidden":             {"but the flavor has"},
	"LockMemoryForbidden":                 {"needs hw:mem_page_size"},
	"FlavorImageLockedMemoryConflict":     {"but the image has hw_locked_memory"},
	"ImageNUMATopologyIncomplete":         {"must be there for each NUMA node"},
	"ImageNUMATopologyAsymmetric":         {"left over"},
	"ImageNUMATopologyCPUOutOfRange":      {"not one of the flavor's"},
	"ImageNUMATopologyCPUDuplicates":      {"that another NUMA node has"},
	"ImageNUMATopologyCPUsUnassigned":     {"leaves CPUs without a NUMA node"},
	"ImageNUMATopologyMemoryOutOfRange":   {"the flavor's memory is"},
	"ImageCPUPinningForbidden":            {"but the image has hw_cpu_policy"},
	"ImageCPUThreadPolicyForbidden":       {"but the image has hw_cpu_thread_policy"},
	"InvalidCPUAllocationPolicy":          {"must be one of dedicated, shared, mixed"},
	"InvalidCPUThreadAllocationPolicy":    {"must be one of prefer, isolate, require"},
	"CPUThreadPolicyConfigurationInvalid": {"is for dedicated CPUs"},
	"BadRequirementEmulatorThreadsPolicy": {"is for dedicated CPUs"},
	"InvalidEmulatorThreadsPolicy":        {"must be one of share, isolate"},
	"RealtimeConfigurationInvalid":        {"is for dedicated CPUs"},
	"RealtimeMaskNotFoundOrInvalid":       {"must leave some CPUs", "must leave a CPU for emulator threads", "has CPUs beyond"},
	"RequiredMixedInstancePolicy":         {"is for hw:cpu_policy=mixed"},
	"RequiredMixedOrRealtimeCPUMask":      {"either hw:cpu_dedicated_mask or the realtime mask"},
	"InvalidMixedInstanceDedicatedMask":   {"must leave some CPUs shared", "has CPUs beyond"},
	"InvalidRequest":                      {"must not be there together with", "must not ask for both", "it must be all CPUs of the flavor"},
	"Invalid":                             {"neither a CPU nor a range"},
	"ImagePCINUMAPolicyForbidden":         {"but the image has hw_pci_numa_affinity_policy", "must be one of required"},
	"InvalidPCINUMAAffinity":              {"must be one of required"},
	"PciRequestAliasNotDefined":           {"there is no PCI alias"},
	"PciInvalidAlias":                     {"alias: "},
	"ValueError":                          {"is not NAME:COUNT", "must be a number of MiB", "must be one of", "must be an integer"},
}

func (c *topologyCase) compare(t *testing.T) {
	t.Helper()
	made, refused := c.ours()
	if c.Error == "" {
		if len(refused) > 0 || dump(made) != dump(c.madeByNova) {
			t.Errorf("%s\n ours %s %q", dump(c), dump(made), refused)
		}
		return
	}
	texts, known := refusalsOf[c.Error]
	says := slices.ContainsFunc(refused, func(r string) bool {
		return slices.ContainsFunc(texts, func(w string) bool { return strings.Contains(r, w) })
	})
	if !known || !says {
		t.Errorf("%s\n ours %s %q, none says %q", dump(c), dump(made), refused, texts)
	}
}

// TestTopologiesAreNovas compares with Nova 26.2.2's answers to the bundled flavors and images.
// TestTopologiesAgainstNova compares with the installed Nova's answers to new ones.
func TestTopologiesAreNovas(t *testing.T) {
	if *updateTopologies {
		cases := topologyCases(1, 3000)
		makeByNova(t, cases)
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		for i := range cases {
			if _, err := z.Write([]byte(dump(&cases[i]) + "\n")); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(bundledTopologies, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.Open(bundledTopologies)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	cases, cells, devices, errors := 0, 0, 0, map[string]int{}
	for ; lines.Scan(); cases++ {
		var c topologyCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		c.compare(t)
		if len(c.Cells) > 0 {
			cells++
		}
		if len(c.Devices) > 0 {
			devices++
		}
		if c.Error != "" {
			errors[c.Error]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases: %d topologies, %d with devices, errors %v", cases, cells, devices, errors)
	for class := range refusalsOf {
		if errors[class] == 0 {
			t.Errorf("no case in which Nova raises %s", class)
		}
	}
	if cases < 1000 || cells < cases/4 || devices < cases/20 {
		t.Errorf("%d cases, %d topologies, %d with devices: the cases show too little", cases, cells, devices)
	}
}

func TestTopologiesAgainstNova(t *testing.T) {
	testlong.Only(t, "TestTopologiesAreNovas")
	seed := uint64(time.Now().UnixNano())
	cases := topologyCases(seed, 1000)
	makeByNova(t, cases)
	for i := range cases {
		cases[i].compare(t)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// makeByNova fills in Nova's answers. It skips the test if Nova is not installed.
func makeByNova(t *testing.T, cases []topologyCase) {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import nova.virt.hardware").CombinedOutput(); err != nil {
		t.Skipf("Nova cannot be asked (apt install python3-nova): %v: %.200s", err, out)
	}
	var in bytes.Buffer
	for i := range cases {
		in.WriteString(dump(&cases[i]))
		in.WriteByte('\n')
	}
	cmd := exec.CommandContext(t.Context(), python, "testdata/topologies.py")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(lines) != len(cases) {
		t.Fatalf("%d answers to %d cases: %s", len(lines), len(cases), stderr.String())
	}
	for i, line := range lines {
		if err := json.Unmarshal(line, &cases[i].madeByNova); err != nil {
			t.Fatal(err)
		}
	}
}

// Keys of cases and their values, in families of keys that mean little without each other.
var (
	pinningSpecs = map[string][]string{
		"hw:cpu_policy":              {"dedicated", "dedicated", "dedicated", "mixed", "mixed", "shared", "bogus"},
		"hw:cpu_thread_policy":       {"prefer", "isolate", "require", "require", "bogus"},
		"hw:emulator_threads_policy": {"share", "isolate", "isolate", "bogus"},
		"hw:cpu_dedicated_mask":      {"0-1", "^0", "1,3", "^0-1", "0", " ^1 ", "0-9", "\x1c^\x1f1\x1d", "0 - \x1e0_1", "\u0661", "x", "2-1", "0,^0"},
		"hw:cpu_realtime":            {"yes", "no", "1"}, "hw:cpu_realtime_mask": {"^0", "0-1", "^0-1", "y", "12", "0-11"},
		"resources:PCPU": {"2", "4", "8", "5"}, "resources:VCPU": {"2", "4"}, "resources1:PCPU": {"2", "4"}, "resources_a:PCPU": {"4"},
		"trait:HW_CPU_HYPERTHREADING": {"required", "forbidden"}, "trait2:HW_CPU_HYPERTHREADING": {"required"},
	}
	pinningProperties = map[string][]string{
		"hw_cpu_policy": {"dedicated", "shared", "mixed"}, "hw_cpu_thread_policy": {"prefer", "isolate", "require"},
		"hw_cpu_realtime_mask": {"^0", "0", "^0-1", "9"}, "trait:HW_CPU_HYPERTHREADING": {"required"},
	}
	memorySpecs = map[string][]string{
		"hw:mem_page_size": {
			"large", "large", "any", "any", "small", "4", "2048", "2048", "1048576", "1GB", "2MB", "0.5KB", "16Kb", "8192Kib", "1.5MiB", "0", "big", "2 MB", "\u0662\u0660\u0664\u0668", "2_048", "\u0662MB", "2MB\n", " 2048", "+2MB",
		},
		"hw:locked_memory": {"true", "false", "yes"}, "hw:pmem": {"6GB", " , ", "a,b"},
	}
	memoryProperties = map[string][]string{
		"hw_mem_page_size": {"large", "small", "2048", "1GB", "huge"}, "hw_locked_memory": {"true", "false"},
	}
	deviceSpecs = map[string][]string{
		"pci_passthrough:alias": {
			"gpu:1", "gpu:2, nic:1", "nic:1", "gpu:1,gpu:1", "none:1", "gpu", "gpu:one", "", "odd:1", "twice:3", "gpu:1:2", "gpu:1_0", " gpu :\u0662", "\x1fgpu\x1c:1", "gpu:\x1c1", "gpu:1_",
		},
		"hw:pci_numa_affinity_policy": {"required", "socket", "preferred", "legacy", "bogus"},
	}
	deviceProperties = map[string][]string{"hw_pci_numa_affinity_policy": {"required", "socket", "legacy", "bogus"}}

	someAliases = []string{
		`{"name": "gpu", "vendor_id": "10de", "product_id": "1DB6", "device_type": "type-PCI"}`,
		`{"name": "nic", "product_id": "154c", "vendor_id": "8086", "device_type": "type-VF", "numa_policy": "preferred"}`,
		`{"name": "twice", "vendor_id": "8086", "product_id": "0443", "device_type": "type-PF", "numa_policy": "required"}`,
		`{"name": "twice", "vendor_id": "8086", "product_id": "0442", "device_type": "type-PF", "numa_policy": "required"}`,
		`{"name": " odd ", "capability_type": "pci"}`,
	}
	wrongAliases = []string{
		`{"name": "gpu", "vendor_id": "10de"}`,
		`{"name": "gpu", "vendor_id": "10de", "device_type": "type-VF"}`,
		`{"name": "nic", "device_type": "type-VF", "numa_policy": "socket"}`,
		`{"name": "x", "vendor_id": "10deg"}`, `{"name": "x", "device_type": "vdpa"}`, `{"name": "x", "numa_policy": "near"}`,
		`{"name": ""}`, `{"name": "x", "capability_type": "usb"}`,
	}
)

func topologyCases(seed uint64, n int) []topologyCase {
	dice := rand.New(rand.NewPCG(seed, 0))
	one := func(of []string) string { return of[dice.IntN(len(of))] }
	some := func(into map[string]string, from map[string][]string, most int) {
		keys := sortedKeys(from)
		for range dice.IntN(most + 1) {
			key := one(keys)
			into[key] = one(from[key])
		}
	}
	cases := make([]topologyCase, n)
	for i := range cases {
		c := &cases[i]
		c.Flavor.VCPUs, c.Flavor.MemoryMB = []int64{1, 2, 4, 4, 8, 12}[dice.IntN(6)], []int64{512, 2048, 3072, 4096}[dice.IntN(4)]
		c.Flavor.ExtraSpecs, c.Properties = map[string]string{}, map[string]string{}
		specs, props := c.Flavor.ExtraSpecs, c.Properties
		switch dice.IntN(4) {
		case 0:
			some(specs, pinningSpecs, 3)
		case 1: // keys that may fit together
			specs["hw:cpu_policy"] = one([]string{"dedicated", "mixed"})
			if specs["hw:cpu_policy"] == "mixed" {
				specs["hw:cpu_dedicated_mask"] = one([]string{"^0", "0", "1-2", "0-2,^1"})
			}
			if dice.IntN(2) == 0 {
				specs["hw:cpu_thread_policy"] = one([]string{"prefer", "isolate", "require"})
			}
			if dice.IntN(3) == 0 {
				specs["hw:emulator_threads_policy"] = one([]string{"share", "isolate"})
			}
		}
		if dice.IntN(6) == 0 {
			some(props, pinningProperties, 2)
		}
		if dice.IntN(4) == 0 {
			some(specs, memorySpecs, 2)
		}
		if dice.IntN(8) == 0 {
			some(props, memoryProperties, 1)
		}
		if dice.IntN(2) == 0 {
			c.nodes(dice)
		}
		if dice.IntN(4) == 0 {
			specs["pci_passthrough:alias"] = one([]string{"gpu:1", "nic:2,gpu:1", " twice:1"})
			if dice.IntN(2) == 0 {
				some(specs, deviceSpecs, 3)
				some(props, deviceProperties, 1)
			}
			c.Aliases = slices.Clone(someAliases)
			if dice.IntN(6) == 0 {
				c.Aliases = append(c.Aliases, one(wrongAliases))
			}
		}
	}
	return cases
}

// nodes asks for NUMA nodes, equal or each with its own CPUs and memory, and sometimes wrongly.
func (c *topologyCase) nodes(dice *rand.Rand) {
	n := []int{1, 2, 2, 2, 3, 4}[dice.IntN(6)]
	on := func(image bool, what string) (map[string]string, string) {
		if image {
			return c.Properties, "hw_" + what
		}
		return c.Flavor.ExtraSpecs, "hw:" + what
	}
	image := dice.IntN(4) == 0
	put := func(image bool, what, value string) {
		m, key := on(image, what)
		m[key] = value
	}
	if dice.IntN(12) != 0 {
		put(image, "numa_nodes", strconv.Itoa(n))
	}
	switch dice.IntN(24) {
	case 0:
		put(!image, "numa_nodes", "2")
	case 1:
		put(image, "numa_nodes", []string{"0", "-1", "02", " 2", "two"}[dice.IntN(5)])
	}
	if dice.IntN(2) == 0 {
		return
	}
	if dice.IntN(4) == 0 {
		image = !image
	}
	listed := n
	if dice.IntN(8) == 0 {
		listed += dice.IntN(3) - 1
	}
	// The CPUs are consecutive, the memory is uneven.
	each, memory := max(c.Flavor.VCPUs/int64(n), 1), c.Flavor.MemoryMB
	for node := range listed {
		first, last := int64(node)*each, int64(node+1)*each-1
		if node == listed-1 {
			last = c.Flavor.VCPUs - 1
		}
		cpus := strconv.FormatInt(first, 10)
		if last > first {
			cpus += "-" + strconv.FormatInt(last, 10)
		}
		share := memory / 4
		if node == listed-1 {
			share = memory
		}
		memory -= share
		mem := strconv.FormatInt(share, 10)
		switch dice.IntN(24) {
		case 0:
			cpus = []string{"0", "0-99", "x", "", "1-0", "^0", "0-3,^1"}[dice.IntN(7)]
		case 1:
			mem = []string{"1", "0", "x", " 512 "}[dice.IntN(4)]
		case 2:
			continue // this node is not listed
		}
		put(image, "numa_cpus."+strconv.Itoa(node), cpus)
		if dice.IntN(24) != 0 {
			put(image, "numa_mem."+strconv.Itoa(node), mem)
		}
		if dice.IntN(24) == 0 {
			put(!image, "numa_mem."+strconv.Itoa(node), mem)
			put(!image, "numa_cpus."+strconv.Itoa(node), cpus)
		}
	}
}
