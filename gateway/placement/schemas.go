package placement

import (
	"maps"
	"regexp"
	"slices"
)

// Names and numbers of Placement's schemas.
const (
	maxInt      = 0x7FFFFFFF
	maxFloat    = 3.40282e+38
	uuidPattern = "^[0-9a-fA-F-]{36}$"
	namePattern = "^[A-Z0-9_]+$"
)

var (
	uuidName   = regexp.MustCompile(uuidPattern)
	className  = regexp.MustCompile(namePattern)
	customName = regexp.MustCompile("^CUSTOM_[A-Z0-9_]+$")
)

func text(minLength, maxLength int) *schema {
	return &schema{types: []string{"string"}, minLength: minLength, maxLength: maxLength}
}

func integer(least float64) *schema {
	return &schema{types: []string{"integer"}, minimum: &least, maximum: new(float64(maxInt))}
}

var (
	anyText    = &schema{types: []string{"string"}}
	anyInteger = &schema{types: []string{"integer"}}
	uuidText   = &schema{types: []string{"string"}, uuid: true}
)

// object is the schema of an object without other properties.
func object(properties map[string]*schema, required ...string) *schema {
	return &schema{types: []string{"object"}, properties: properties, required: required, closed: true}
}

// with gives a copy of an object's schema with one more property.
func (s *schema) with(name string, property *schema, required bool) *schema {
	out := *s
	out.properties = maps.Clone(s.properties)
	if out.properties == nil {
		out.properties = map[string]*schema{}
	}
	out.properties[name] = property
	if required {
		out.required = append(slices.Clone(s.required), name)
	}
	return &out
}

func (s *schema) least(properties int) *schema {
	out := *s
	out.minProperties = properties
	return &out
}

func mapOf(name *regexp.Regexp, value *schema, least int) *schema {
	return &schema{types: []string{"object"}, patterns: []patternSchema{{name, value}}, closed: true, minProperties: least}
}

// versioned is a schema for each span of microversions, the newest first.
type versioned []struct {
	since version
	*schema
}

func (list versioned) at(v version) *schema {
	for _, s := range list {
		if v >= s.since {
			return s.schema
		}
	}
	return nil
}

// Providers.
var (
	postProvider0  = object(map[string]*schema{"name": text(0, 200), "uuid": uuidText}, "name")
	putProvider0   = object(map[string]*schema{"name": text(0, 200)}, "name")
	parentUUID     = &schema{nullOrUUID: true}
	postProvider   = versioned{{14, postProvider0.with("parent_provider_uuid", parentUUID, false)}, {0, postProvider0}}
	putProvider    = versioned{{14, putProvider0.with("parent_provider_uuid", parentUUID, false)}, {0, putProvider0}}
	listProviders0 = object(map[string]*schema{"name": anyText, "uuid": uuidText})
	listProviders3 = listProviders0.with("member_of", anyText, false)
	listProviders4 = listProviders3.with("resources", anyText, false)
	listProvider14 = listProviders4.with("in_tree", uuidText, false)
	listProviders  = versioned{
		{18, listProvider14.with("required", anyText, false)},
		{14, listProvider14},
		{4, listProviders4},
		{3, listProviders3},
		{0, listProviders0},
	}
)

// Inventories.
var (
	inventoryFields = map[string]*schema{
		"resource_provider_generation": anyInteger,
		"total":                        integer(1),
		"reserved":                     integer(0),
		"min_unit":                     integer(1),
		"max_unit":                     integer(1),
		"step_size":                    integer(1),
		"allocation_ratio":             {types: []string{"number"}, maximum: new(maxFloat)},
	}
	putInventory   = object(inventoryFields, "total", "resource_provider_generation")
	inventoryEntry = object(inventoryFields, "total")
	postInventory  = inventoryEntry.with("resource_class", &schema{types: []string{"string"}, pattern: className}, true)
	putInventories = object(map[string]*schema{
		"resource_provider_generation": anyInteger,
		"inventories":                  {types: []string{"object"}, patterns: []patternSchema{{className, inventoryEntry}}},
	}, "resource_provider_generation", "inventories")
)

// Traits, aggregates and classes.
var (
	customTrait   = &schema{types: []string{"string"}, minLength: 1, maxLength: 255, pattern: customName}
	putTraits     = object(map[string]*schema{"traits": {types: []string{"array"}, items: text(1, 255)}, "resource_provider_generation": anyInteger}, "traits", "resource_provider_generation")
	listTraits    = object(map[string]*schema{"name": anyText, "associated": anyText})
	aggregateList = &schema{types: []string{"array"}, items: uuidText, unique: true}
	putAggregates = versioned{
		{19, object(map[string]*schema{"aggregates": aggregateList, "resource_provider_generation": anyInteger}, "aggregates", "resource_provider_generation")},
		{0, aggregateList},
	}
	putClass = object(map[string]*schema{"name": {types: []string{"string"}, pattern: customName, maxLength: 255}}, "name")
)

