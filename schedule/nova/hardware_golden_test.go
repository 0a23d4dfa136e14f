package nova

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"cellgate/internal/testlong"
	"cellgate/schedule"
)

// hardwareCase is a line of testdata/nova-hardware.jsonl.gz: one host's topology and devices, one
// request, and the answers of Nova 26.2.2's NUMATopologyFilter and PciPassthroughFilter. There is
// an answer before each of up to four instances, which all start from the original request, and the
// host state after it. testdata/hardware_cases.py draws such cases at random. The bundled cases are
// from an earlier version of the script, which also had devices in the form of old computes. Nova
// 33.0.0's answers to them are in testdata/nova-hardware-newest.jsonl.gz, line by line.
type hardwareCase struct {
	NUMATopology string  `json:"numa_topology"`
	PCIStats     *string `json:"pci_stats"`
	CPURatio     float64 `json:"cpu_allocation_ratio"`
	RAMRatio     float64 `json:"ram_allocation_ratio"`
	Request      struct {
		NUMATopology    map[string]any `json:"numa_topology"`
		PCIRequests     map[string]any `json:"pci_requests"`
		NetworkMetadata map[string]any `json:"network_metadata"`
	} `json:"request"`
	ExtraSpecs map[string]any `json:"extra_specs"`
	hardwareAnswer
}

// hardwareAnswer has a step for each instance, up to the first that does not pass.
type hardwareAnswer struct {
	Steps []struct {
		NUMA    bool   `json:"numa"`
		PCI     bool   `json:"pci"`
		Raises  string `json:"raises"`
		IOOps   int64  `json:"io_ops"`
		Devices int64  `json:"devices"`
	} `json:"steps"`
}

// query translates the request from the form of nova_request_spec, for a release.
func (c *hardwareCase) query(t *testing.T, form map[string]any, release int) *schedule.Query {
	t.Helper()
	m := clone(form)
	data := m[dataKey].(map[string]any)
	for key := range data {
		if key != "flavor" {
			delete(data, key)
		}
	}
	put(m, "/flavor//extra_specs", c.ExtraSpecs)
	put(m, "/image", object1("ImageMeta", "1.8", map[string]any{"properties": object1("ImageMetaProps", "1.34", map[string]any{})}))
	if c.Request.NUMATopology != nil {
		put(m, "/numa_topology", c.Request.NUMATopology)
	}
	if c.Request.NetworkMetadata != nil {
		put(m, "/network_metadata", c.Request.NetworkMetadata)
	}
	put(m, "/pci_requests", c.Request.PCIRequests)
	tr, err := (&Options{Release: release}).FromPrimitive(m)
	if err != nil {
		t.Fatal(err)
	}
	options := schedule.DefaultOptions()
	options.StrictNova = true
	return &schedule.Query{
		Request: &tr.Request, Limit: 1,
		Rules: &schedule.Rules{
			Filters:  []string{schedule.NUMAFilter, schedule.PCIFilter},
			Weighers: []schedule.Weigher{{Name: schedule.IoOpsWeigher, Multiplier: -1}, {Name: schedule.PCIWeigher, Multiplier: 1}},
			Options:  options,
		},
	}
}

// Hosts pass, raise and are consumed as in Nova 26.2.2.
func TestHardwareIsNovas(t *testing.T) {
	all := hardwareCases(t, bundledLines(t, "testdata/nova-hardware.jsonl.gz"), 26, nil)
	if all.cases < 2000 || all.placed < all.cases/2 || all.later < all.cases/4 || all.raised == 0 {
		t.Errorf("%+v: the cases show too little", all)
	}
}

// Hosts also behave as in Nova 33.0.0, which answers some cases differently.
func TestHardwareIsNewestNovas(t *testing.T) {
	newest := bundledLines(t, "testdata/nova-hardware-newest.jsonl.gz")
	all := hardwareCases(t, bundledLines(t, "testdata/nova-hardware.jsonl.gz"), 33, newest)
	if all.cases < 2000 || all.placed < all.cases/2 || all.later < all.cases/4 || all.raised == 0 || all.other < 50 {
		t.Errorf("%+v: the cases show too little", all)
	}
	if newest.Scan() {
		t.Error("there are more answers than cases")
	}
}

func bundledLines(t *testing.T, name string) *bufio.Scanner {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // the file was only read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	return lines
}

