package hostprobe

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	first  = "11111111-0000-4000-8000-000000000001"
	second = "11111111-0000-4000-8000-000000000002"
)

// directory is a directory of instances with these files.
func directory(files map[string]string) Directory {
	all := fstest.MapFS{"var/instances": &fstest.MapFile{Mode: 0o755 | 1<<31}}
	for name, text := range files {
		all["var/instances/"+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return Directory{FS: all, Path: "var/instances"}
}

func TestInstancesOfADirectoryAreReported(t *testing.T) {
	s := sriov()
	r := reader(t, tree(t, "two-nodes"))
	got, err := Read(hostUUID, Config{Settings: s, Instances: directory(map[string]string{
		first + ".json": `{"instance_uuid": "` + first + `", "project_id": "p", "user_id": "u",
			"resources": {"PCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20},
			"numa": [{"node": 1, "cpus": 2, "pinned_cpus": [4, 12], "memory_mb": 4096, "page_size_kb": 1048576}],
			"pci_devices": ["0000:81:02.0"]}`,
		second + ".json": `{"instance_uuid": "` + second + `", "resources": {"VCPU": 1}, "numa": [{"node": 0, "cpus": 1, "memory_mb": 512}]}`,
		".new-1":         `half`,
	})}, r.Read)
	if err != nil {
		t.Fatal(err)
	}
	readable(t, got.State)
	i := got.State.GetInstances()
	if len(i) != 2 || i[0].GetInstanceUuid() != first || i[0].GetProjectId() != "p" || i[0].GetUserId() != "u" || len(i[0].GetUsages()) != 3 ||
		i[0].GetUsages()[2].GetResourceClass() != "PCPU" || i[0].GetUsages()[2].GetAmount() != 2 || i[0].GetUsages()[2].GetProviderUuid() != hostUUID {
		t.Errorf("instances %v", i)
	}
	c := cells(t, got.State)
	pages := c[1]["mempages"].([]any)[2].(map[string]any)
	if !slices.Equal(numbers(c[1]["pinned_cpus"]), []int{4, 12}) || c[1]["cpu_usage"] != 2.0 || c[1]["memory_usage"] != 4096.0 || pages["used"] != 4.0 {
		t.Errorf("cell 1 is %v", c[1])
	}
	if c[0]["cpu_usage"] != 1.0 || c[0]["memory_usage"] != 512.0 || len(numbers(c[0]["pinned_cpus"])) != 0 {
		t.Errorf("cell 0 is %v", c[0])
	}
	if strings.Count(got.State.GetFacts().GetPciStats(), `"count":1`) != 3 { // one of two virtual functions, and both of the other card
		t.Error(got.State.GetFacts().GetPciStats())
	}
}

// Each wrong file is named, all at once.
func TestBadInstancesAreNamed(t *testing.T) {
	object := func(more string) string { return `{"instance_uuid": "` + first + `"` + more + `}` }
	for text, want := range map[string]string{
		"":        "EOF",
		"[]":      "cannot unmarshal array",
		"{}":      `instance_uuid: "" is not a uuid`,
		`{"a":1}`: `unknown field "a"`,
		object(`, "project_id": "` + strings.Repeat("x", 256) + `"`): "longer than 255",
		object(`, "resources": {"VCPU": 0}`):                         "not an amount above 0",
		object(`, "resources": {"vcpu": 1}`):                         "not an amount above 0",
		object(`, "resources": {"VCPU": 4294967296}`):                "cannot unmarshal number",
		object(``) + `{}`:                                                       "something after",
		object(`, "numa": [{"node": -1}]`):                                      "below 0",
		object(`, "numa": [{"node": 0}, {"node": 0}]`):                          "stands there already",
		object(`, "numa": [{"node": 0, "cpus": 1, "pinned_cpus": [1, 2]}]`):     "2 pinned_cpus for 1 cpus",
		object(`, "numa": [{"node": 0, "memory_mb": 3, "page_size_kb": 2048}]`): "not a whole number of pages",
		object(`, "pci_devices": ["81:00.0"]`):                                  "no PCI address",
		object(`, "pci_devices": ["0000:81:00.0", "0000:81:00.0"]`):             "stands there already",
		strings.Replace(object(""), first, second, 1):                           "not that of the file's name",
		object(strings.Repeat(" ", maxInstanceFile)):                            "larger than",
		object(`, "numa": [{"node": 0, "memory_mb": 99999999999}]`):             "too large",
		object(`, "numa": [{"node": 0, "page_size_kb": 9223372036854775807}]`):  "too large",
		object(`, "pci_devices": ["0000:81:00.0` + "\n" + `"]`):                 "invalid character",
	} {
		_, err := directory(map[string]string{first + ".json": text}).List()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/var/instances/"+first+".json") {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
	_, err := directory(map[string]string{"readme.txt": "", "x.json": "{}", second + ".json": "{"}).List()
	for _, want := range []string{"readme.txt", "x.json", second} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q named", err, want)
		}
	}
	if _, err := (Directory{FS: fstest.MapFS{}, Path: "gone"}).List(); err == nil || !strings.Contains(err.Error(), "agent.host.instances_dir") {
		t.Errorf("no directory: %v", err)
	}
}

// A uuid in capitals is the same uuid. It is reported once, in lower case.
func TestInstancesInCapitals(t *testing.T) {
	const lower = "abcdef12-0000-4000-8000-00000000abcd"
	upper := strings.ToUpper(lower)
	object := func(uuid string) string { return `{"instance_uuid": "` + uuid + `"}` }
	for name, uuid := range map[string]string{upper: upper, lower: upper, upper[:8] + lower[8:]: lower} {
		all, err := directory(map[string]string{name + ".json": object(uuid)}).List()
		if err != nil || len(all) != 1 || all[0].UUID != lower {
			t.Errorf("%s in %s: %v, %v", uuid, name, all, err)
		}
	}
	_, err := directory(map[string]string{lower + ".json": object(lower), upper + ".json": object(upper)}).List()
	for _, want := range []string{lower + ".json", upper + ".json", "of one instance"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("two files of one instance: %v, want %q", err, want)
		}
	}
}

