package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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

// operation is what the tests read of one.
type operation struct {
	ID          string   `json:"operationId"`
	RPC         string   `json:"x-grpc"`
	Roles       []string `json:"x-roles"`
	Description string   `json:"description"`
	Parameters  []struct{ Name, In string }
	Body        *struct {
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
		// A caller of what is generated: a field that is not there would not compile.
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
