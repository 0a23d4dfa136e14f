package placement

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// recorded is a request of Nova 26.2.2 and what Placement 8.0.0 answered.
type recorded struct {
	Method, Path, Version, Agent string
	Request, Response            any
	Status                       int
	Headers                      map[string]string
}

// TestAPI_RecordedRequests_AnswersArePlacements replays over the memory backend.
func TestAPI_RecordedRequests_AnswersArePlacements(t *testing.T) {
	ReplayRecorded(t, func() Backend { return newMemory() })
}

// ReplayRecorded sends what a real Nova sent, to a backend that has what the recorded request and answer tell of the
// state before it; fresh gives an empty backend. Tests of other backends use it, in package placement_test.
func ReplayRecorded(t *testing.T, fresh func() Backend) {
	t.Helper()
	files, err := filepath.Glob("testdata/nova/*.json")
	if err != nil || len(files) < 38 {
		t.Fatalf("%d recorded requests: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rec recorded
		if err := json.Unmarshal(text, &rec); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		b := fresh()
		copyState(t, stateBefore(t, &rec), b)
		s := newTestServer(t, b)
		body := ""
		if rec.Request != nil {
			b, err := json.Marshal(rec.Request)
			if err != nil {
				t.Fatal(err)
			}
			body = string(b)
		}
		got := send(t, s.URL, operation{version: rec.Version, method: rec.Method, path: rec.Path}, body)
		want := comparable(rec.Response, "")
		if got.Status != rec.Status || !reflect.DeepEqual(got.Body, want) {
			wanted, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			t.Errorf("%s: %s %s of %s:\n got %d %s\nwant %d %s", file, rec.Method, rec.Path, rec.Agent, got.Status, got.text, rec.Status, wanted)
		}
		for name, value := range got.Header {
			want := rec.Headers[strings.ToLower(name)]
			switch {
			case name == "Last-Modified" && want != "":
				want = "a time"
			case name == "Location" && want != "":
				u, err := url.Parse(want)
				if err != nil {
					t.Fatal(err)
				}
				want = u.Path
			}
			if value != want {
				t.Errorf("%s: %s %s: header %s: %q, want %q", file, rec.Method, rec.Path, name, value, want)
			}
		}
	}
}

// copyState writes all that a memory has into an empty backend: parents before their children.
func copyState(t *testing.T, from *memory, to Backend) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []NameKind{ClassName, TraitName} {
		for _, name := range keys(from.names[kind]) {
			_, err := to.PutName(t.Context(), kind, name)
			check(err)
		}
	}
	written := map[string]bool{"": true}
	for len(written) <= len(from.state.providers) {
		before := len(written)
		for _, id := range keys(from.state.providers) {
			p := from.state.providers[id]
			if written[id] || !written[p.ParentUUID] {
				continue
			}
			written[id] = true
			check(to.Write(t.Context(), Write{Providers: []ProviderWrite{{
				UUID: id, Create: true, Name: &p.Name, Parent: &p.ParentUUID, Raise: p.Generation,
				Inventories: &p.Inventories, Traits: &p.Traits, Aggregates: &p.Aggregates,
			}}}))
		}
		if len(written) == before {
			t.Fatal("a provider of the recorded state has no parent")
		}
	}
	for _, id := range keys(from.state.consumers) {
		c := from.state.consumers[id]
		check(to.Write(t.Context(), Write{Adopt: true, Consumers: []ConsumerWrite{{
			UUID: id, Raise: c.Generation - 1, ProjectID: c.ProjectID, UserID: c.UserID, Allocations: c.Allocations,
		}}}))
	}
}

