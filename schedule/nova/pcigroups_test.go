package nova

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"cellgate/schedule"
)

const deviceRequest = "91000000-0000-4000-8000-000000000001"

func deviceGroups(r *schedule.Request) (out []schedule.ResourceGroup) {
	if r.Tree == nil {
		return nil
	}
	return r.Tree.Groups
}

func devicesByAlias(count float64, spec ...map[string]any) map[string]any {
	specs := make([]any, len(spec))
	for i := range spec {
		specs[i] = spec[i]
	}
	return map[string]any{"count": count, "spec": specs, "alias_name": "gpu", "request_id": deviceRequest}
}

func groupOfDevice(n int, class string, traits ...string) schedule.ResourceGroup {
	return schedule.ResourceGroup{Suffix: fmt.Sprintf("%s-%d", deviceRequest, n), Resources: []schedule.Amount{{Class: class, N: 1}}, Required: traits}
}

func TestPCIGroups_RequestsByAlias_AreAGroupForEachDevice(t *testing.T) {
	ids := map[string]any{"vendor_id": "10de", "product_id": "1db6", "dev_type": "type-PCI"}
	with := func(key, value string) map[string]any {
		return map[string]any{"vendor_id": "10de", "product_id": "1db6", key: value}
	}
	for name, c := range map[string]struct {
		devices map[string]any
		want    []schedule.ResourceGroup
	}{
		"ids": {devicesByAlias(2, ids), []schedule.ResourceGroup{groupOfDevice(0, "CUSTOM_PCI_10DE_1DB6"), groupOfDevice(1, "CUSTOM_PCI_10DE_1DB6")}},
		"traits": {
			devicesByAlias(1, with("traits", "HW_GPU_API_VULKAN,custom_fast,in rack 7,COLD")),
			[]schedule.ResourceGroup{groupOfDevice(0, "CUSTOM_PCI_10DE_1DB6", "CUSTOM_COLD", "CUSTOM_FAST", "CUSTOM_IN_RACK_7", "HW_GPU_API_VULKAN")},
		},
		"standard class": {devicesByAlias(1, with("resource_class", "pgpu")), []schedule.ResourceGroup{groupOfDevice(0, "PGPU")}},
		"custom class":   {devicesByAlias(1, with("resource_class", "custom_gpu")), []schedule.ResourceGroup{groupOfDevice(0, "CUSTOM_GPU")}},
		"any class":      {devicesByAlias(1, map[string]any{"resource_class": "big gpu!"}), []schedule.ResourceGroup{groupOfDevice(0, "CUSTOM_BIG_GPU_")}},
		// A port's devices have no groups: they are chosen from the hosts' pools.
		"a port's": {map[string]any{"count": 1.0, "spec": []any{map[string]any{"physical_network": "a"}}, "request_id": deviceRequest, "requester_id": port}, nil},
	} {
		m := primitive(t)
		requestDevices(m, c.devices)
		tr, err := (&Options{PCIInPlacement: true}).FromPrimitive(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := deviceGroups(&tr.Request); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: groups %+v, want %+v", name, got, c.want)
		}
		var suffixes []string
		for _, g := range c.want {
			suffixes = append(suffixes, g.Suffix)
		}
		if got := tr.Request.Nova.PCI[0].Groups; !slices.Equal(got, suffixes) {
			t.Errorf("%s: the request's groups %q, want %q", name, got, suffixes)
		}
		for _, spec := range tr.Request.Nova.PCI[0].Specs {
			for _, p := range spec {
				if p.Key == "resource_class" || p.Key == "traits" {
					t.Errorf("%s: hosts' pools are asked for %s", name, p.Key)
				}
			}
		}
		for _, o := range []Options{{}, {PCIInPlacement: true, Release: 26}} {
			tr, err := o.FromPrimitive(m)
			if err != nil || len(deviceGroups(&tr.Request)) > 0 || len(tr.Request.Nova.PCI[0].Groups) > 0 {
				t.Errorf("%s: options %+v: %v, %v", name, o, tr, err)
			}
		}
	}
}

