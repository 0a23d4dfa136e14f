package nova

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"cellgate/internal/testlong"
	"cellgate/schedule"
)

// askCase is a flavor and an image, and the query that Nova made of them.
type askCase struct {
	Flavor  askFlavor       `json:"flavor"`
	Image   askImage        `json:"image"`
	BFV     bool            `json:"is_bfv"`
	Options map[string]bool `json:"options"`
	// Strict: strict_nova is on, and there are extra specs that Nova skips.
	Strict bool `json:"strict,omitempty"`
	// Pinning: false for the second query, which asks for VCPU instead of PCPU.
	Pinning bool `json:"pinning"`
	// Nova 26.2.2's answer.
	askAnswer
	// Newest is Nova 33.0.0's answer; nil: it was not asked.
	Newest *askAnswer `json:"newest,omitempty"`
}

// askAnswer is a Nova's query to Placement, or the class of its exception.
type askAnswer struct {
	Query string `json:"query,omitempty"`
	Error string `json:"error,omitempty"`
}

type askFlavor struct {
	VCPUs       int64             `json:"vcpus"`
	MemoryMB    int64             `json:"memory_mb"`
	RootGB      int64             `json:"root_gb"`
	EphemeralGB int64             `json:"ephemeral_gb"`
	Swap        int64             `json:"swap"`
	ExtraSpecs  map[string]string `json:"extra_specs"`
}

type askImage struct {
	DiskFormat string            `json:"disk_format"`
	Properties map[string]string `json:"properties"`
}

const bundledAsks = "testdata/resource-requests.jsonl.gz"

var updateAsks = flag.Bool("update-asks", false, "ask Nova anew for "+bundledAsks)

// ours is this package's query, for a release. wrong has the fields that the package refuses.
func (c *askCase) ours(release int) (query string, wrong error) {
	f := findings{options: &Options{
		Release:          release,
		ImageTypeSupport: c.Options["query_placement_for_image_type_support"],
		ImageMetadata:    c.Options["image_metadata_prefilter"],
		Strict:           c.Strict,
	}}
	s := &Spec{
		Path: "request_spec",
		Flavor: Flavor{
			VCPUs: c.Flavor.VCPUs, MemoryMB: c.Flavor.MemoryMB, RootGB: c.Flavor.RootGB,
			EphemeralGB: c.Flavor.EphemeralGB, SwapMB: c.Flavor.Swap, ExtraSpecs: c.Flavor.ExtraSpecs,
		},
		ImageProperties: c.Image.Properties, DiskFormat: c.Image.DiskFormat, HasImage: true, BootFromVolume: c.BFV,
	}
	asked := f.build(s, c.Pinning)
	f.prefilter(s, asked, &schedule.Request{})
	return asked.query(), f.err()
}

func (c *askCase) compare(t *testing.T, release int, nova askAnswer) {
	t.Helper()
	query, err := c.ours(release)
	switch {
	case (err != nil) != (nova.Error != ""):
		t.Errorf("%s\n ours %v\n Nova %d %q %s", dump(c), err, release, nova.Error, nova.Query)
	case err == nil && query != nova.Query:
		t.Errorf("%s\n ours %s\n Nova %d %s", dump(c), query, release, nova.Query)
	}
}

// refusedByDefault checks the extra specs that Nova skips: without strict_nova, a case that has any
// is refused. With it, they are reported as ignored.
func (c *askCase) refusedByDefault(t *testing.T) {
	t.Helper()
	ask := func(strict bool) (ignored []string, err error) {
		f := findings{options: &Options{Strict: strict}}
		r := newResourceRequest(&f)
		s := &Spec{Path: "r", Flavor: Flavor{ExtraSpecs: c.Flavor.ExtraSpecs}, ImageProperties: c.Image.Properties}
		r.extraSpecs(s)
		r.imageTraits(s)
		return f.ignored, f.err()
	}
	ignored, err := ask(true)
	if err != nil {
		t.Errorf("%s\n strictly: %v", dump(c), err)
	}
	none, err := ask(false)
	if (err != nil) != (len(ignored) > 0) || len(none) > 0 {
		t.Errorf("%s\n ignored %q, by default %q, %v", dump(c), ignored, none, err)
	}
}

