package nova

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/schedule"
)

// sampleSpecs gives the RequestSpec primitives of the bundled sample.
func sampleSpecs(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../samples/requests/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Spec json.RawMessage `json:"nova_request_spec"`
		}
		if err := json.Unmarshal(b, &body); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if body.Spec != nil {
			out[filepath.Base(f)] = body.Spec
		}
	}
	return out
}

// primitive gives a valid RequestSpec of which nothing is ignored.
func primitive(t testing.TB) map[string]any {
	t.Helper()
	for _, b := range sampleSpecs(t) {
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		d := m[dataKey].(map[string]any)
		delete(d, "image")
		d["instance_group"], d["requested_destination"] = nil, nil
		d["scheduler_hints"] = map[string]any{}
		d["flavor"] = object1("Flavor", "1.2", map[string]any{
			"name": "f", "vcpus": 2.0, "memory_mb": 4096.0, "root_gb": 20.0, "ephemeral_gb": 10.0, "swap": 1025.0,
			"extra_specs": map[string]any{},
		})
		d["ignore_hosts"], d["force_hosts"], d["force_nodes"], d["availability_zone"] = nil, nil, nil, nil
		d["request_level_params"], d["is_bfv"] = nil, false
		return m
	}
	return nil
}

func object1(name, version string, data map[string]any) map[string]any {
	return map[string]any{
		nameKey: name, namespaceKey: "nova", versionKey: version, dataKey: data,
	}
}

// put sets the value at a path of keys, which "/" separates.
func put(m map[string]any, path string, v any) {
	keys := strings.Split(path, "/")
	for _, k := range keys[:len(keys)-1] {
		if k == "" { // "" is the object's data
			k = dataKey
		}
		m = m[k].(map[string]any)
	}
	m[keys[len(keys)-1]] = v
}

