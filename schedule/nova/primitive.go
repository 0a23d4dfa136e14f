package nova

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"cellgate/schedule"
)

// root begins the path of every field of a RequestSpec.
const root = "nova_request_spec"

// Translated is a translated RequestSpec.
type Translated struct {
	Request schedule.Request
	// Flavor is the request's flavor, from which Nova's consumption follows.
	Flavor    Flavor
	ProjectID string
	UserID    string
	// NumInstances is 1 if the form does not have it.
	NumInstances int
	// InstanceUUID is the request's text, and may be empty.
	InstanceUUID string
	// Rebuild: the hints say so; see Spec.Rebuild.
	Rebuild bool
	// Ignored are the paths of keys that have no effect: unknown ones, and those that do not affect the choice of
	// host. Fields of Nova that never do (ids, dates, limits) are not in it.
	Ignored []string
}

// FromPrimitive reads a RequestSpec as RequestSpec.obj_to_primitive() gives it, decoded from JSON. The error is
// InvalidRequest with every field that is wrong, of an unknown version, or unsupported. Paths begin with
// nova_request_spec.
func (o *Options) FromPrimitive(m map[string]any) (*Translated, error) {
	f := findings{options: o}
	return f.fromPrimitive(m)
}

func (f *findings) fromPrimitive(m map[string]any) (*Translated, error) {
	o := f.object(root, m, "RequestSpec")
	if o == nil {
		return nil, f.err()
	}
	s := Spec{
		Path:             root,
		Resolved:         true,
		AvailabilityZone: o.text("availability_zone"),
		IgnoreHosts:      o.texts("ignore_hosts"),
		ForceHosts:       o.texts("force_hosts"),
		ForceNodes:       o.texts("force_nodes"),
		BootFromVolume:   o.flag("is_bfv"),
	}
	t := &Translated{ProjectID: o.text("project_id"), UserID: o.text("user_id")}
	s.flavor(o)
	s.image(o)
	s.destination(o)
	s.instanceGroup(o)
	s.hints(o)
	s.levelParams(o)
	s.numaTopology(o)
	s.pciRequests(o)
	s.networks(o)
	s.requestedResources(o)
	s.requestedNetworks(o)
	s.ProjectID = t.ProjectID
	s.retry(o)
	o.known("id", "limits", "security_groups")
	o.count(t)
	t.InstanceUUID = o.text("instance_uuid")
	if t.InstanceUUID != "" {
		f.uuid(o.at("instance_uuid"), t.InstanceUUID)
	}
	o.rest()
	t.Request = f.compile(&s)
	if err := f.err(); err != nil {
		return nil, err
	}
	t.Flavor, t.Rebuild, t.Ignored = s.Flavor, s.Rebuild(), f.ignored
	return t, nil
}

// count reads num_instances, the number of instances.
func (o *object) count(t *Translated) {
	t.NumInstances = 1
	if o.data["num_instances"] == nil {
		o.known("num_instances")
		return
	}
	before := len(o.fields)
	n := o.amount("num_instances")
	if n < 1 && len(o.fields) == before {
		o.invalid(o.at("num_instances"), "must be at least 1, is %d", n)
	}
	t.NumInstances = int(n)
}

func (s *Spec) flavor(spec *object) {
	spec.required("flavor")
	o := spec.child("flavor", "Flavor")
	o.required("vcpus", "memory_mb", "root_gb")
	s.Flavor = Flavor{
		ID:          o.text("flavorid"),
		Name:        o.text("name"),
		VCPUs:       o.amount("vcpus"),
		MemoryMB:    o.amount("memory_mb"),
		RootGB:      o.amount("root_gb"),
		EphemeralGB: o.amount("ephemeral_gb"),
		SwapMB:      o.amount("swap"),
		ExtraSpecs:  o.textDict("extra_specs"),
	}
	o.known("id", "rxtx_factor", "vcpu_weight", "disabled", "is_public",
		"projects", "description", "created_at", "updated_at", "deleted_at", "deleted")
	o.rest()
}

// textDict reads a dictionary of strings (DictOfStringsField).
func (o *object) textDict(key string) map[string]string {
	m := o.dict(key)
	out := make(map[string]string, len(m))
	for _, k := range sortedKeys(m) {
		v, ok := m[k].(string)
		if !ok {
			o.invalid(at(o.at(key), k), "must be a string, not %s", kind(m[k]))
		}
		out[k] = v
	}
	return out
}

