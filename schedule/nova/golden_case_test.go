package nova

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cellgate/schedule"
)

// goldenCase is a line of the golden file: one request to a small cloud, and Nova 26.2.2's answer.
type goldenCase struct {
	ID      string       `json:"id"`
	Now     goldenTime   `json:"now"`
	HostKey string       `json:"host_key"`
	Config  goldenConfig `json:"config"`
	Cells   []struct {
		UUID     string `json:"uuid"`
		Disabled bool   `json:"disabled"`
	} `json:"cells"`
	ComputeNodes []ComputeNode   `json:"compute_nodes"`
	Services     []goldenService `json:"services"`
	Instances    []struct {
		UUID     string `json:"uuid"`
		Host     string `json:"host"`
		CellUUID string `json:"cell_uuid"`
		Deleted  int64  `json:"deleted"`
		// Set if the instance's flavor and image are known, else absent.
		FlavorID *int64            `json:"instance_type_id"`
		Metadata map[string]string `json:"system_metadata"`
	} `json:"instances"`
	Aggregates []struct {
		UUID     string            `json:"uuid"`
		Name     string            `json:"name"`
		Hosts    []string          `json:"hosts"`
		Metadata map[string]string `json:"metadata"`
	} `json:"aggregates"`
	InstanceUUIDs []string       `json:"instance_uuids"`
	RequestSpec   map[string]any `json:"request_spec"`
	// Nova is the version that answered; "" means 26.2.2.
	Nova string `json:"nova"`
	// Alone are the filters that per_filter covers; nil means filtersAlone.
	Alone    []string       `json:"alone"`
	Expected goldenExpected `json:"expected"`
	// extraSpecs are the keys of the flavor's extra specs, in the order of the text.
	extraSpecs []string
	// replaced are hosts to use instead of the rows of the line.
	replaced []goldenHost
	// cells answer instead of tables of hosts, unless nil.
	cells []GoldenCell
}

type goldenConfig struct {
	EnabledFilters []string `json:"enabled_filters"`
	Weighers       []string `json:"weighers"`
	MaxIOOps       *int64   `json:"max_io_ops_per_host"`
	MaxInstances   *int64   `json:"max_instances_per_host"`
	IsolatedHosts  []string `json:"isolated_hosts"`
	IsolatedImages []string `json:"isolated_images"`
	Restrict       *bool    `json:"restrict_isolated_hosts_to_isolated_images"`
	Architecture   string   `json:"image_properties_default_architecture"`
	Namespace      string   `json:"aggregate_image_properties_isolation_namespace"`
	Separator      *string  `json:"aggregate_image_properties_isolation_separator"`
	ImageSetting   []string `json:"image_props_weight_setting"`
	SubsetSize     *int     `json:"host_subset_size"`
	Metrics        struct {
		Multiplier  *float64 `json:"weight_multiplier"`
		Setting     []string `json:"weight_setting"`
		Required    *bool    `json:"required"`
		Unavailable *float64 `json:"weight_of_unavailable"`
	} `json:"metrics"`
	Default struct {
		ServiceDownTime  *float64 `json:"service_down_time"`
		Zone             *string  `json:"default_availability_zone"`
		CPURatio         float64  `json:"cpu_allocation_ratio"`
		RAMRatio         float64  `json:"ram_allocation_ratio"`
		DiskRatio        float64  `json:"disk_allocation_ratio"`
		InitialCPURatio  *float64 `json:"initial_cpu_allocation_ratio"`
		InitialRAMRatio  *float64 `json:"initial_ram_allocation_ratio"`
		InitialDiskRatio *float64 `json:"initial_disk_allocation_ratio"`
	} `json:"DEFAULT"`
	// numbers has every option of [filter_scheduler] that is a number.
	numbers map[string]float64
	// unread are the options that this harness does not read.
	unread []string
}