// TestResourceRequestIsNovas compares with the answers of Nova 26.2.2 and 33.0.0 to the bundled
// cases. TestResourceRequestAgainstNova compares with the installed Nova's answers to new cases.
// -update-asks needs the clones of testdata/newest_nova.py in the folder CELLGATE_NEWEST.
func TestResourceRequestIsNovas(t *testing.T) {
	if *updateAsks {
		bundle(t)
	}
	file, err := os.Open(bundledAsks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, cases, refused, odd, younger := bufio.NewScanner(z), 0, 0, 0, 0
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c askCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Newest == nil {
			t.Fatalf("%s\n has no answer of the newest release", dump(&c))
		}
		c.compare(t, 26, c.askAnswer)
		c.compare(t, 33, *c.Newest)
		cases++
		if c.Error != "" {
			refused++
		}
		if c.askAnswer != *c.Newest {
			younger++
		}
		if c.Strict && c.Error == "" {
			odd++
			c.refusedByDefault(t)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if odd < 300 {
		t.Errorf("%d cases with extra specs that Nova reads over", odd)
	}
	if younger < 300 {
		t.Errorf("%d cases that the newest release answers in another way", younger)
	}
	if cases < 1000 || refused < 100 || refused > cases/2 {
		t.Errorf("%d cases, Nova refuses %d: too few of either", cases, refused)
	}
}

func TestResourceRequestAgainstNova(t *testing.T) {
	testlong.Only(t, "TestResourceRequestIsNovas")
	seed := uint64(time.Now().UnixNano())
	cases := askCases(seed, 300)
	for i, answer := range askNova(t, cases) {
		cases[i].compare(t, 26, answer)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

// askNova gives the installed Nova's answers; with the folder that testdata/newest_nova.py needs,
// those of the newest release. It skips the test if Nova is not installed.
func askNova(t *testing.T, cases []askCase, folder ...string) []askAnswer {
	t.Helper()
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import nova.scheduler.utils").CombinedOutput(); err != nil {
		t.Skipf("Nova cannot be asked (apt install python3-nova): %v: %.200s", err, out)
	}
	var in bytes.Buffer
	for i := range cases {
		in.WriteString(dump(&cases[i]))
		in.WriteByte('\n')
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-W", "ignore", "testdata/resource_requests.py"}, folder...)...)
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
	answers := make([]askAnswer, len(cases))
	for i, line := range lines {
		if err := json.Unmarshal(line, &answers[i]); err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// bundle asks both Novas about new cases, and writes them as bundledAsks.
func bundle(t *testing.T) {
	t.Helper()
	folder := os.Getenv("CELLGATE_NEWEST")
	if folder == "" {
		t.Fatal("CELLGATE_NEWEST is not set")
	}
	cases := askCases(1, 2000)
	answers, newest := askNova(t, cases), askNova(t, cases, folder)
	for i := range cases {
		cases[i].askAnswer, cases[i].Newest = answers[i], &newest[i]
	}
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
	if err := os.WriteFile(bundledAsks, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// askSpecs and askProperties are the keys of cases, with their values. Zed has none of the younger
// ones. Nova skips oddSpecs and oddTraits, or reads them as Python does.
var (
	askSpecs = map[string][]string{
		"resources:VCPU": {"0", "1", "7"}, "resources:PCPU": {"0", "2"}, "resources:MEMORY_MB": {"0", "512"},
		"resources:DISK_GB": {"0", "5"}, "resources:CUSTOM_A": {"0", "1", " 3 "}, "resources1:VGPU": {"1"},
		"resources1:CUSTOM_A": {"0", "2"}, "resources_x-Y:VCPU": {"0", "2"}, "resources2:DISK_GB": {"9"},
		"trait:CUSTOM_T": {"required", "forbidden"}, "trait1:CUSTOM_T": {"required", "forbidden"}, "trait_z:CUSTOM_U": {"required"},
		"trait:HW_CPU_HYPERTHREADING": {"required", "forbidden"},
		"group_policy":                {"none", "isolate", "other"}, "quota:cpu_shares": {"1"}, "plain": {"x"},
		"hw:cpu_policy":              {"dedicated", "shared", "mixed", "dedicated", "mixed", "bogus", ""},
		"hw:cpu_thread_policy":       {"prefer", "isolate", "require", "bogus"},
		"hw:emulator_threads_policy": {"share", "isolate", "isolate", "bogus"},
		"hw:cpu_dedicated_mask":      {"0-1", "^0", "1,3", "^0-1", "0-9", "x", "^", "2-1", " ^1 ", "0,^0"},
		"hw:cpu_realtime":            {"yes", "no", "1"}, "hw:cpu_realtime_mask": {"^0", "0-1", "^0-3", "y", "12"},
		"hw:mem_encryption": {"true", "false", "bogus"},
		"hw:pmem":           {"6GB", "a,b, a", " , ", "x--y"},
		"hw:tpm_version":    {"1.2", "2.0", "3", ""}, "hw:tpm_model": {"tpm-tis", "tpm-crb", "bogus"},
		"hw:pci_numa_affinity_policy": {"required", "socket", "legacy", "bogus"},
		"os:secure_boot":              {"required", "disabled", "optional", "bogus"},
		"hw:ephemeral_encryption":     {"true", "false", "1"}, "hw:ephemeral_encryption_format": {"luks", "plain", "luksv2", "bogus"},
		"accel:device_profile": {"p", ""},
	}
	askProperties = map[string][]string{
		"trait:CUSTOM_I": {"required"}, "trait:CUSTOM_T": {"required"},
		"hw_cpu_policy": {"dedicated", "shared", "mixed"}, "hw_cpu_thread_policy": {"prefer", "isolate", "require"},
		"hw_cpu_realtime_mask": {"^0", "0"}, "hw_mem_encryption": {"true", "false"},
		"hw_firmware_type": {"uefi", "uefi", "bios"}, "hw_machine_type": {"q35", "pc-q35-2.11", "pc"},
		"hw_tpm_version": {"1.2", "2.0"}, "hw_tpm_model": {"tpm-tis", "tpm-crb"},
		"hw_pci_numa_affinity_policy": {"required", "socket"}, "os_secure_boot": {"required", "disabled", "optional"},
		"hw_ephemeral_encryption": {"true", "false"}, "hw_ephemeral_encryption_format": {"luks", "plain"},
		"hw_cdrom_bus": {"ide", "virtio"}, "hw_disk_bus": {"scsi", "sata"}, "hw_video_model": {"vga", "qxl"},
		"hw_vif_model": {"virtio", "ne2k_pci", "e1000"}, "hw_architecture": {"x86_64", "aarch64"}, "architecture": {"i686"},
		"hw_emulation_architecture": {"ppc64le", "s390"}, "hw_viommu_model": {"intel"},
	}
)

var (
	youngerSpecs = map[string][]string{
		"hw:maxphysaddr_mode": {"passthrough", "emulate", "bogus"}, "hw:maxphysaddr_bits": {"40"},
		"hw:virtio_packed_ring": {"true", "false"}, "hw:sound_model": {"virtio", "ac97", "bogus"},
		"hw:tpm_secret_security": {"user", "host", "deployment", "bogus"}, "hw:tpm_version": {"2.0", "1.2"},
		"hw:mem_encryption": {"true"},
	}
	youngerProperties = map[string][]string{
		"hw_maxphysaddr_mode": {"passthrough", "emulate"}, "hw_maxphysaddr_bits": {"42"}, "hw_firmware_stateless": {"true", "false"},
		"hw_virtio_packed_ring": {"true", "false"}, "hw_sound_model": {"virtio", "ich9"}, "hw_firmware_type": {"uefi"},
		"hw_tpm_model": {"tpm-tis", "tpm-crb"},
	}
)

var (
	oddAmounts = []string{"one", "1_0", "-1", "+2", " 4\t", "1.0", "", "0x1", "\u0663", "\x1c1", "1_", "_1", "007", "1e3", "\u00a05"}
	oddWords   = []string{"maybe", "Required", "required ", "", "forbidden\n", "1"}
	oddSpecs   = map[string][]string{
		"resources:FOO": {"1", "x"}, "resources1:vcpu": {"2"}, "resources3:": {"1"}, "resources1:FOO": {"1"},
		"resources:VGPU": oddAmounts, "resources1:VGPU": oddAmounts, "resources2:CUSTOM_B": oddAmounts, "resources:MEMORY_MB": oddAmounts,
		"resources:FPGA\n": {"1", "x"}, "resources!:VGPU": {"1"}, "resources_\u00e9:VGPU": {"2"}, "resources_only": {"1"},
		"trait:CUSTOM_O": oddWords, "trait2:CUSTOM_O": oddWords, "trait4:lower": {"maybe"}, "trait$:CUSTOM_O": {"required"}, "trait_only": {"x"},
		"trait:CUSTOM_N\n": {"required"}, "trait.1:CUSTOM_N": {"forbidden"},
	}
	oddTraits = map[string][]string{"trait:CUSTOM_P": {"required", "required ", "forbidden", "no", ""}}
)

// askCases makes cases with few keys each: most cases with many keys would be refused.
func askCases(seed uint64, n int) []askCase {
	dice := rand.New(rand.NewPCG(seed, 0))
	some := func(from map[string][]string) map[string]string {
		out := map[string]string{}
		keys := sortedKeys(from)
		for range dice.IntN(6) {
			key := keys[dice.IntN(len(keys))]
			out[key] = from[key][dice.IntN(len(from[key]))]
		}
		return out
	}
	amount := func(of ...int64) int64 { return of[dice.IntN(len(of))] }
	// The odd keys have dice of their own, so that they do not change the rest of the cases.
	others := rand.New(rand.NewPCG(seed, 1))
	add := func(dice *rand.Rand, to map[string]string, from map[string][]string, n int) {
		keys := sortedKeys(from)
		for range n {
			key := keys[dice.IntN(len(keys))]
			to[key] = from[key][dice.IntN(len(from[key]))]
		}
	}
	young := rand.New(rand.NewPCG(seed, 2))
	cases := make([]askCase, n)
	for i := range cases {
		c := askCase{
			Flavor: askFlavor{
				VCPUs: amount(1, 2, 4, 8), MemoryMB: amount(512, 4096), RootGB: amount(0, 1, 20),
				EphemeralGB: amount(0, 0, 3), Swap: amount(0, 1, 1024, 1025), ExtraSpecs: some(askSpecs),
			},
			Image: askImage{
				DiskFormat: []string{"qcow2", "raw", "vhd", "strange"}[dice.IntN(4)], Properties: some(askProperties),
			},
			BFV:     dice.IntN(4) == 0,
			Pinning: dice.IntN(4) != 0,
			Options: map[string]bool{
				"query_placement_for_image_type_support": dice.IntN(2) == 0, "image_metadata_prefilter": dice.IntN(2) == 0,
			},
		}
		// Pinning is tested more often than random keys would give it.
		if dice.IntN(3) == 0 {
			c.Flavor.ExtraSpecs["hw:cpu_policy"] = []string{"dedicated", "mixed"}[dice.IntN(2)]
		}
		if c.Strict = others.IntN(3) == 0; c.Strict {
			add(others, c.Flavor.ExtraSpecs, oddSpecs, 1+others.IntN(3))
			add(others, c.Image.Properties, oddTraits, others.IntN(2))
		}
		if young.IntN(3) == 0 {
			add(young, c.Flavor.ExtraSpecs, youngerSpecs, 1+young.IntN(2))
			add(young, c.Image.Properties, youngerProperties, young.IntN(3))
		}
		cases[i] = c
	}
	return cases
}

// query formats the request as the query of GET /allocation_candidates without a limit, to compare
// it with Nova's.
func (r *resourceRequest) query() string {
	var params [][2]string
	add := func(key, value string) { params = append(params, [2]string{key, value}) }
	if r.policy != "" {
		add("group_policy", r.policy)
	}
	if v := r.root.text(); v != "" {
		add("root_required", v)
	}
	for suffix, g := range r.groups {
		var amounts []string
		for class, n := range g.resources {
			amounts = append(amounts, class+":"+strconv.FormatInt(n, 10))
		}
		sort.Strings(amounts)
		add("resources"+suffix, strings.Join(amounts, ","))
		if v := g.text(); v != "" {
			add("required"+suffix, v)
		}
		for _, set := range g.memberOf {
			add("member_of"+suffix, "in:"+strings.Join(set, ","))
		}
		if len(g.forbiddenAggregates) > 0 {
			add("member_of"+suffix, "!in:"+strings.Join(g.forbiddenAggregates, ","))
		}
		if g.inTree != (schedule.ID{}) {
			add("in_tree"+suffix, g.inTree.String())
		}
	}
	slices.SortFunc(params, func(a, b [2]string) int {
		return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1])
	})
	var out []string
	for _, p := range params {
		out = append(out, p[0]+"="+url.QueryEscape(p[1]))
	}
	return strings.Join(out, "&")
}

// text formats the traits as Placement's parameter required: sorted, first the required ones, then
// the forbidden ones with "!".
func (t *traits) text() string {
	out := sortedKeys(t.required)
	for _, name := range sortedKeys(t.forbidden) {
		out = append(out, "!"+name)
	}
	return strings.Join(out, ",")
}
