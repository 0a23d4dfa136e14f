package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"cellgate/internal/testlong"
	cellgateproto "cellgate/proto"
)

// instance is an instance's uuid.
const instance = "1a5e0000-0000-4000-8000-000000000001"

// operation is the part of an operation that the tests read.
type operation struct {
	ID          string   `json:"operationId"`
	RPC         string   `json:"x-grpc"`
	Roles       []string `json:"x-roles"`
	Description string   `json:"description"`
	Parameters  []struct {
		Name, In string
		Example  json.RawMessage
	}
	Body *struct {
		Content map[string]struct{ Example json.RawMessage } `json:"content"`
	} `json:"requestBody"`
}

func operations(t *testing.T) map[string]operation {
	t.Helper()
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]operation
	}
	if err := json.Unmarshal(cellgateproto.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("OpenAPI %s", doc.OpenAPI)
	}
	out := map[string]operation{}
	for _, verbs := range doc.Paths {
		for _, o := range verbs {
			out[o.ID] = o
		}
	}
	return out
}

func TestDocument_EveryOperationOfTheAPI_SaysWhatAndWho(t *testing.T) {
	for id, o := range operations(t) {
		if o.RPC != "" && (o.Description == "" || len(o.Roles) == 0) {
			t.Errorf("%s: description %q, roles %v", id, o.Description, o.Roles)
		}
	}
}

// The example of a body is a request that the gateway reads, and that keeps its bounds.
func TestDocument_ExamplesOfBodies_AreRequests(t *testing.T) {
	bodies := 0
	for id, o := range operations(t) {
		if o.Body == nil {
			continue
		}
		bodies++
		service, method, _ := strings.Cut(o.RPC, "/")
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + method))
		if err != nil {
			t.Fatal(err)
		}
		text := o.Body.Content["application/json"].Example
		if len(text) == 0 {
			t.Errorf("%s has no example", id)
			continue
		}
		var fields map[string]json.RawMessage
		if id == "Hosts_PutFacts" {
			fields = map[string]json.RawMessage{"facts": text, "namespace": json.RawMessage(`"cinder"`)}
		} else if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for _, p := range o.Parameters {
			if p.In == "path" && fields[p.Name] == nil {
				fields[p.Name] = json.RawMessage(`"` + instance + `"`)
			}
		}
		whole, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		m := dynamicpb.NewMessage(found.(protoreflect.MethodDescriptor).Input())
		if err := protojson.Unmarshal(whole, m); err != nil {
			t.Errorf("%s: %v", id, err)
		} else if err := protovalidate.Validate(m); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if bodies < 9 {
		t.Errorf("%d operations with a body", bodies)
	}
}

// Each parameter except page_token has an example. A request made of the examples is within its
// bounds.
func TestDocument_ExamplesOfParameters_AreRequests(t *testing.T) {
	for id, o := range operations(t) {
		if len(o.Parameters) == 0 {
			continue
		}
		fields := map[string]json.RawMessage{}
		for _, p := range o.Parameters {
			if p.Example != nil {
				fields[p.Name] = p.Example
			} else if p.Name != "page_token" {
				t.Errorf("%s: %s has no example", id, p.Name)
			}
		}
		whole, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(o.RPC, "/", ".")))
		if err != nil {
			t.Fatal(err)
		}
		m := dynamicpb.NewMessage(found.(protoreflect.MethodDescriptor).Input())
		if err := protojson.Unmarshal(whole, m); err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		given := protovalidate.FilterFunc(func(_ protoreflect.Message, of protoreflect.Descriptor) bool {
			_, isField := of.(protoreflect.FieldDescriptor)
			return !isField || fields[string(of.Name())] != nil // the body has the others
		})
		if err := protovalidate.Validate(m, protovalidate.WithFilter(given)); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// schemaCheck finds where a value violates a schema of the document: undescribed fields, missing
// fields, other types.
type schemaCheck struct {
	t       *testing.T
	schemas map[string]map[string]any
}

