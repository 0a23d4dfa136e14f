package nova

import (
	"reflect"
	"testing"

	"cellgate/schedule"
)

// Groups of the flavor, of ports and of a device profile become one tree, with Nova's default of
// group_policy. Groups leave the flavor's own amounts unchanged.
func TestGroupsOfARequest(t *testing.T) {
	m := primitive(t)
	put(m, "/flavor//extra_specs", map[string]any{
		"resources1:VGPU": "1", "trait1:CUSTOM_FAST": "required", "trait:CUSTOM_GOLD": "required", "accel:device_profile": "p",
	})
	group := func(id string, resources map[string]any, traits ...any) map[string]any {
		return object1("RequestGroup", "1.3", map[string]any{
			"requester_id": id, "resources": resources, "required_traits": traits, "forbidden_traits": []any{}, "use_same_provider": true,
			"aggregates": []any{}, "forbidden_aggregates": []any{}, "in_tree": nil, "provider_uuids": []any{},
		})
	}
	put(m, "/requested_resources", []any{
		group("b1", map[string]any{"NET_BW_EGR_KILOBIT_PER_SEC": 1000.0}, "CUSTOM_PHYSNET_1"),
		group("device_profile_0", map[string]any{"FPGA": 1.0}, "CUSTOM_FPGA_X"),
		group("top", map[string]any{}, "CUSTOM_PHYSNET_1"),
	})
	put(m, "/request_level_params", object1("RequestLevelParams", "1.1", map[string]any{
		"root_required": []any{"CUSTOM_ROOT"}, "same_subtree": []any{[]any{"b1", "top"}},
	}))
	got, err := new(Options).FromPrimitive(m)
	if err != nil {
		t.Fatal(err)
	}
	want := &schedule.Tree{
		Required: []string{"CUSTOM_GOLD"}, SameSubtree: [][]string{{"b1", "top"}},
		Groups: []schedule.ResourceGroup{
			{Suffix: "1", Resources: []schedule.Amount{{Class: "VGPU", N: 1}}, Required: []string{"CUSTOM_FAST"}},
			{Suffix: "b1", Resources: []schedule.Amount{{Class: "NET_BW_EGR_KILOBIT_PER_SEC", N: 1000}}, Required: []string{"CUSTOM_PHYSNET_1"}},
			{Suffix: "device_profile_0", Resources: []schedule.Amount{{Class: "FPGA", N: 1}}, Required: []string{"CUSTOM_FPGA_X"}},
			{Suffix: "top", Resources: []schedule.Amount{}, Required: []string{"CUSTOM_PHYSNET_1"}},
		},
	}
	r := got.Request
	if !reflect.DeepEqual(r.Tree, want) {
		t.Errorf("got  %+v\nwant %+v", r.Tree, want)
	}
	if required := []string{"COMPUTE_ACCELERATORS", "CUSTOM_GOLD", "CUSTOM_ROOT"}; !reflect.DeepEqual(r.Required, required) {
		t.Errorf("required %v, want %v", r.Required, required)
	}
	if amounts := []schedule.Amount{{Class: "DISK_GB", N: 32}, {Class: "MEMORY_MB", N: 4096}, {Class: "VCPU", N: 2}}; !reflect.DeepEqual(r.Resources, amounts) {
		t.Errorf("resources %v, want %v", r.Resources, amounts)
	}
	if len(got.Ignored) != 0 {
		t.Errorf("ignored %v", got.Ignored)
	}
}

// A group's aggregates and in_tree are honoured. use_same_provider is ignored, since Nova does not
// send it to Placement.
func TestPlacesOfAGroup(t *testing.T) {
	const one, two = "a0000000-0000-4000-8000-000000000001", "a0000000-0000-4000-8000-000000000002"
	ask := func(resources, with map[string]any) (*Translated, error) {
		m := primitive(t)
		group := map[string]any{"requester_id": "p", "resources": resources, "required_traits": []any{}, "forbidden_traits": []any{}}
		for k, v := range with {
			group[k] = v
		}
		put(m, "/requested_resources", []any{object1("RequestGroup", "1.3", group)})
		return new(Options).FromPrimitive(m)
	}
	got, err := ask(map[string]any{"VGPU": 1.0}, map[string]any{
		"aggregates": []any{[]any{two, one}}, "forbidden_aggregates": []any{two}, "in_tree": one, "use_same_provider": false,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := schedule.ResourceGroup{
		Suffix: "p", Resources: []schedule.Amount{{Class: "VGPU", N: 1}}, MemberOf: [][]string{{one, two}},
		ForbiddenAggregates: []string{two}, InTree: mustID(one),
	}
	if g := got.Request.Tree.Groups[0]; !reflect.DeepEqual(g, want) {
		t.Errorf("got  %+v\nwant %+v", g, want)
	}
	if want := []string{"nova_request_spec.requested_resources[0].use_same_provider"}; !reflect.DeepEqual(got.Ignored, want) {
		t.Errorf("ignored %v, want %v", got.Ignored, want)
	}
	for _, with := range []map[string]any{{"aggregates": []any{[]any{"x"}}}, {"in_tree": "x"}, {"forbidden_aggregates": []any{"x"}}} {
		if _, err := ask(map[string]any{"VGPU": 1.0}, with); err == nil {
			t.Errorf("%v is taken", with)
		}
	}
	if _, err := ask(map[string]any{}, map[string]any{"in_tree": one, "required_traits": []any{"CUSTOM_A"}}); err == nil {
		t.Error("in_tree without resources is taken")
	}
}