type goldenExpected struct {
	Hosts          []string               `json:"hosts"`
	PerFilter      map[string][]string    `json:"per_filter"`
	PerFilterError map[string]goldenError `json:"per_filter_error"`
	Passed         []string               `json:"passed"`
	Weighed        []struct {
		Host   string             `json:"host"`
		Node   string             `json:"node"`
		Weight float64            `json:"weight"`
		Raw    map[string]float64 `json:"raw"`
	} `json:"weighed"`
	// Limits of the hosts that passed; nil if the case lacks them.
	Limits     map[string]goldenLimits `json:"limits"`
	HostStates []goldenState           `json:"host_states"`
	Sequence   *struct {
		Hosts []string `json:"hosts"`
		Error any      `json:"error"`
	} `json:"sequence"`
	Error *goldenError `json:"error"`
}

// goldenLimits are the limits of amounts in SchedulerLimits.
type goldenLimits struct {
	VCPUs    *int64 `json:"vcpu"`
	MemoryMB *int64 `json:"memory_mb"`
	DiskGB   *int64 `json:"disk_gb"`
}

// goldenState is a host's HostState in Nova when the filters ran.
type goldenState struct {
	Host         string   `json:"host"`
	CellUUID     string   `json:"cell_uuid"`
	TotalRAMMB   int64    `json:"total_usable_ram_mb"`
	TotalDiskGB  int64    `json:"total_usable_disk_gb"`
	DiskUsedMB   int64    `json:"disk_mb_used"`
	FreeRAMMB    int64    `json:"free_ram_mb"`
	FreeDiskMB   int64    `json:"free_disk_mb"`
	VCPUsTotal   int64    `json:"vcpus_total"`
	VCPUsUsed    int64    `json:"vcpus_used"`
	CPURatio     float64  `json:"cpu_allocation_ratio"`
	RAMRatio     float64  `json:"ram_allocation_ratio"`
	DiskRatio    float64  `json:"disk_allocation_ratio"`
	Instances    int64    `json:"num_instances"`
	IOOps        int64    `json:"num_io_ops"`
	FailedBuilds int64    `json:"failed_builds"`
	Aggregates   []string `json:"aggregates"`
	Running      []string `json:"instances"`
}

type goldenError struct {
	Stage   string `json:"stage"`
	Class   string `json:"class"`
	Message string `json:"message"`
	// reworded: the message need not be equal.
	reworded bool
}

type goldenService struct {
	Host       string      `json:"host"`
	Binary     string      `json:"binary"`
	CellUUID   string      `json:"cell_uuid"`
	Disabled   bool        `json:"disabled"`
	ForcedDown bool        `json:"forced_down"`
	LastSeenUp *goldenTime `json:"last_seen_up"`
	CreatedAt  *goldenTime `json:"created_at"`
	Deleted    int64       `json:"deleted"`
}

// goldenTime is a time in UTC, with or without a zone in its text.
type goldenTime time.Time

func (t *goldenTime) UnmarshalText(b []byte) error {
	s, _, _ := strings.Cut(strings.TrimSuffix(strings.Replace(string(b), " ", "T", 1), "Z"), "+")
	x, err := time.Parse("2006-01-02T15:04:05", s)
	*t = goldenTime(x)
	return err
}

func (c *goldenConfig) UnmarshalJSON(b []byte) error {
	type plain goldenConfig
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	c.numbers = map[string]float64{}
	if c.EnabledFilters == nil {
		c.EnabledFilters = []string{
			"ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter",
		}
	}
	// These four change no result here. The case also lists its weighers; hosts of equal weight may
	// be in any order; available filters and instance tracking do not affect choices.
	read := []string{"weight_classes", "shuffle_best_same_weighed_hosts", "available_filters", "track_instance_changes"}
	for f := range reflect.TypeFor[goldenConfig]().Fields() {
		name := f.Tag.Get("json")
		read = append(read, name)
		// The options of a group must be known, too.
		group, _ := all[name].(map[string]any)
		var known []string
		if f.Type.Kind() == reflect.Struct {
			for o := range f.Type.Fields() {
				known = append(known, o.Tag.Get("json"))
			}
		}
		for k := range group {
			if !slices.Contains(known, k) {
				c.unread = append(c.unread, name+"."+k)
			}
		}
	}
	for _, name := range schedule.Weighers() {
		read = append(read, schedule.MultiplierOption(name))
	}
	for k, v := range all {
		if !slices.Contains(read, k) {
			c.unread = append(c.unread, k)
		}
		if n, ok := v.(float64); ok {
			c.numbers[k] = n
		}
	}
	return nil
}

