package bus

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// legacySpec makes a RequestSpec of the dictionaries of RPC 4.0 to 4.2, as Nova's
// RequestSpec.from_primitives does.
func legacySpec(rawSpec, rawProperties json.RawMessage) (map[string]any, error) {
	if rawSpec == nil {
		return nil, errors.New("is missing")
	}
	old, err := structOf(rawSpec)
	if err != nil {
		return nil, err
	}
	properties := map[string]any{}
	if rawProperties != nil && string(rawProperties) != "null" {
		if properties, err = structOf(rawProperties); err != nil {
			return nil, err
		}
	}
	data := map[string]any{"num_instances": 1.0}
	if n, ok := old["num_instances"]; ok {
		data["num_instances"] = n
	}
	data["image"] = legacyImage(old["image"])
	data["flavor"] = objectOf("Flavor", "1.2", old["instance_type"])
	instance := dataOf(old["instance_properties"])
	for _, name := range []string{"project_id", "user_id", "availability_zone", "pci_requests"} {
		data[name] = instance[name]
	}
	data["instance_uuid"] = instance["uuid"]
	data["numa_topology"] = instance["numa_topology"]
	if text, ok := instance["numa_topology"].(string); ok { // some releases stored it as text
		topology, err := structOf(json.RawMessage(text))
		if err != nil {
			return nil, err
		}
		data["numa_topology"] = topology
	}
	for _, name := range []string{"ignore_hosts", "force_hosts", "force_nodes", "requested_destination"} {
		data[name] = properties[name]
	}
	data["limits"] = objectOf("SchedulerLimits", "1.0", properties["limits"])
	data["instance_group"] = legacyGroup(properties)
	data["scheduler_hints"] = legacyHints(properties["scheduler_hints"])
	return map[string]any{
		"nova_object.name": "RequestSpec", "nova_object.namespace": "nova", "nova_object.version": "1.14", "nova_object.data": data,
	}, nil
}

// objectOf wraps a dictionary as one of Nova's objects. A value that already is an object is
// not changed; an empty dictionary gives nil.
func objectOf(name, version string, value any) any {
	dict, ok := value.(map[string]any)
	if !ok || len(dict) == 0 {
		return nil
	}
	if _, is := dict["nova_object.name"]; is {
		return dict
	}
	return map[string]any{"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": dict}
}

// dataOf gives the fields of an object or of a dictionary.
func dataOf(value any) map[string]any {
	dict, _ := value.(map[string]any)
	if data, ok := dict["nova_object.data"].(map[string]any); ok {
		return data
	}
	return dict
}

// legacyImage gives an image's metadata as an object. In the names of its properties, dashes
// become underscores, as in ImageMetaProps.
func legacyImage(value any) any {
	image, ok := value.(map[string]any)
	if !ok || len(image) == 0 {
		return nil
	}
	if _, is := image["nova_object.name"]; is {
		return image
	}
	properties := map[string]any{}
	given, _ := image["properties"].(map[string]any)
	for name, v := range given {
		properties[strings.ReplaceAll(name, "-", "_")] = v
	}
	known := map[string]any{}
	for _, name := range []string{
		"id", "name", "status", "visibility", "protected", "checksum", "owner", "size", "virtual_size",
		"container_format", "disk_format", "min_ram", "min_disk",
	} {
		if v, ok := image[name]; ok && v != nil {
			known[name] = v
		}
	}
	known["properties"] = objectOrEmpty("ImageMetaProps", "1.34", properties)
	return map[string]any{"nova_object.name": "ImageMeta", "nova_object.namespace": "nova", "nova_object.version": "1.8", "nova_object.data": known}
}

func objectOrEmpty(name, version string, data map[string]any) any {
	return map[string]any{"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version, "nova_object.data": data}
}

// legacyGroup gives the server group in filter_properties; nil if there is none.
func legacyGroup(properties map[string]any) any {
	if group := objectOf("InstanceGroup", "1.11", properties["instance_group"]); group != nil {
		return group
	}
	if updated, _ := properties["group_updated"].(bool); !updated {
		return nil
	}
	policies, _ := properties["group_policies"].([]any)
	if len(policies) == 0 {
		return nil
	}
	data := map[string]any{"policy": policies[0], "hosts": properties["group_hosts"], "members": properties["group_members"]}
	if id, ok := properties["group_uuid"].(string); ok && id != "" {
		data["uuid"] = id
	}
	return objectOrEmpty("InstanceGroup", "1.11", data)
}

// legacyHints gives every hint as a list.
func legacyHints(value any) any {
	hints, ok := value.(map[string]any)
	if !ok {
		return map[string]any{}
	}
	for name, v := range hints {
		if _, list := v.([]any); !list {
			hints[name] = []any{v}
		}
	}
	return hints
}

// legacySpecOf is the inverse of legacySpec: the dictionary that Nova's
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

// noDictionaries are the objects of a RequestSpec for which Nova writes the Python attributes. One
// attribute is the caller's context, which has its token; it is left out here, and so are the
// changed fields.
var noDictionaries = []string{"InstancePCIRequests", "InstancePCIRequest", "VirtCPUTopology"}

// plain converts objects to the form of Nova's notifications, with times in Python's form.
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