// Allocations.
var (
	amounts     = mapOf(className, integer(1), 1)
	owner       = text(1, 255)
	allocation0 = object(map[string]*schema{"allocations": {types: []string{"array"}, minItems: 1, items: object(map[string]*schema{
		"resource_provider": object(map[string]*schema{"uuid": uuidText}, "uuid"), "resources": amounts,
	}, "resource_provider", "resources")}}, "allocations")
	allocation8  = allocation0.with("project_id", owner, true).with("user_id", owner, true)
	byProvider   = mapOf(uuidName, object(map[string]*schema{"generation": anyInteger, "resources": amounts}, "resources"), 0)
	deletable    = object(map[string]*schema{"allocations": byProvider, "project_id": owner, "user_id": owner}, "allocations", "project_id", "user_id")
	allocation12 = deletable.with("allocations", byProvider.least(1), false)
	allocation28 = deletable.with("consumer_generation", &schema{types: []string{"integer", "null"}}, true)
	allocation34 = allocation28.with("mappings", &schema{types: []string{"object"}, minProperties: 1, patterns: []patternSchema{{
		regexp.MustCompile("[a-zA-Z0-9_-]{1,64}"), &schema{types: []string{"array"}, minItems: 1, items: uuidText},
	}}}, false)
	allocation38 = allocation34.with("consumer_type", &schema{types: []string{"string"}, pattern: className, minLength: 1, maxLength: 255}, true)

	putAllocations  = versioned{{38, allocation38}, {34, allocation34}, {28, allocation28}, {12, allocation12}, {8, allocation8}, {0, allocation0}}
	postAllocations = versioned{
		{38, mapOf(uuidName, allocation38, 1)},
		{34, mapOf(uuidName, allocation34, 1)},
		{28, mapOf(uuidName, allocation28, 1)},
		{13, mapOf(uuidName, deletable, 1)},
	}
	inventoriesByProvider = mapOf(uuidName, putInventories, 1)
	postReshaper          = versioned{{38, reshaperOf(allocation38)}, {34, reshaperOf(allocation34)}, {30, reshaperOf(allocation28)}}
)

func reshaperOf(allocation *schema) *schema {
	return object(map[string]*schema{"inventories": inventoriesByProvider, "allocations": mapOf(uuidName, allocation, 0)}, "inventories", "allocations")
}

// Usages.
var (
	listUsages9 = object(map[string]*schema{"project_id": owner, "user_id": owner}, "project_id")
	listUsages  = versioned{
		{38, listUsages9.with("consumer_type", &schema{types: []string{"string"}, minLength: 1, maxLength: 255, pattern: regexp.MustCompile(namePattern + "|^all|^unknown$")}, false)},
		{9, listUsages9},
	}
)

// Allocation candidates.
var (
	limitText    = &schema{types: []string{"integer", "string"}, pattern: regexp.MustCompile("^[1-9][0-9]*$"), minLength: 1}
	candidates10 = object(map[string]*schema{"resources": anyText}, "resources")
	candidates16 = candidates10.with("limit", limitText, false)
	candidates17 = candidates16.with("required", anyText, false)
	candidates21 = candidates17.with("member_of", anyText, false)
	candidates25 = &schema{types: []string{"object"}, closed: true, properties: map[string]*schema{
		"limit": limitText, "group_policy": {types: []string{"string"}, enum: []string{"none", "isolate"}},
	}, patterns: groupParameters(groupPattern, "resources", "required", "member_of")}
	candidates31 = candidates25.withPatterns(groupParameters(groupPattern, "resources", "required", "member_of", "in_tree"))
	candidates33 = candidates25.withPatterns(groupParameters(groupPattern33, "resources", "required", "member_of", "in_tree"))
	candidates35 = candidates33.with("root_required", anyText, false)

	listCandidates = versioned{
		{36, candidates35.with("same_subtree", anyText, false)},
		{35, candidates35},
		{33, candidates33},
		{31, candidates31},
		{25, candidates25},
		{21, candidates21},
		{17, candidates17},
		{16, candidates16},
		{10, candidates10},
	}
)

const (
	groupPattern   = "[1-9][0-9]*"
	groupPattern33 = "[a-zA-Z0-9_-]{1,64}"
)

func groupParameters(suffix string, names ...string) []patternSchema {
	var out []patternSchema
	for _, name := range names {
		out = append(out, patternSchema{regexp.MustCompile("^" + name + "(" + suffix + ")?$"), anyText})
	}
	return out
}

func (s *schema) withPatterns(p []patternSchema) *schema {
	out := *s
	out.patterns = p
	return &out
}