func TestFromPrimitive(t *testing.T) {
	m := primitive(t)
	put(m, "/availability_zone", "az1")
	put(m, "/flavor//extra_specs", map[string]any{
		"resources:CUSTOM_FPGA_CARD": "2", "resources:VCPU": "0", "trait:CUSTOM_GOLD": "required",
		"trait:STORAGE_DISK_HDD": "forbidden", "quota:cpu_shares": "1", "hw:cpu_policy": "shared",
	})
	put(m, "/image", object1("ImageMeta", "1.8", map[string]any{
		"properties": object1("ImageMetaProps", "1.43", map[string]any{
			"traits_required": []any{"HW_CPU_X86_AVX2"}, "hw_qemu_guest_agent": true,
		}),
	}))
	put(m, "/requested_destination", object1("Destination", "1.4", map[string]any{
		"host": "h", "aggregates": []any{
			"A0000000-0000-4000-8000-000000000002,a0000000-0000-4000-8000-000000000001",
			"in:a0000000-0000-4000-8000-000000000003",
		},
		"forbidden_aggregates": []any{"a0000000-0000-4000-8000-000000000009"}, "allow_cross_cell_move": true,
		"cell": object1("CellMapping", "1.1", map[string]any{"uuid": "c0000000-0000-4000-8000-000000000001"}),
	}))
	put(m, "/instance_group", object1("InstanceGroup", "1.11", map[string]any{
		"uuid": "96000000-0000-4000-8000-000000000001", "policy": "anti-affinity", "policies": []any{"anti-affinity"},
		"_rules":  map[string]any{"max_server_per_host": "3"},
		"members": []any{"96000000-0000-4000-8000-000000000002"}, "hosts": []any{"h1"},
	}))
	put(m, "/scheduler_hints", map[string]any{
		"group": []any{"96000000-0000-4000-8000-000000000001"}, "_nova_check_type": "other", "reservation": []any{"r"},
	})
	put(m, "/new_field", 1.0)
	put(m, "/num_instances", 3.0)
	tr, err := new(Options).FromPrimitive(m)
	if err != nil {
		t.Fatal(err)
	}
	cell := "c0000000-0000-4000-8000-000000000001"
	want := schedule.Request{
		Resources:           []schedule.Amount{{Class: "CUSTOM_FPGA_CARD", N: 2}, {Class: "DISK_GB", N: 32}, {Class: "MEMORY_MB", N: 4096}},
		Required:            []string{"CUSTOM_GOLD", "HW_CPU_X86_AVX2"},
		Forbidden:           []string{"COMPUTE_STATUS_DISABLED", "STORAGE_DISK_HDD"},
		MemberOf:            [][]string{{"a0000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000002"}, {"a0000000-0000-4000-8000-000000000003"}},
		ForbiddenAggregates: []string{"a0000000-0000-4000-8000-000000000009"},
		AvailabilityZone:    "az1",
		Destination:         &schedule.Destination{Host: "h", Cell: cell, AllowCrossCellMove: true},
		Group: &schedule.Group{
			UUID: mustID("96000000-0000-4000-8000-000000000001"), Policy: schedule.AntiAffinity, MaxPerHost: 3,
			Members: []schedule.ID{mustID("96000000-0000-4000-8000-000000000002")}, Hosts: []string{"h1"},
		},
		CheckForced: true,
		Tree:        &schedule.Tree{Required: []string{"CUSTOM_GOLD", "HW_CPU_X86_AVX2"}, Forbidden: []string{"STORAGE_DISK_HDD"}},
		Consume:     schedule.Consumption{RAMMB: 4096, DiskMB: 32 * 1024},
	}
	want.Nova = tr.Request.Nova // TestNovaRequest compares this part
	if got, want := dump(tr.Request), dump(want); got != want {
		t.Errorf("request\n got %s\nwant %s", got, want)
	}
	ignored := []string{
		`nova_request_spec.flavor.extra_specs["hw:cpu_policy"]`, `nova_request_spec.flavor.extra_specs["quota:cpu_shares"]`,
		`nova_request_spec.image.properties["hw_qemu_guest_agent"]`, `nova_request_spec.new_field`,
		`nova_request_spec.scheduler_hints["reservation"]`,
	}
	slices.Sort(tr.Ignored)
	if !slices.Equal(tr.Ignored, ignored) {
		t.Errorf("ignored\n got %v\nwant %v", tr.Ignored, ignored)
	}
	if tr.NumInstances != 3 || tr.ProjectID == "" {
		t.Errorf("translated: %+v", tr)
	}
	if c := tr.Flavor.Consumption(); c != (schedule.Consumption{VCPUs: 2, RAMMB: 4096, DiskMB: 30 * 1024}) {
		t.Errorf("Nova's consumption: %+v", c)
	}
}