// bundledGolden are the cases that come with the source.
const bundledGolden = "testdata/nova-filters.jsonl.gz"

// loadGolden reads the bundled cases, or those of CELLGATE_GOLDEN.
func loadGolden(t *testing.T) []*goldenCase {
	t.Helper()
	if name := os.Getenv("CELLGATE_GOLDEN"); name != "" {
		return loadCases(t, found(t, name))
	}
	return loadCases(t, bundledGolden)
}

// found gives the path of the file in CELLGATE_GOLDEN. go test runs in the package's folder, so a
// relative name is also tried from the module's root.
func found(t *testing.T, name string) string {
	t.Helper()
	tried := []string{name}
	if !filepath.IsAbs(name) {
		tried = append(tried, filepath.Join("..", "..", name))
	}
	for _, at := range tried {
		if _, err := os.Stat(at); err == nil {
			return at
		}
	}
	t.Fatalf("CELLGATE_GOLDEN=%s: there is no such file, neither from schedule/nova nor from the root of the module; give its absolute path", name)
	return ""
}

// loadCases reads a file of cases. The test fails for cases that cannot be read, but goes on with
// the others.
func loadCases(t *testing.T, name string) []*goldenCase {
	t.Helper()
	cases, unreadable := readCases(t, name)
	for _, err := range unreadable {
		t.Errorf("%s: %v", name, err)
	}
	if len(cases) == 0 {
		t.Fatalf("%s: no cases", name)
	}
	return cases
}

func readCases(t *testing.T, name string) (cases []*goldenCase, unreadable []error) {
	t.Helper()
	for i, line := range linesOf(t, name) {
		c, err := parseCase(line)
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("case %d cannot be read: %w: %.80s", i+1, err, line))
			continue
		}
		cases = append(cases, c)
	}
	return cases, unreadable
}

func parseCase(line []byte) (*goldenCase, error) {
	c := new(goldenCase)
	err := json.Unmarshal(line, c)
	if err == nil {
		c.extraSpecs, err = extraSpecOrder(line)
	}
	return c, err
}

// linesOf gives the non-empty lines of a file, which may be compressed.
func linesOf(t *testing.T, name string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var r io.Reader = bytes.NewReader(b)
	if bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var all [][]byte
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) > 0 {
			all = append(all, bytes.Clone(lines.Bytes()))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all
}

// goldenHost is a host and its instances.
type goldenHost struct {
	schedule.Host
	key       string
	instances []schedule.ID
	// details has the flavors and images of instances, where they are known.
	details map[schedule.ID]schedule.Consumer
}

// consumer gives an instance on the host with its details.
func (h *goldenHost) consumer(id schedule.ID) schedule.Consumer {
	c := h.details[id]
	c.Instance = id
	return c
}

// initialCPURatio and initialRAMRatio are the defaults of initial_cpu_allocation_ratio and
// initial_ram_allocation_ratio in the cases' release (26.2.2: nova/conf/compute.py). Later releases
// have 4 and 1.
const (
	initialCPURatio = 16
	initialRAMRatio = 1.5
)

// first gives the first ratio that is not 0.
func first(ratios ...float64) float64 {
	for _, r := range ratios {
		if r != 0 {
			return r
		}
	}
	return 0
}

func value[T any](option *T, otherwise T) T {
	if option == nil {
		return otherwise
	}
	return *option
}