// TestHardwareAgainstNova compares with the installed Nova's answers to new cases.
func TestHardwareAgainstNova(t *testing.T) {
	testlong.Only(t, "TestHardwareIsNovas")
	const python = "/usr/bin/python3"
	if out, err := exec.CommandContext(t.Context(), python, "-W", "ignore", "-c", "import nova.scheduler.host_manager").CombinedOutput(); err != nil {
		t.Skipf("Nova cannot be asked (apt install python3-nova): %v: %.200s", err, out)
	}
	seed := strconv.FormatInt(time.Now().UnixNano(), 10)
	cmd := exec.CommandContext(t.Context(), python, "-W", "ignore", "testdata/hardware_cases.py", "300", seed)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	if all := hardwareCases(t, lines, 26, nil); all.cases != 300 || all.placed < 50 {
		t.Errorf("%+v: the cases show too little", all)
	}
	if t.Failed() {
		t.Logf("seed %s", seed)
	}
}

// hardwareCount counts the cases, the instances that they placed, those of them after a first one,
// the exceptions of Nova, and the cases to which newest has other answers.
type hardwareCount struct{ cases, placed, later, raised, other int }

// hardwareCases compares the cases as a release would decide them. The expected answers are the
// cases' own; with newest, they are those of its lines.
func hardwareCases(t *testing.T, lines *bufio.Scanner, release int, newest *bufio.Scanner) (all hardwareCount) {
	t.Helper()
	form := primitive(t)
	for ; lines.Scan(); all.cases++ {
		var c hardwareCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if newest != nil {
			if !newest.Scan() {
				t.Fatalf("case %d has no answer: %v", all.cases, newest.Err())
			}
			was := c.Steps
			c.hardwareAnswer = hardwareAnswer{}
			if err := json.Unmarshal(newest.Bytes(), &c.hardwareAnswer); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(was, c.Steps) {
				all.other++
			}
		}
		if problem := c.compare(t, c.query(t, form, release), &all); problem != "" {
			t.Errorf("case %d, %s\n%s", all.cases, problem, lines.Bytes())
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", all)
	return all
}

// compare replays the instances of the case. problem is the first difference from Nova; "": there
// is none.
func (c *hardwareCase) compare(t *testing.T, q *schedule.Query, all *hardwareCount) (problem string) {
	t.Helper()
	id := schedule.ID{1}
	h := schedule.Host{
		UUID:  id,
		View:  schedule.View{CPURatio: c.CPURatio, RAMRatio: c.RAMRatio},
		Facts: schedule.ParseFacts(schedule.FactTexts{NUMATopology: c.NUMATopology, PCIPools: text(c.PCIStats)}),
	}
	if h.View.PCIFree = h.Facts.FreeDevices(); len(h.Facts.Failed) > 0 {
		return fmt.Sprintf("the host: %v", h.Facts.Failed)
	}
	e := schedule.NewTable().Edit()
	e.PutHost(h)
	table := e.Table()
	for i, want := range c.Steps {
		q.Rules.Filters = []string{schedule.NUMAFilter}
		got := ask1(t, table, q)
		if class := classOf(got.NovaException); got.Passed == 1 != want.NUMA || class != want.Raises {
			return fmt.Sprintf("instance %d: NUMATopologyFilter passes %v (raises %q), want %v (%q)", i, got.Passed == 1, class, want.NUMA, want.Raises)
		}
		q.Rules.Filters = []string{schedule.PCIFilter}
		if got := ask1(t, table, q); got.Passed == 1 != want.PCI {
			return fmt.Sprintf("instance %d: PciPassthroughFilter passes %v, want %v", i, got.Passed == 1, want.PCI)
		}
		all.raised += len(want.Raises)
		if !want.NUMA || !want.PCI {
			break
		}
		all.placed++
		if i > 0 {
			all.later++
		}
		e := table.Edit()
		e.Take(schedule.TentativePlacement{Host: id, Instance: schedule.ID{2, byte(i)}}, q.Request)
		table = e.Table()
		after, _ := table.Host(id)
		if after.View.NumIOOps != want.IOOps || after.View.PCIFree != want.Devices {
			return fmt.Sprintf("after instance %d: %d io operations and %d devices, want %d and %d",
				i, after.View.NumIOOps, after.View.PCIFree, want.IOOps, want.Devices)
		}
	}
	return ""
}

func ask1(t *testing.T, table *schedule.Table, q *schedule.Query) *schedule.Proposal {
	t.Helper()
	p, err := table.Propose(q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func classOf(r *schedule.NovaException) string {
	if r == nil {
		return ""
	}
	return r.Class
}