func (s *Spec) image(spec *object) {
	o := spec.child("image", "ImageMeta")
	props := o.child("properties", "ImageMetaProps")
	s.ImageProperties = map[string]string{}
	s.HasImage, s.Typed = o != nil, []schedule.Property{}
	s.ImageID, s.DiskFormat = o.text("id"), o.text("disk_format")
	if props != nil {
		for i, trait := range props.texts("traits_required") {
			if !symbol(trait) {
				props.invalid(fmt.Sprintf("%s[%d]", props.at("traits_required"), i), "%q is no trait", shorten(trait))
			}
			s.ImageProperties["trait:"+trait] = "required"
		}
		for _, k := range sortedKeys(props.data) {
			if v := props.get(k); v != nil && k != "traits_required" {
				s.ImageProperties[k] = propertyText(v)
				// As in Nova, a property that ImageMetaProps does not know does not exist.
				if _, known := propertyKinds[k]; known {
					p := schedule.Property{Name: k}
					p.Text, p.Zero = pythonText(v)
					s.Typed = append(s.Typed, p)
				}
			}
		}
	}
	o.known("name", "status", "visibility", "protected", "checksum", "owner", "size",
		"virtual_size", "container_format", "created_at", "updated_at", "tags",
		"direct_url", "min_ram", "min_disk")
	o.rest()
}

// propertyText writes an image property of any JSON type as Glance does.
func propertyText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	b, err := json.Marshal(v)
	if err != nil { // values from a JSON decoder always encode
		return kind(v)
	}
	return string(b)
}

func (s *Spec) destination(spec *object) {
	o := spec.child("requested_destination", "Destination")
	if o == nil {
		return
	}
	if host, ok := o.get("host").(string); ok && host == "" {
		o.invalid(o.at("host"), "must not be empty: Nova compares it with the names of hosts, and none is empty")
	}
	cell := o.child("cell", "CellMapping")
	cell.required("uuid")
	s.Destination = &schedule.Destination{
		Host:               o.text("host"),
		Node:               o.text("node"),
		Cell:               cell.text("uuid"),
		AllowCrossCellMove: o.flag("allow_cross_cell_move"),
	}
	if cell != nil {
		if id, ok := o.uuid(cell.at("uuid"), s.Destination.Cell); ok {
			s.Destination.Cell = id.String()
		}
	}
	cell.known("id", "name", "transport_url", "database_connection", "disabled", "created_at", "updated_at")
	cell.rest()
	s.MemberOf = o.aggregateSets("aggregates")
	s.ForbiddenAggregates = o.texts("forbidden_aggregates")
	o.rest()
}

// aggregateSets reads Destination.aggregates: strings of uuids joined by commas, of which any matches
// (nova/objects/request_spec.py, require_aggregates), with or without Placement's prefix "in:". Lists of uuids are
// accepted too.
func (o *object) aggregateSets(key string) [][]string {
	var sets [][]string
	for i, e := range o.list(key) {
		path := fmt.Sprintf("%s[%d]", o.at(key), i)
		switch x := e.(type) {
		case string:
			sets = append(sets, strings.Split(strings.TrimPrefix(x, "in:"), ","))
		case []any:
			sets = append(sets, o.findings.texts(path, x))
		default:
			o.invalid(path, "must be a string of uuids joined by commas, not %s", kind(e))
		}
	}
	return sets
}

// hints reads scheduler_hints: a list of strings for each name; a single string is accepted too.
func (s *Spec) hints(spec *object) {
	m := spec.dict("scheduler_hints")
	s.Hints = make(map[string][]string, len(m))
	for _, name := range sortedKeys(m) {
		switch v := m[name].(type) {
		case nil:
		case string:
			s.Hints[name] = []string{v}
		default:
			// Each value that is no text is named by its path, which has the name.
			if path := at(spec.at("scheduler_hints"), name); spec.longest(path, "the name", name, maxName) {
				s.Hints[name] = spec.findings.texts(path, v)
			}
		}
	}
}

func (s *Spec) levelParams(spec *object) {
	o := spec.child("request_level_params", "RequestLevelParams")
	s.RequiredTraits = o.texts("root_required")
	s.ForbiddenTraits = o.texts("root_forbidden")
	s.sameSubtree(o)
	o.rest()
}

// retry reads SchedulerRetries: the compute nodes that were already tried. Only RetryFilter of older releases reads
// them.
func (s *Spec) retry(spec *object) {
	o := spec.child("retry", "SchedulerRetries")
	nodes := o.child("hosts", "ComputeNodeList")
	for i, e := range nodes.list("objects") {
		node := spec.object(fmt.Sprintf("%s[%d]", nodes.at("objects"), i), e, "ComputeNode")
		if node == nil {
			continue
		}
		s.Retry = append(s.Retry, schedule.RetryHost{Host: node.text("host"), Node: node.text("hypervisor_hostname")})
	}
}