func (c schemaCheck) check(at string, schema map[string]any, value any) {
	if ref, ok := schema["$ref"].(string); ok {
		schema = c.schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		if schema == nil {
			c.t.Errorf("%s: there is no %s", at, ref)
			return
		}
	}
	for _, part := range asList(schema["allOf"]) {
		c.check(at, part.(map[string]any), value)
	}
	properties, _ := schema["properties"].(map[string]any)
	object, isObject := value.(map[string]any)
	list, isList := value.([]any)
	switch kind, _ := schema["type"].(string); {
	case kind == "object" && !isObject, kind == "array" && !isList:
		c.t.Errorf("%s: %v is no %s", at, value, kind)
	case kind == "string":
		if _, ok := value.(string); !ok {
			c.t.Errorf("%s: %v is no string", at, value)
		}
	case kind == "boolean":
		if _, ok := value.(bool); !ok {
			c.t.Errorf("%s: %v is no boolean", at, value)
		}
	case kind == "integer", kind == "number":
		if _, ok := value.(float64); !ok {
			c.t.Errorf("%s: %v is no %s", at, value, kind)
		}
	}
	if values := asList(schema["enum"]); len(values) > 0 && !slices.Contains(values, value) {
		c.t.Errorf("%s: %v is none of %v", at, value, values)
	}
	for _, name := range asList(schema["required"]) {
		if _, there := object[name.(string)]; isObject && !there {
			c.t.Errorf("%s: %s is missing", at, name)
		}
	}
	for name, of := range object {
		if of == nil {
			continue
		}
		if property, ok := properties[name].(map[string]any); ok {
			c.check(at+"."+name, property, of)
		} else if properties != nil && schema["additionalProperties"] == nil {
			c.t.Errorf("%s: %s is not described", at, name)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		for _, of := range list {
			c.check(at+"[]", items, of)
		}
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

func TestDocument_ExamplesOfAnswers_AreOfTheirSchemas(t *testing.T) {
	type content struct {
		JSON struct {
			Schema   map[string]any
			Example  any
			Examples map[string]struct{ Value any }
		} `json:"application/json"`
	}
	type response struct{ Content content }
	var doc struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]response
		}
		Components struct {
			Schemas   map[string]map[string]any
			Responses map[string]response
		}
	}
	if err := json.Unmarshal(cellgateproto.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	c := schemaCheck{t, doc.Components.Schemas}
	found := 0
	for _, verbs := range doc.Paths {
		for _, o := range verbs {
			if at := o.Responses["200"].Content.JSON; at.Example != nil {
				found++
				c.check(o.ID, at.Schema, at.Example)
			}
		}
	}
	failure := doc.Components.Responses["Error"].Content.JSON
	for name, example := range failure.Examples {
		c.check(name, failure.Schema, example.Value)
	}
	if found != len(examples.Answers) || len(failure.Examples) != 2 {
		t.Errorf("%d answers and %d errors have examples", found, len(failure.Examples))
	}
	refusal := failure.Examples["no_valid_host"].Value.(map[string]any)["details"].([]any)[1].(map[string]any)
	delete(refusal, "@type")
	c.check("NoValidHost", doc.Components.Schemas["NoValidHost"], refusal)
}

// run runs a command in a folder.
func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func TestClients_GeneratedByOapiCodegen_Compile(t *testing.T) {
	testlong.Only(t, "the examples of bodies, which are requests")
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("../../tools/openapiclient", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "openapi.json"), cellgateproto.OpenAPI, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "go", "tool", "oapi-codegen", "-package", "openapiclient", "-generate", "types,client", "-o", "client.go", "openapi.json")
	run(t, dir, "go", "vet", ".")
}

func TestClients_GeneratedByOpenAPITypescript_Compile(t *testing.T) {
	testlong.Only(t, "the examples of bodies, which are requests")
	const tools = "../../console/node_modules/.bin"
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed: no TypeScript client was generated")
	}
	if _, err := os.Stat(tools); err != nil {
		run(t, "../../console", "npm", "ci", "--ignore-scripts")
	}
	at, err := filepath.Abs(tools)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]string{
		"openapi.json": string(cellgateproto.OpenAPI),
		// Code that uses the generated types: a field that does not exist would not compile.
		"caller.ts": `import type { components, operations } from "./api";
export const request: components["schemas"]["SelectDestinationsRequest"] = { instance_uuids: ["` + instance + `"], request_spec: { flavor: { vcpus: 2 } } };
type Answer = operations["Cells_ListCells"]["responses"][200]["content"]["application/json"];
export const names = (answer: Answer): string[] => answer.cells.map((c) => c.cell);
`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, filepath.Join(at, "openapi-typescript"), "openapi.json", "-o", "api.ts")
	run(t, dir, filepath.Join(at, "tsc"), "--noEmit", "--strict", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "caller.ts", "api.ts")
}
