package placement

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// view is what a backend has when a request is sent.
type view struct {
	providers map[string]*Provider
	consumers map[string]*Consumer
}

func viewOf(t testing.TB, b Backend) view {
	t.Helper()
	v := view{map[string]*Provider{}, map[string]*Consumer{}}
	providers, err := b.Providers(t.Context(), ProviderQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range providers {
		v.providers[p.UUID] = p
	}
	consumers, err := b.Consumers(t.Context(), ConsumerQuery{UUIDs: drawnConsumers})
	if err != nil {
		t.Fatal(err)
	}
	for _, held := range consumers {
		v.consumers[held.UUID] = held
	}
	return v
}

// operation is a random request. Its body is made when it is sent, with the generations of that moment.
type operation struct {
	version, method, path string
	body                  func(view) any
	// mutate, unless 0, seeds how the body is spoiled.
	mutate uint64
	// skip, unless nil, reports whether the request meets a known difference (docs/reference/placement-api.md).
	skip func(view) bool
}

// text returns the body to send; "" for none.
func (o operation) text(m view) string {
	if o.body == nil {
		return ""
	}
	v := o.body(m)
	if o.mutate != 0 {
		v = spoil(rand.New(rand.NewPCG(o.mutate, 1)), v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// spoil changes one thing somewhere in a JSON value.
func spoil(r *rand.Rand, v any) any {
	odd := []any{nil, "", "x", -1, 0, 1.5, true, []any{}, map[string]any{}, strings.Repeat("A", 300), 1 << 40}
	switch v := v.(type) {
	case map[string]any:
		names := keys(v)
		if len(names) == 0 || r.IntN(8) == 0 {
			v["surplus"] = odd[r.IntN(len(odd))]
			return v
		}
		name := names[r.IntN(len(names))]
		if r.IntN(4) == 0 {
			delete(v, name)
		} else {
			v[name] = spoil(r, v[name])
		}
		return v
	case []any:
		if len(v) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(v))
			v[i] = spoil(r, v[i])
			return v
		}
	}
	return odd[r.IntN(len(odd))]
}

// Names that random requests draw from. Few, so that they meet.
var (
	drawnClasses    = []string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A", "CUSTOM_B"}
	drawnTraits     = []string{"HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "MISC_SHARES_VIA_AGGREGATE", "CUSTOM_T1", "CUSTOM_T2"}
	drawnVersions   = []int{0, 1, 4, 5, 6, 7, 8, 10, 12, 13, 14, 17, 18, 19, 20, 22, 23, 24, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39}
	drawnProjects   = []string{"project1", "project2"}
	drawnUsers      = []string{"user1", "user2"}
	drawnTypes      = []string{"INSTANCE", "MIGRATION"}
	drawnSuffixes   = []string{"1", "2", "_NET"}
	drawnProviders  = drawnUUIDs('a', 7)
	drawnConsumers  = drawnUUIDs('c', 6)
	drawnAggregates = drawnUUIDs('b', 3)
)

func drawnUUIDs(kind byte, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-0000-4000-8000-%012d", strings.Repeat(string(kind), 8), i)
	}
	return out
}

func one[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func some(r *rand.Rand, from []string, chance float64) []string {
	var out []string
	for _, s := range from {
		if r.Float64() < chance {
			out = append(out, s)
		}
	}
	return out
}

func anyList(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// drawer draws requests.
type drawer struct{ *rand.Rand }

// version draws one of since or newer mostly, sometimes any.
func (d drawer) version(since int) int {
	if d.IntN(12) == 0 {
		return one(d.Rand, drawnVersions)
	}
	later := drawnVersions[slices.IndexFunc(drawnVersions, func(v int) bool { return v >= since }):]
	if d.IntN(3) == 0 {
		return later[len(later)-1]
	}
	return one(d.Rand, later)
}

func (d drawer) provider() string {
	if d.IntN(20) == 0 {
		return "dddddddd-0000-4000-8000-000000000000" // there is none
	}
	return one(d.Rand, drawnProviders)
}

func (d drawer) class() string {
	if d.IntN(30) == 0 {
		return "CUSTOM_NONE"
	}
	return one(d.Rand, drawnClasses)
}

// generation returns the generation of a provider as a body has it: mostly the right one.
func (d drawer) generation(provider string) func(view) int64 {
	off := int64(0)
	if d.IntN(12) == 0 {
		off = int64(1 + d.IntN(2))
	}
	return func(m view) int64 {
		if p := m.providers[provider]; p != nil {
			return p.Generation + off
		}
		return off
	}
}

func (d drawer) at(since int, method, path string, body func(view) any) operation {
	o := operation{version: fmt.Sprintf("1.%d", d.version(since)), method: method, path: path, body: body}
	if body != nil && d.IntN(9) == 0 {
		o.mutate = d.Uint64() | 1
	}
	return o
}

func fixed(v any) func(view) any { return func(view) any { return clone(v) } }

// clone copies a JSON value, because spoil changes it.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			out[k] = clone(item)
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			out = append(out, clone(item))
		}
		return out
	}
	return v
}

// draw draws a request.
func (d drawer) draw() operation {
	p := "/resource_providers/" + d.provider()
	switch d.IntN(46) {
	case 0, 1, 2, 3:
		return d.createProvider()
	case 4:
		return d.updateProvider(p)
	case 5:
		return d.at(0, "DELETE", p, nil)
	case 6, 7, 8, 9:
		return d.setInventories(p)
	case 10:
		body := d.inventory()
		body["resource_class"] = d.class()
		return d.at(0, "POST", p+"/inventories", fixed(body))
	case 11:
		generation, body := d.generation(p[len("/resource_providers/"):]), d.inventory()
		return d.at(0, "PUT", p+"/inventories/"+d.class(), func(m view) any {
			out := clone(body).(map[string]any)
			out["resource_provider_generation"] = generation(m)
			return out
		})
	case 12:
		return d.at(0, "DELETE", p+"/inventories/"+d.class(), nil)
	case 13:
		return d.at(5, "DELETE", p+"/inventories", nil)
	case 14, 15:
		generation, traits := d.generation(p[len("/resource_providers/"):]), anyList(some(d.Rand, drawnTraits, 0.4))
		return d.at(6, "PUT", p+"/traits", func(m view) any {
			return map[string]any{"traits": clone(traits), "resource_provider_generation": generation(m)}
		})
	case 16:
		return d.at(6, "DELETE", p+"/traits", nil)
	case 17:
		return d.at(6, one(d.Rand, []string{"PUT", "PUT", "PUT", "GET", "DELETE"}), "/traits/"+one(d.Rand, append(drawnTraits, "CUSTOM_x", "NONE")), nil)
	case 18:
		return d.changeClass()
	case 19, 20:
		return d.setAggregates(p)
	case 21, 22, 23, 24:
		return d.setAllocations()
	case 25, 26:
		return d.setSeveralAllocations()
	case 27:
		return d.at(0, "DELETE", "/allocations/"+one(d.Rand, drawnConsumers), nil)
	case 28:
		return d.reshape()
	case 29, 30:
		return d.at(0, "GET", p+one(d.Rand, []string{"", "/inventories", "/inventories/" + d.class(), "/usages", "/aggregates", "/traits", "/allocations"}), nil)
	case 31:
		return d.at(0, "GET", "/allocations/"+one(d.Rand, drawnConsumers), nil)
	case 32:
		return d.at(9, "GET", "/usages?"+d.usages().Encode(), nil)
	case 33, 34:
		return d.at(4, "GET", "/resource_providers?"+d.providerFilter().Encode(), nil)
	case 35:
		return d.at(6, "GET", "/traits?"+one(d.Rand, []string{"", "name=startswith:CUSTOM_", "name=in:CUSTOM_T1,HW_CPU_X86_AVX", "associated=true", "associated=maybe", "name=x", "x=y"}), nil)
	case 36:
		return d.at(2, "GET", one(d.Rand, []string{"/resource_classes", "/resource_classes/" + d.class()}), nil)
	}
	return d.at(one(d.Rand, []int{10, 25, 36}), "GET", "/allocation_candidates?"+d.candidates().Encode(), nil)
}

func (d drawer) createProvider() operation {
	id := d.IntN(len(drawnProviders))
	body := map[string]any{"name": fmt.Sprintf("host%d", id), "uuid": drawnProviders[id]}
	if d.IntN(8) == 0 {
		body["name"] = fmt.Sprintf("host%d", d.IntN(len(drawnProviders)))
	}
	version := 20
	if d.IntN(2) == 0 {
		body["parent_provider_uuid"] = d.provider()
	} else if d.IntN(3) == 0 {
		version = 0
	}
	return d.at(version, "POST", "/resource_providers", fixed(body))
}

func (d drawer) updateProvider(path string) operation {
	body := map[string]any{"name": fmt.Sprintf("host%d", d.IntN(len(drawnProviders)+3))}
	switch d.IntN(3) {
	case 0:
		body["parent_provider_uuid"] = d.provider()
	case 1:
		body["parent_provider_uuid"] = nil
	}
	o := d.at(one(d.Rand, []int{0, 37}), "PUT", path, fixed(body))
	o.skip = func(m view) bool { return movesWhatIsHeld(m, path[strings.LastIndex(path, "/")+1:], body) }
	return o
}

// movesWhatIsHeld reports whether a provider goes to another tree while consumers hold something of
// it, or of a provider below it.
func movesWhatIsHeld(m view, id string, body map[string]any) bool {
	parent, named := body["parent_provider_uuid"]
	p := m.providers[id]
	if p == nil || !named {
		return false
	}
	root := id
	if to, ok := parent.(string); ok {
		if m.providers[to] == nil {
			return false
		}
		root = m.providers[to].RootUUID
	}
	if root == p.RootUUID {
		return false
	}
	for _, held := range m.consumers {
		for below := range held.Allocations {
			for up := below; up != ""; up = m.providers[up].ParentUUID {
				if up == id {
					return true
				}
			}
		}
	}
	return false
}

func (d drawer) inventory() map[string]any {
	out := map[string]any{"total": 1 + d.IntN(20)}
	for _, f := range []struct {
		name string
		most int
	}{{"reserved", 4}, {"min_unit", 3}, {"max_unit", 12}, {"step_size", 3}} {
		if d.IntN(4) == 0 {
			out[f.name] = 1 + d.IntN(f.most)
		}
	}
	if d.IntN(3) == 0 {
		out["allocation_ratio"] = one(d.Rand, []float64{0.5, 1.5, 2, 16, 1.1})
	}
	return out
}

func (d drawer) inventories() map[string]any {
	out := map[string]any{}
	for range 1 + d.IntN(4) {
		out[d.class()] = d.inventory()
	}
	if d.IntN(10) == 0 {
		return map[string]any{}
	}
	return out
}

func (d drawer) setInventories(path string) operation {
	generation, list := d.generation(path[len("/resource_providers/"):]), d.inventories()
	return d.at(0, "PUT", path+"/inventories", func(m view) any {
		return map[string]any{"inventories": clone(list), "resource_provider_generation": generation(m)}
	})
}

func (d drawer) setAggregates(path string) operation {
	generation, list := d.generation(path[len("/resource_providers/"):]), anyList(some(d.Rand, drawnAggregates, 0.5))
	o := d.at(1, "PUT", path+"/aggregates", nil)
	o.body = func(m view) any {
		if strings.Compare(fmt.Sprintf("%4s", o.version[2:]), "  19") < 0 {
			return clone(list)
		}
		return map[string]any{"aggregates": clone(list), "resource_provider_generation": generation(m)}
	}
	return o
}

func (d drawer) changeClass() operation {
	name := one(d.Rand, []string{"CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "VCPU", "CUSTOM_x"})
	switch d.IntN(4) {
	case 0:
		return d.at(2, "POST", "/resource_classes", fixed(map[string]any{"name": name}))
	case 1:
		return d.at(2, "DELETE", "/resource_classes/"+name, nil)
	}
	return d.at(7, "PUT", "/resource_classes/"+name, nil)
}

// allocation draws the allocations of a consumer, in the form of a version's body.
func (d drawer) allocation(version int, consumer string, mayBeEmpty bool) func(view) any {
	byProvider := map[string]any{}
	for range 1 + d.IntN(2) {
		resources := map[string]any{}
		for range 1 + d.IntN(2) {
			resources[d.class()] = 1 + d.IntN(9)
		}
		byProvider[one(d.Rand, drawnProviders)] = map[string]any{"resources": resources}
	}
	if mayBeEmpty {
		byProvider = map[string]any{}
	}
	body := map[string]any{"allocations": byProvider}
	if version < 12 {
		list := []any{}
		for _, id := range keys(byProvider) {
			list = append(list, map[string]any{"resource_provider": map[string]any{"uuid": id}, "resources": byProvider[id].(map[string]any)["resources"]})
		}
		body["allocations"] = list
	}
	if version >= 8 {
		body["project_id"], body["user_id"] = one(d.Rand, drawnProjects), one(d.Rand, drawnUsers)
	}
	if version >= 38 {
		body["consumer_type"] = one(d.Rand, drawnTypes)
	}
	off := int64(0)
	if d.IntN(15) == 0 {
		off = 1
	}
	return func(m view) any {
		out := clone(body).(map[string]any)
		if version >= 28 {
			out["consumer_generation"] = nil
			if held := m.consumers[consumer]; held != nil {
				out["consumer_generation"] = held.Generation + off
			} else if off > 0 {
				out["consumer_generation"] = off
			}
		}
		return out
	}
}

// leavesConsumer reports whether a body makes Placement keep a consumer without allocations, of generation 0. This is a
// new consumer that gets no allocations, or gets some of a provider that does not exist.
func leavesConsumer(m view, consumer string, body any) bool {
	if m.consumers[consumer] != nil {
		return false
	}
	b, ok := body.(map[string]any)
	if !ok {
		return false
	}
	switch list := b["allocations"].(type) {
	case map[string]any:
		for id := range list {
			if m.providers[id] == nil {
				return true
			}
		}
		return len(list) == 0
	case []any:
		for _, item := range list {
			one, _ := item.(map[string]any)
			provider, _ := one["resource_provider"].(map[string]any)
			id, _ := provider["uuid"].(string)
			if m.providers[id] == nil {
				return true
			}
		}
	}
	return false
}

func (d drawer) setAllocations() operation {
	consumer := one(d.Rand, drawnConsumers)
	o := d.at(0, "PUT", "/allocations/"+consumer, nil)
	version := minorOf(o.version)
	o.body = d.allocation(version, consumer, version >= 28 && d.IntN(12) == 0)
	if d.IntN(10) == 0 {
		o.mutate = d.Uint64() | 1
	}
	o.skip = func(m view) bool { return leavesConsumer(m, consumer, o.body(m)) }
	return o
}

func minorOf(version string) int {
	var n int
	if _, err := fmt.Sscanf(version, "1.%d", &n); err != nil {
		panic(err)
	}
	return n
}

func (d drawer) severalAllocations(version int) (body func(view) any, skip func(view) bool) {
	bodies := map[string]func(view) any{}
	for range 1 + d.IntN(3) {
		consumer := one(d.Rand, drawnConsumers)
		bodies[consumer] = d.allocation(max(version, 12), consumer, d.IntN(4) == 0)
	}
	body = func(m view) any {
		out := map[string]any{}
		for consumer, one := range bodies {
			out[consumer] = one(m)
		}
		return out
	}
	skip = func(m view) bool {
		for consumer, one := range bodies {
			if leavesConsumer(m, consumer, one(m)) {
				return true
			}
		}
		// A provider that does not exist also makes Placement keep the other new consumers.
		for _, one := range bodies {
			for id := range one(m).(map[string]any)["allocations"].(map[string]any) {
				if m.providers[id] == nil {
					return true
				}
			}
		}
		return false
	}
	return body, skip
}

func (d drawer) setSeveralAllocations() operation {
	o := d.at(13, "POST", "/allocations", nil)
	o.body, o.skip = d.severalAllocations(minorOf(o.version))
	return o
}

func (d drawer) reshape() operation {
	o := d.at(30, "POST", "/reshaper", nil)
	allocations, skip := d.severalAllocations(minorOf(o.version))
	type part struct {
		generation func(view) int64
		list       map[string]any
	}
	parts := map[string]part{}
	for range 1 + d.IntN(2) {
		id := d.provider()
		parts[id] = part{d.generation(id), d.inventories()}
	}
	o.body = func(m view) any {
		inventories := map[string]any{}
		for id, p := range parts {
			inventories[id] = map[string]any{"inventories": clone(p.list), "resource_provider_generation": p.generation(m)}
		}
		return map[string]any{"inventories": inventories, "allocations": allocations(m)}
	}
	o.skip = skip
	return o
}

func (d drawer) usages() url.Values {
	v := url.Values{}
	if d.IntN(10) > 0 {
		v.Set("project_id", one(d.Rand, drawnProjects))
	}
	if d.IntN(3) == 0 {
		v.Set("user_id", one(d.Rand, drawnUsers))
	}
	if d.IntN(3) == 0 {
		v.Set("consumer_type", one(d.Rand, []string{"INSTANCE", "all", "unknown", "x"}))
	}
	return v
}

func (d drawer) resources() string {
	var out []string
	for range 1 + d.IntN(4)/3 {
		out = append(out, fmt.Sprintf("%s:%d", d.class(), 1+d.IntN(4)))
	}
	if d.IntN(25) == 0 {
		out = append(out, one(d.Rand, []string{"VCPU", "VCPU:x", "VCPU:0", "", "VCPU:1:2"}))
	}
	return strings.Join(out, ",")
}

func (d drawer) traits() string {
	list := some(d.Rand, drawnTraits, 0.3)
	for i := range list {
		if d.IntN(3) == 0 {
			list[i] = "!" + list[i]
		}
	}
	switch d.IntN(15) {
	case 0:
		return "in:" + one(d.Rand, drawnTraits) + "," + one(d.Rand, drawnTraits)
	case 1:
		list = append(list, "CUSTOM_NONE")
	case 2:
		list = append(list, "")
	}
	if len(list) == 0 {
		return one(d.Rand, drawnTraits)
	}
	return strings.Join(list, ",")
}

func (d drawer) memberOf() string {
	a, b := one(d.Rand, drawnAggregates), one(d.Rand, drawnAggregates)
	return one(d.Rand, []string{a, "in:" + a + "," + b, "!" + a, "!in:" + a + "," + b, a + "," + b, "x"})
}

func (d drawer) providerFilter() url.Values {
	v := url.Values{}
	add := func(chance int, name string, value func() string) {
		if d.IntN(chance) == 0 {
			v.Add(name, value())
		}
	}
	add(3, "resources", d.resources)
	add(4, "required", d.traits)
	add(6, "required", d.traits)
	add(3, "member_of", d.memberOf)
	add(8, "member_of", d.memberOf)
	add(5, "in_tree", d.provider)
	add(8, "name", func() string { return "host1" })
	add(8, "uuid", d.provider)
	add(30, "what", func() string { return "x" })
	return v
}

func (d drawer) candidates() url.Values {
	v := url.Values{}
	groups := []string{""}
	if d.IntN(3) == 0 {
		groups = some(d.Rand, append([]string{""}, drawnSuffixes...), 0.5)
		v.Set("group_policy", one(d.Rand, []string{"none", "isolate"}))
		if d.IntN(10) == 0 {
			v.Set("group_policy", "x")
		}
	}
	for _, g := range groups {
		if d.IntN(12) > 0 {
			v.Set("resources"+g, d.resources())
		}
		if d.IntN(5) == 0 {
			v.Add("required"+g, d.traits())
		}
		if d.IntN(9) == 0 {
			v.Add("member_of"+g, d.memberOf())
		}
		if d.IntN(12) == 0 {
			v.Set("in_tree"+g, d.provider())
		}
	}
	if d.IntN(10) == 0 {
		v.Set("root_required", d.traits())
	}
	if d.IntN(8) == 0 {
		v.Add("same_subtree", one(d.Rand, []string{"1,2", "1", "1,_NET", "", "9"}))
	}
	if d.IntN(40) == 0 {
		v.Set("limit", one(d.Rand, []string{"0", "x", "-1"}))
	}
	return v
}