// dump formats a value with what its pointers point to.
func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func mustID(s string) schedule.ID {
	id, err := schedule.ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

func TestFromPrimitiveRefuses(t *testing.T) {
	spec := func(k string, v any) func(map[string]any) { return func(m map[string]any) { put(m, k, v) } }
	extra := func(k, v string) func(map[string]any) {
		return spec("/flavor//extra_specs", map[string]any{k: v})
	}
	hint := func(k string, v any) func(map[string]any) { return spec("/scheduler_hints", map[string]any{k: v}) }
	prop := func(k string, v any) func(map[string]any) {
		return spec("/image", object1("ImageMeta", "1.8", map[string]any{
			"properties": object1("ImageMetaProps", "1.34", map[string]any{k: v}),
		}))
	}
	group := func(k string, v any) func(map[string]any) {
		g := map[string]any{"uuid": "96000000-0000-4000-8000-000000000001", "policy": "affinity"}
		g[k] = v
		return spec("/instance_group", object1("InstanceGroup", "1.11", g))
	}
	cell := func(k string, v any) func(map[string]any) {
		c := map[string]any{"id": 0.0, "cpuset": []any{0.0}, "pcpuset": []any{}, "memory": 512.0}
		c[k] = v
		return spec("/numa_topology", object1("InstanceNUMATopology", "1.3", map[string]any{
			"cells": []any{object1("InstanceNUMACell", "1.6", c)},
		}))
	}
	requested := func(k string, v any) func(map[string]any) {
		g := map[string]any{"requester_id": "p", "resources": map[string]any{"VGPU": 1.0}}
		g[k] = v
		return spec("/requested_resources", []any{object1("RequestGroup", "1.3", g)})
	}
	device := func(k string, v any) func(map[string]any) {
		r := map[string]any{"count": 1.0, "spec": []any{}}
		r[k] = v
		return spec("/pci_requests", object1("InstancePCIRequests", "1.1", map[string]any{
			"requests": []any{object1("InstancePCIRequest", "1.4", r)},
		}))
	}
	cases := []struct {
		change func(map[string]any)
		path   string
		says   string
	}{
		{spec(versionKey, "1.16"), `["nova_object.version"]`, "unknown version 1.16; RequestSpec 1.0 to 1.15 are supported"},
		{spec(versionKey, "2.0"), `["nova_object.version"]`, "unknown version 2.0"},
		{spec(versionKey, "new"), `["nova_object.version"]`, "MAJOR.MINOR"},
		{spec(versionKey, 1.14), `["nova_object.version"]`, "a string"},
		{spec(nameKey, "Instance"), `["nova_object.name"]`, `must be "RequestSpec"`},
		{spec(namespaceKey, "cinder"), `["nova_object.namespace"]`, `must be "nova"`},
		{spec(dataKey, nil), `["nova_object.data"]`, "an object"},
		{spec("/flavor", nil), ".flavor", "is required"},
		{spec("/flavor", "m1.tiny"), ".flavor", "must be a Flavor object, not a string"},
		{spec("/flavor/"+versionKey, "1.3"), `.flavor["nova_object.version"]`, "Flavor 1.0 to 1.2 are supported"},
		{spec("/flavor//vcpus", -1.0), ".flavor.vcpus", "must not be negative, is -1"},
		{spec("/flavor//vcpus", 1.5), ".flavor.vcpus", "must be an integer, not 1.5"},
		{spec("/flavor//memory_mb", "512"), ".flavor.memory_mb", "must be an integer, not a string"},
		{spec("/flavor//memory_mb", nil), ".flavor.memory_mb", "is required"},
		{spec("/flavor//root_gb", 1e18), ".flavor.root_gb", "must be an integer"},
		{spec("/flavor//root_gb", 3e9), ".flavor.root_gb", "must be at most 2147483647"},
		{spec("/flavor//root_gb", 2147483647.0), ".flavor", "asks for 2147483659 of DISK_GB"},
		{extra("resources:GPU", "1"), `.flavor.extra_specs["resources:GPU"]`, "unknown resource class"},
		{extra("resources:VCPU", "-1"), `.flavor.extra_specs["resources:VCPU"]`, "negative"},
		{extra("resources:VCPU", "many"), `.flavor.extra_specs["resources:VCPU"]`, "integer"},
		{extra("resources 1:VGPU", "1"), `.flavor.extra_specs["resources 1:VGPU"]`, "names no group"},
		{extra("trait1:X", "required"), `.flavor`, `group "1" asks for no amount`},
		{spec("/flavor//extra_specs", map[string]any{"resources1:VGPU": "1", "resources2:VGPU": "1"}), `.flavor.extra_specs["group_policy"]`, "none or isolate"},
		{extra("accel:device_profile", "p"), `.flavor.extra_specs["accel:device_profile"]`, "requested_resources"},
		{requested("requester_id", "a b"), ".requested_resources[0].requester_id", "1 to 64 letters"},
		{requested("resources", map[string]any{"GPU": 1.0}), `.requested_resources[0].resources["GPU"]`, "unknown resource class"},
		{requested("resources", map[string]any{"VGPU": "x"}), `.requested_resources[0].resources["VGPU"]`, "integer"},
		{requested("resources", nil), ".requested_resources[0]", "asks for nothing"},
		{requested("aggregates", []any{[]any{"a"}}), ".requested_resources[0].aggregates[0][0]", "is not a uuid"},
		{requested("forbidden_aggregates", []any{"a"}), ".requested_resources[0].forbidden_aggregates[0]", "is not a uuid"},
		{requested("in_tree", "a"), ".requested_resources[0].in_tree", "is not a uuid"},
		{extra("trait:X", "wanted"), `.flavor.extra_specs["trait:X"]`, "required or forbidden"},
		{extra("trait:not a trait", "required"), `.flavor.extra_specs["trait:not a trait"]`, "no trait"},
		{extra("hw:from_the_future", "1"), `.flavor.extra_specs["hw:from_the_future"]`, "not supported"},
		{hint("group", []any{"a"}), `.scheduler_hints["group"]`, "without instance_group"},
		{hint("x", 1.0), `.scheduler_hints["x"]`, "list of strings, not a number"},
		{prop("hw_architecture", "vax"), `.image.properties["hw_architecture"]`, "not known to Nova"},
		{prop("img_hv_requested_version", "about 2"), `.image.properties["img_hv_requested_version"]`, "bounds of versions"},
		{prop("traits_required", []any{"x y"}), ".image.properties.traits_required[0]", "no trait"},
		{group("policy", "together"), ".instance_group.policy", "must be one of"},
		{group("uuid", "x"), ".instance_group.uuid", "not a uuid"},
		{group("members", []any{"x"}), ".instance_group.members[0]", "not a uuid"},
		{group("_rules", map[string]any{"max_server_per_host": "0"}), `.instance_group._rules["max_server_per_host"]`, "at least 1"},
		{group("_rules", map[string]any{"spread": "1"}), `.instance_group._rules["spread"]`, "not supported"},
		{group("policies", []any{"affinity", "soft-affinity"}), ".instance_group.policies", "one policy"},
		{spec("/num_instances", 0.0), ".num_instances", "at least 1"},
		{spec("/ignore_hosts", "h"), ".ignore_hosts", "list of strings, not a string"},
		{spec("/force_hosts", []any{"h", 1.0}), ".force_hosts[1]", "string, not a number"},
		{spec("/force_nodes", []any{""}), ".force_nodes[0]", "empty"},
		{spec("/is_bfv", "yes"), ".is_bfv", "true or false"},
		{spec("/instance_uuid", "x"), ".instance_uuid", "not a uuid"},
		{spec("/numa_topology", map[string]any{}), `.numa_topology["nova_object.name"]`, "InstanceNUMATopology"},
		{cell("cpuset", []any{0.5}), ".numa_topology.cells[0].cpuset[0]", "must be an integer"},
		{cell("pcpuset", []any{-1.0}), ".numa_topology.cells[0].pcpuset[0]", "0 to 4095"},
		{cell("memory", nil), ".numa_topology.cells[0].memory", "is required"},
		{cell("pagesize", -4.0), ".numa_topology.cells[0].pagesize", "-3 to"},
		{cell("cpu_policy", "own"), ".numa_topology.cells[0].cpu_policy", "shared, dedicated, mixed"},
		{cell("cpu_thread_policy", "any"), ".numa_topology.cells[0].cpu_thread_policy", "prefer, isolate, require"},
		{device("count", 0.0), ".pci_requests.requests[0].count", "at least 1"},
		{device("spec", []any{map[string]any{"vendor_id": 1.0}}), `.pci_requests.requests[0].spec[0]["vendor_id"]`, "a string"},
		{device("numa_policy", "near"), ".pci_requests.requests[0].numa_policy", "required, preferred, legacy, socket"},
		{spec("/network_metadata", object1("NetworkMetadata", "1.0", map[string]any{"physnets": "a"})), ".network_metadata.physnets", "list of strings"},
		{spec("/requested_resources", []any{1.0}), ".requested_resources[0]", "must be a RequestGroup object"},
		{spec("/request_level_params", object1("RequestLevelParams", "1.1", map[string]any{"same_subtree": []any{[]any{"a"}}})), ".request_level_params.same_subtree[0]", "no group's suffix"},
		{spec("/request_level_params", object1("RequestLevelParams", "1.1", map[string]any{"root_required": []any{"A"}, "root_forbidden": []any{"A"}})), ".request_level_params.root_forbidden[0]", "required as well"},
		{spec("/requested_destination", object1("Destination", "1.4", map[string]any{"host": ""})), ".requested_destination.host", "must not be empty"},
		{spec("/requested_destination", object1("Destination", "1.4", map[string]any{"aggregates": []any{"ssd"}})), ".requested_destination.aggregates[0][0]", "not a uuid"},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.path+" "+c.says, "/", "|"), func(t *testing.T) {
			m := primitive(t)
			c.change(m)
			_, err := new(Options).FromPrimitive(m)
			var e *fault.Error
			if !errors.As(err, &e) || e.Kind != fault.InvalidRequest {
				t.Fatalf("error %v, want INVALID_REQUEST", err)
			}
			for _, f := range e.Fields {
				if f.Path == "nova_request_spec"+c.path && strings.Contains(f.Problem, c.says) {
					return
				}
			}
			t.Errorf("fields %+v, want %s: %s", e.Fields, c.path, c.says)
		})
	}
}