// Nova's API and conductors may add groups for devices. These count, whatever PCIInPlacement is.
func TestPCIGroups_GroupsThatCameAlong_AreTheDevices(t *testing.T) {
	group := func(n int) any {
		return object1("RequestGroup", "1.3", map[string]any{
			"requester_id": fmt.Sprintf("%s-%d", deviceRequest, n), "use_same_provider": true,
			"resources": map[string]any{"CUSTOM_GPU": 1.0}, "required_traits": []any{"CUSTOM_FAST"},
		})
	}
	for _, on := range []bool{false, true} {
		o := &Options{PCIInPlacement: on}
		m := primitive(t)
		requestDevices(m, devicesByAlias(2, map[string]any{"vendor_id": "10de", "rp_uuids": "of an earlier claim"}))
		put(m, "/requested_resources", []any{group(1), group(0)})
		tr, err := o.FromPrimitive(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := deviceGroups(&tr.Request), []schedule.ResourceGroup{groupOfDevice(0, "CUSTOM_GPU", "CUSTOM_FAST"), groupOfDevice(1, "CUSTOM_GPU", "CUSTOM_FAST")}; !reflect.DeepEqual(got, want) {
			t.Errorf("groups %+v, want %+v", got, want)
		}
		pci := tr.Request.Nova.PCI[0]
		slices.Sort(pci.Groups)
		if len(pci.Groups) != 2 || pci.Groups[1] != deviceRequest+"-1" || len(pci.Specs[0]) != 1 {
			t.Errorf("asked of pools: %+v", pci)
		}
		put(m, "/requested_resources", []any{group(0)})
		_, err = o.FromPrimitive(m)
		refusedBy(t, err, []string{"nova_request_spec.pci_requests.requests[0]"}, "2 devices, but 1 groups")
	}
}

func TestPCIGroups_WhatPlacementCannotBeAsked_IsRefused(t *testing.T) {
	const path = "nova_request_spec.pci_requests.requests[0]"
	ids := map[string]any{"vendor_id": "10de", "product_id": "1db6"}
	nameless := devicesByAlias(1, ids)
	delete(nameless, "request_id")
	for _, c := range []struct {
		devices       map[string]any
		path, problem string
	}{
		{devicesByAlias(1, ids, ids), path, `PCI alias "gpu" has 2 specs`},
		{devicesByAlias(1), path, "0 specs"},
		{devicesByAlias(1, map[string]any{"vendor_id": "10de"}), path, `PCI alias "gpu" must have a resource_class, or a vendor_id and a product_id`},
		{devicesByAlias(1, map[string]any{"vendor_id": "10 de", "product_id": "1"}), path, "no resource class"},
		{devicesByAlias(1e9, ids), path, "the most is 64"},
		{nameless, path + ".request_id", "must be there"},
	} {
		m := primitive(t)
		requestDevices(m, c.devices)
		_, err := (&Options{PCIInPlacement: true}).FromPrimitive(m)
		refusedBy(t, err, []string{c.path}, c.problem)
		if _, err := (&Options{}).FromPrimitive(m); err != nil {
			t.Errorf("without the option: %v", err)
		}
	}
	// A rebuild asks nothing of Placement.
	m := primitive(t)
	requestDevices(m, nameless)
	put(m, "/scheduler_hints", map[string]any{"_nova_check_type": []any{"rebuild"}})
	if _, err := (&Options{PCIInPlacement: true}).FromPrimitive(m); err != nil {
		t.Error(err)
	}
}

// Aliases in the typed form get the same groups.
func TestPCIGroups_TypedForm_AliasesAreAGroupForEachDevice(t *testing.T) {
	const path = `request_spec.flavor.extra_specs["pci_passthrough:alias"]`
	on := &Options{PCIInPlacement: true}
	var err error
	if on.Aliases, _, err = NewAliases([]Alias{
		{Name: "gpu", VendorID: "10de", ProductID: "1db6", Traits: "HW_GPU_API_VULKAN+fast"},
		{Name: "nic", ResourceClass: "nic"},
		{Name: "two", VendorID: "10de", ProductID: "1db6", DeviceType: "type-VF"},
		{Name: "two", VendorID: "10de", ProductID: "1db7", DeviceType: "type-VF"},
	}); err != nil {
		t.Fatal(err)
	}
	typed := Spec{Path: "request_spec", Flavor: Flavor{VCPUs: 1, ExtraSpecs: map[string]string{"pci_passthrough:alias": "gpu:2,nic:1"}}}
	r, ignored, err := on.Compile(typed)
	if err != nil || len(ignored) > 0 {
		t.Fatal(ignored, err)
	}
	group := func(suffix, class string, traits ...string) schedule.ResourceGroup {
		return schedule.ResourceGroup{Suffix: suffix, Resources: []schedule.Amount{{Class: class, N: 1}}, Required: traits}
	}
	want := []schedule.ResourceGroup{
		group("pci_request_0-0", "CUSTOM_PCI_10DE_1DB6", "CUSTOM_FAST", "HW_GPU_API_VULKAN"),
		group("pci_request_0-1", "CUSTOM_PCI_10DE_1DB6", "CUSTOM_FAST", "HW_GPU_API_VULKAN"),
		group("pci_request_1-0", "CUSTOM_NIC"),
	}
	if !reflect.DeepEqual(r.Tree.Groups, want) || !slices.Equal(r.Nova.PCI[1].Groups, []string{"pci_request_1-0"}) {
		t.Errorf("groups %+v, of requests %+v; want %+v", r.Tree.Groups, r.Nova.PCI, want)
	}
	typed.Flavor.ExtraSpecs = map[string]string{"pci_passthrough:alias": "two:1"}
	_, _, err = on.Compile(typed)
	refusedBy(t, err, []string{path}, `PCI alias "two" has 2 specs`)
	typed.Flavor.ExtraSpecs = nil
	_, _, err = on.Compile(typed)
	refusedBy(t, err, nil, "")
}