// An instance that the host cannot hold is named.
func TestInstancesThatDoNotFitTheMachine(t *testing.T) {
	for want, i := range map[string]Instance{
		"the host has no PCPU":                {Resources: map[string]int32{"PCPU": 1}},
		"the host has no NUMA node 3":         {NUMA: []InstanceNode{{Node: 3}}},
		"CPU 4 is no dedicated one of node 0": {NUMA: []InstanceNode{{CPUs: 1, PinnedCPUs: []int{4}}}},
		"node 0 has no pages of 65536 KiB":    {NUMA: []InstanceNode{{MemoryMB: 64, PageSizeKB: 65536}}},
		"CPU 3 is pinned twice":               {NUMA: []InstanceNode{{CPUs: 2, PinnedCPUs: []int{3, 3}}}},
	} {
		i.UUID = first
		_, err := report(t, tree(t, "two-nodes"), plain(), i)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestWithoutADirectoryInstancesAreNotKnown(t *testing.T) {
	r := reader(t, tree(t, "one-node"))
	for name, c := range map[string]struct {
		from    Instances
		unknown bool
	}{
		"no directory":       {nil, true},
		"an empty directory": {directory(nil), false},
	} {
		got, err := Read(hostUUID, Config{Settings: plain(), Instances: c.from}, r.Read)
		if err != nil || got.State.GetInstancesUnknown() != c.unknown || len(got.State.GetInstances()) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	missing := directory(nil)
	missing.Path = "var/elsewhere"
	if got, err := Read(hostUUID, Config{Settings: plain(), Instances: missing}, r.Read); err == nil || !strings.Contains(err.Error(), "agent.host.instances_dir") {
		t.Errorf("a directory that is not there: %v, %v", got, err)
	}
}
