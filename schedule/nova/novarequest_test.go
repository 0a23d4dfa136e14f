package nova

import (
	"slices"
	"testing"

	"cellgate/schedule"
)

// TestNovaRequest checks that the request has everything that Nova's own filters read, in a
// canonical order, and nothing else.
func TestNovaRequest(t *testing.T) {
	m := primitive(t)
	put(m, "/project_id", "p1")
	put(m, "/flavor//name", "m1.tiny")
	put(m, "/flavor//flavorid", "7")
	put(m, "/flavor//extra_specs", map[string]any{
		"ssd": "true", "capabilities:cpu_info:arch": "x86_64", "quota:cpu_shares": "1", "hw:cpu_policy": "shared",
		"aggregate_instance_extra_specs:tier": "gold", "hw:maxphysaddr_bits": "46",
	})
	put(m, "/image", object1("ImageMeta", "1.8", map[string]any{
		"id": "1a000000-0000-4000-8000-000000000001",
		"properties": object1("ImageMetaProps", "1.34", map[string]any{
			"hw_architecture": "amd64", "hw_qemu_guest_agent": true, "hw_cpu_cores": 0.0, "traits_required": []any{"HW_CPU_X86_AVX"},
		}),
	}))
	put(m, "/scheduler_hints", map[string]any{"same_host": []any{"b", "a"}, "reservation": "r", "query": "[]"})
	put(m, "/retry", object1("SchedulerRetries", "1.1", map[string]any{
		"num_attempts": 1.0,
		"hosts": object1("ComputeNodeList", "1.17", map[string]any{"objects": []any{
			object1("ComputeNode", "1.19", map[string]any{"host": "h1", "hypervisor_hostname": "n1"}),
		}}),
	}))
	tr, err := new(Options).FromPrimitive(m)
	if err != nil {
		t.Fatal(err)
	}
	got := tr.Request.Nova
	want := &schedule.NovaRequest{
		Flavor: got.Flavor,
		Image: &schedule.Image{ID: "1a000000-0000-4000-8000-000000000001", Properties: []schedule.Property{
			{Name: "hw_architecture", Text: "x86_64"},
			{Name: "hw_cpu_cores", Text: "0", Zero: true},
			{Name: "hw_qemu_guest_agent", Text: "True"},
		}},
		Hints:     []schedule.Hint{{Name: "query", Values: []string{"[]"}}, {Name: "same_host", Values: []string{"b", "a"}}},
		ProjectID: "p1",
		Retry:     []schedule.RetryHost{{Host: "h1", Node: "n1"}},
	}
	want.Flavor.ID, want.Flavor.Name = "7", "m1.tiny"
	want.Flavor.ExtraSpecs = []schedule.Pair{
		{Key: "aggregate_instance_extra_specs:tier", Value: "gold"},
		{Key: "capabilities:cpu_info:arch", Value: "x86_64"},
		{Key: "hw:maxphysaddr_bits", Value: "46"},
		{Key: "ssd", Value: "true"},
	}
	if got, want := dump(got), dump(want); got != want {
		t.Errorf("Nova's part\n got %s\nwant %s", got, want)
	}
}

// Old names of Glance's image properties count as Nova's current names. Properties that Nova does
// not know are dropped.
func TestImagePropertiesByTheirOldNames(t *testing.T) {
	s := Spec{Path: "request_spec", Flavor: Flavor{Name: "m1", VCPUs: 1, MemoryMB: 512}}
	s.ImageProperties = map[string]string{
		"architecture": "i686", "hw_architecture": "amd64", "vmware_adaptertype": "lsiLogic", "bdm_v2": "yes", "mine": "x",
		"hypervisor_version_requires": ">=6.0",
	}
	r, _, err := new(Options).Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range r.Nova.Image.Properties {
		got[p.Name] += p.Text
	}
	want := map[string]string{
		"hw_architecture": "x86_64", "hw_disk_bus": "scsi", "hw_scsi_model": "lsiLogic", "img_bdm_v2": "True",
		"img_hv_requested_version": ">=6.0",
	}
	if dump(got) != dump(want) {
		t.Errorf("got %s, want %s", dump(got), dump(want))
	}
}

// A group without a policy, or with the policy of old releases, decides nothing and is reported as
// ignored.
func TestGroupsWithoutAPolicy(t *testing.T) {
	for _, policy := range []any{nil, "legacy"} {
		m := primitive(t)
		put(m, "/instance_group", object1("InstanceGroup", "1.11", map[string]any{
			"uuid": "1a000000-0000-4000-8000-000000000002", "policy": policy, "members": []any{}, "hosts": []any{},
		}))
		tr, err := new(Options).FromPrimitive(m)
		if err != nil {
			t.Fatal(err)
		}
		if tr.Request.Group != nil || !slices.Contains(tr.Ignored, "nova_request_spec.instance_group") {
			t.Errorf("policy %v: group %v, ignored %v", policy, tr.Request.Group, tr.Ignored)
		}
	}
}