// TestFromPrimitiveReportsAll checks that all problems are reported, each path once.
func TestFromPrimitiveReportsAll(t *testing.T) {
	m := primitive(t)
	put(m, "/flavor//vcpus", -1.0)
	put(m, "/is_bfv", 3.0)
	put(m, "/numa_topology", map[string]any{})
	put(m, "/force_nodes", []any{""})
	_, err := new(Options).FromPrimitive(m)
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Fields) != 4 {
		t.Errorf("%v, want four fields", err)
	}
	many := map[string]any{}
	for i := range 200 {
		many[fmt.Sprintf("hw:key%d", i)] = "x"
	}
	m = primitive(t)
	put(m, "/flavor//extra_specs", many)
	if _, err = new(Options).FromPrimitive(m); !errors.As(err, &e) || len(e.Fields) != maxReported+1 {
		t.Errorf("%d fields, want %d and a count of the rest", len(e.Fields), maxReported)
	}
}

func FuzzFromPrimitive(f *testing.F) {
	for _, b := range sampleSpecs(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m map[string]any
		if json.Unmarshal(b, &m) != nil {
			return
		}
		tr, err := new(Options).FromPrimitive(m)
		if err != nil {
			if fault.KindOf(err) != fault.InvalidRequest {
				t.Errorf("kind of %v", err)
			}
			return
		}
		if len(tr.Request.Resources) == 0 || tr.NumInstances < 1 {
			t.Errorf("accepted: %+v", tr)
		}
		for _, a := range tr.Request.Resources {
			if a.N < 1 || !KnownResourceClass(a.Class) {
				t.Errorf("amount %+v", a)
			}
		}
	})
}