// stateBefore makes a backend with the providers, names and consumers that a record tells of.
func stateBefore(t *testing.T, rec *recorded) *memory {
	t.Helper()
	m := newMemory()
	request, _ := rec.Request.(map[string]any)
	response, _ := rec.Response.(map[string]any)
	u, err := url.Parse(rec.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.Split(u.Path, "/")
	provider := func(id string) *Provider {
		if m.state.providers[id] == nil {
			m.state.providers[id] = &Provider{UUID: id, Name: id, RootUUID: id, Inventories: map[string]Inventory{}}
		}
		return m.state.providers[id]
	}
	holds := func(id string, generation any, allocations any) {
		if generation == nil {
			return
		}
		held := &Consumer{UUID: id, Generation: int64(generation.(float64)), ProjectID: "p", UserID: "u", Type: UnknownType, Allocations: Allocations{}}
		for p := range allocations.(map[string]any) {
			held.Allocations[p] = map[string]int64{"VCPU": 1}
		}
		if len(held.Allocations) == 0 {
			held.Allocations["00000000-0000-4000-8000-00000000000f"] = map[string]int64{"VCPU": 1}
		}
		for p := range held.Allocations {
			provider(p).Inventories["VCPU"] = inventoryOf(map[string]any{"total": json.Number("1000000")})
		}
		m.state.consumers[id] = held
	}
	inventory := func(id string, allocations any) {
		for p, one := range allocations.(map[string]any) {
			for class := range one.(map[string]any)["resources"].(map[string]any) {
				provider(p).Inventories[class] = inventoryOf(map[string]any{"total": json.Number("1000000")})
			}
		}
	}
	switch path[1] {
	case "resource_classes", "traits":
		if rec.Status == 204 {
			m.names[ClassName][path[2]] = true
		}
		return m
	}
	m.names[ClassName]["CUSTOM_MAGIC"], m.names[ClassName]["CUSTOM_NIC_VF"] = true, true
	switch path[1] {
	case "allocations":
		switch {
		case rec.Method == "PUT":
			inventory(path[2], request["allocations"])
			holds(path[2], request["consumer_generation"], request["allocations"])
		case rec.Method == "POST":
			for id, one := range request {
				body := one.(map[string]any)
				inventory(id, body["allocations"])
				holds(id, body["consumer_generation"], body["allocations"])
			}
		case rec.Status == 204:
			holds(path[2], 1.0, map[string]any{})
		}
	case "resource_providers":
		stateOfProviders(path, rec, request, response, provider)
	case "allocation_candidates":
		stateOfCandidates(u.Query(), response, provider, m)
	}
	return m
}

func stateOfProviders(path []string, rec *recorded, request, response map[string]any, provider func(string) *Provider) {
	list, _ := response["resource_providers"].([]any)
	for _, one := range list {
		seen := one.(map[string]any)
		p := provider(seen["uuid"].(string))
		p.Name, p.Generation = seen["name"].(string), int64(seen["generation"].(float64))
		if root, ok := seen["root_provider_uuid"].(string); ok {
			p.RootUUID = root
		}
		p.ParentUUID, _ = seen["parent_provider_uuid"].(string)
	}
	if parent, ok := request["parent_provider_uuid"].(string); ok {
		provider(parent)
	}
	if len(path) < 3 {
		return
	}
	p := provider(path[2])
	if generation, ok := response["resource_provider_generation"].(float64); ok {
		p.Generation = int64(generation)
	}
	if generation, ok := request["resource_provider_generation"].(float64); ok {
		p.Generation = int64(generation)
	}
	if rec.Method != "GET" {
		return
	}
	inventories, _ := response["inventories"].(map[string]any)
	for class, one := range inventories {
		fields := map[string]any{}
		for name, n := range one.(map[string]any) {
			text, err := json.Marshal(n)
			if err != nil {
				panic(err)
			}
			fields[name] = json.Number(text)
		}
		p.Inventories[class] = inventoryOf(fields)
	}
	p.Traits, p.Aggregates = textsOf(response["traits"]), textsOf(response["aggregates"])
}

func textsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, s := range list {
		out = append(out, s.(string))
	}
	return out
}

// stateOfCandidates makes the summarized providers; those that requests take from are in the aggregates asked for.
func stateOfCandidates(query url.Values, response map[string]any, provider func(string) *Provider, m *memory) {
	for id, one := range response["provider_summaries"].(map[string]any) {
		seen := one.(map[string]any)
		p := provider(id)
		p.RootUUID = seen["root_provider_uuid"].(string)
		p.ParentUUID, _ = seen["parent_provider_uuid"].(string)
		p.Traits = textsOf(seen["traits"])
		for _, trait := range p.Traits {
			if strings.HasPrefix(trait, customPrefix) {
				m.names[TraitName][trait] = true
			}
		}
		held := &Consumer{UUID: id, Generation: 1, ProjectID: "p", UserID: "u", Type: UnknownType, Allocations: Allocations{id: {}}}
		for class, amounts := range seen["resources"].(map[string]any) {
			n := amounts.(map[string]any)
			i := inventoryOf(map[string]any{})
			i.Total = int64(n["capacity"].(float64))
			p.Inventories[class] = i
			if strings.HasPrefix(class, customPrefix) {
				m.names[ClassName][class] = true
			}
			if used := int64(n["used"].(float64)); used > 0 {
				held.Allocations[id][class] = used
			}
		}
		m.state.consumers[id] = held
	}
	for _, one := range response["allocation_requests"].([]any) {
		for id := range one.(map[string]any)["allocations"].(map[string]any) {
			if _, list, ok := strings.Cut(query.Get("member_of"), "in:"); ok {
				provider(id).Aggregates = strings.Split(list, ",")[:1]
			}
		}
	}
}
