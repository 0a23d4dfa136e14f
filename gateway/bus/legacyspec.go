package bus

import (
	"slices"
	"strings"
)

// legacySpecOf gives a RequestSpec as the dictionary that Nova's
// RequestSpec.to_legacy_request_spec_dict gives.
func legacySpecOf(spec map[string]any) map[string]any {
	data := dataOf(spec)
	instance := map[string]any{}
	for _, name := range []string{"numa_topology", "pci_requests", "project_id", "user_id", "availability_zone"} {
		if v, ok := data[name]; ok {
			instance[name] = plain(v)
		}
	}
	if v, ok := data["instance_uuid"]; ok {
		instance["uuid"] = v
	}
	flavor := dataOf(data["flavor"])
	for _, name := range []string{"root_gb", "ephemeral_gb", "memory_mb", "vcpus"} {
		if v, ok := flavor[name]; ok {
			instance[name] = v
		}
	}
	out := map[string]any{"num_instances": 1, "image": map[string]any{}, "instance_properties": instance, "instance_type": map[string]any{}}
	if n, ok := data["num_instances"]; ok {
		out["num_instances"] = n
	}
	for name, v := range map[string]any{"image": data["image"], "instance_type": data["flavor"]} {
		if v != nil {
			out[name] = plain(v)
		}
	}
	return out
}

// noDictionaries are the objects of a RequestSpec whose Python attributes Nova writes. The caller's
// context, which holds its token, is one of them: it is left out here, as are the changed fields.
var noDictionaries = []string{"InstancePCIRequests", "InstancePCIRequest", "VirtCPUTopology"}

// plain gives objects as Nova's notifications have them, and times in Python's form.
func plain(value any) any {
	switch v := value.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plain(v[i])
		}
		return out
	case map[string]any:
		out, prefix := map[string]any{}, ""
		if name, _ := v["nova_object.name"].(string); slices.Contains(noDictionaries, name) {
			out["VERSION"], prefix = v["nova_object.version"], "_obj_"
		}
		for name, field := range dataOf(v) {
			text, _ := field.(string)
			if at, zulu := strings.CutSuffix(text, "Z"); zulu && strings.HasSuffix(name, "ted_at") {
				field = at + ".000000"
			}
			out[prefix+name] = plain(field)
		}
		return out
	}
	return value
}

// dataOf gives the fields of an object or of a dictionary.
func dataOf(value any) map[string]any {
	dict, _ := value.(map[string]any)
	if data, ok := dict["nova_object.data"].(map[string]any); ok {
		return data
	}
	return dict
}