// hosts builds the hosts of a case from its rows, as Nova builds host states. It takes the compute
// nodes of the enabled cells, or of the requested cell, that are not deleted and have a
// nova-compute service that is not deleted.
func (c *goldenCase) hosts() ([]goldenHost, error) {
	if c.replaced != nil {
		return c.replaced, nil
	}
	d := &c.Config.Default
	o := RowOptions{
		ServiceDownTime:     time.Duration(value(d.ServiceDownTime, 60) * float64(time.Second)),
		CPUAllocationRatio:  first(d.CPURatio, value(d.InitialCPURatio, initialCPURatio)),
		RAMAllocationRatio:  first(d.RAMRatio, value(d.InitialRAMRatio, initialRAMRatio)),
		DiskAllocationRatio: first(d.DiskRatio, value(d.InitialDiskRatio, 1)),
	}
	var out []goldenHost
	for i := range c.ComputeNodes {
		n := c.ComputeNodes[i]
		n.CellUUID = c.cellOf(n.CellUUID)
		s := c.service(n.Host)
		if n.Deleted != 0 || s == nil || !c.searched(n.CellUUID) {
			continue
		}
		h, err := HostFromRows(&n, s, c.aggregatesOf(n.Host), time.Time(c.Now), o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		g := goldenHost{Host: h, key: n.Host}
		if c.HostKey == "host/node" {
			g.key += "/" + n.HypervisorHostname
		}
		for _, row := range c.Instances {
			if row.Deleted == 0 && row.Host == n.Host && c.cellOf(row.CellUUID) == n.CellUUID {
				id, err := schedule.ParseID(row.UUID)
				if err != nil {
					return nil, err
				}
				g.instances = append(g.instances, id)
				if row.FlavorID != nil {
					if g.details == nil {
						g.details = map[schedule.ID]schedule.Consumer{}
					}
					g.details[id] = schedule.Consumer{Flavor: c.flavorID(*row.FlavorID), Image: imageOf(row.Metadata)}
				}
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// flavorID gives the flavorid of a flavor's number. A case has only the request's flavor, so others
// get a made-up id.
func (c *goldenCase) flavorID(number int64) string {
	f := c.spec()["flavor"].(map[string]any)[dataKey].(map[string]any)
	if f["id"] == float64(number) {
		return fmt.Sprint(f["flavorid"])
	}
	return fmt.Sprint("number ", number)
}

// imageOf reads the image properties in an instance's system metadata.
func imageOf(metadata map[string]string) *schedule.Image {
	s := Spec{ImageProperties: map[string]string{}}
	for k, v := range metadata {
		s.ImageProperties[strings.TrimPrefix(k, "image_")] = v
	}
	return &schedule.Image{Properties: (&findings{options: new(Options)}).properties(&s)}
}

// cellOf gives a row's cell; a row that names none is in the first.
func (c *goldenCase) cellOf(uuid string) string {
	if uuid == "" {
		return c.Cells[0].UUID
	}
	return uuid
}

// searched reports whether Nova loads hosts of the cell. If a cell is requested, only that one is
// searched, unless the move may cross cells. Otherwise all enabled cells are.
func (c *goldenCase) searched(cell string) bool {
	data := c.spec()
	if d, ok := data["requested_destination"].(map[string]any); ok {
		d := d[dataKey].(map[string]any)
		if m, ok := d["cell"].(map[string]any); ok && d["allow_cross_cell_move"] != true {
			return m[dataKey].(map[string]any)["uuid"] == cell
		}
	}
	for _, x := range c.Cells {
		if x.UUID == cell {
			return !x.Disabled
		}
	}
	return false
}

func (c *goldenCase) spec() map[string]any { return c.RequestSpec[dataKey].(map[string]any) }

func (c *goldenCase) service(host string) *Service {
	for _, s := range c.Services {
		if s.Host == host && s.Deleted == 0 && s.Binary == "nova-compute" && c.searched(c.cellOf(s.CellUUID)) {
			return &Service{
				Host: s.Host, Binary: s.Binary, Disabled: s.Disabled, ForcedDown: s.ForcedDown,
				LastSeenUp: (*time.Time)(s.LastSeenUp), CreatedAt: (*time.Time)(s.CreatedAt),
			}
		}
	}
	return nil
}

func (c *goldenCase) aggregatesOf(host string) []schedule.Aggregate {
	var in []schedule.Aggregate
	for _, a := range c.Aggregates {
		if slices.Contains(a.Hosts, host) {
			in = append(in, schedule.Aggregate{UUID: a.UUID, Name: a.Name, Metadata: a.Metadata})
		}
	}
	return in
}