// A group with policies but without the key policy is from an older release. If policy is null,
// Nova reads policies only for hard affinity, and so does Strict.
func TestGroupsOfPoliciesAlone(t *testing.T) {
	const unset = "-"
	for _, c := range []struct {
		policy, policies string
		want, strict     schedule.Policy
	}{
		{unset, "anti-affinity", schedule.AntiAffinity, schedule.AntiAffinity},
		{unset, "affinity", schedule.Affinity, schedule.Affinity},
		{"", "anti-affinity", schedule.AntiAffinity, ""},
		{"", "soft-affinity", schedule.SoftAffinity, ""},
		{"", "affinity", schedule.Affinity, schedule.Affinity},
		{"", "", "", ""},
		{"affinity", "", schedule.Affinity, schedule.Affinity},
	} {
		m, group := primitive(t), map[string]any{"uuid": "96000000-0000-4000-8000-000000000001", "policies": []any{}}
		if c.policies != "" {
			group["policies"] = []any{c.policies}
		}
		if c.policy != unset {
			group["policy"] = nil
		}
		if c.policy != unset && c.policy != "" {
			group["policy"] = c.policy
		}
		put(m, "/instance_group", object1("InstanceGroup", "1.11", group))
		for strict, want := range map[bool]schedule.Policy{false: c.want, true: c.strict} {
			o := &Options{Strict: strict}
			tr, err := o.FromPrimitive(clone(m))
			if err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
			var got schedule.Policy
			if tr.Request.Group != nil {
				got = tr.Request.Group.Policy
			}
			if got != want {
				t.Errorf("policy %q, policies %q, strict %v: %q, want %q", c.policy, c.policies, strict, got, want)
			}
		}
	}
}
