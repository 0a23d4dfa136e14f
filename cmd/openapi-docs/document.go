package main

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// document is the description so far.
type document struct {
	comments comments
	roles    map[string][]security.Role
	schemas  schemas
	// answers says for each message whether its schema is that of an answer.
	answers map[string]bool
	tags    []object
	paths   object
}

func newDocument(c comments) *document {
	return &document{comments: c, roles: security.Access(), schemas: schemas{}, answers: map[string]bool{}}
}

// describe adds the services of a file.
func (d *document) describe(file protoreflect.FileDescriptor) error {
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		d.tags = append(d.tags, object{{"name", service.Name()}}.with("description", d.comments[service.FullName()]))
		for k := range service.Methods().Len() {
			if err := d.method(service, service.Methods().Get(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// parameter matches {name} in a path.
var parameter = regexp.MustCompile(`\{([^}]*)\}`)

func verbOf(rule *annotations.HttpRule) (verb, path string) {
	for verb, path := range map[string]string{
		"get": rule.GetGet(), "post": rule.GetPost(), "put": rule.GetPut(), "patch": rule.GetPatch(), "delete": rule.GetDelete(),
	} {
		if path != "" {
			return verb, path
		}
	}
	return "", ""
}

// method adds the operation of an RPC that has an HTTP binding.
func (d *document) method(service protoreflect.ServiceDescriptor, m protoreflect.MethodDescriptor) error {
	rule := extension[*annotations.HttpRule](m.Options(), annotations.E_Http)
	verb, path := verbOf(rule)
	if verb == "" {
		return nil
	}
	inPath := map[string]bool{}
	parameters := []object{}
	for _, found := range parameter.FindAllStringSubmatch(path, -1) {
		f := m.Input().Fields().ByName(protoreflect.Name(found[1]))
		if f == nil {
			return fmt.Errorf("%s: %s has no field %s", m.FullName(), m.Input().FullName(), found[1])
		}
		inPath[found[1]] = true
		parameters = append(parameters, d.parameter(f, "path", true))
	}
	if rule.GetBody() != "*" {
		for i := range m.Input().Fields().Len() {
			f := m.Input().Fields().Get(i)
			name := string(f.Name())
			switch {
			case inPath[name] || name == rule.GetBody():
			case f.Message() != nil && f.Message().FullName() != "google.protobuf.Timestamp":
				return fmt.Errorf("%s: the parameter %s is a message, which no query can carry", m.FullName(), name)
			default:
				parameters = append(parameters, d.parameter(f, "query", demanded(f)))
			}
		}
	}
	full := string(service.FullName()) + "/" + string(m.Name())
	about := d.comments[m.FullName()]
	summary, _, _ := strings.Cut(about, ". ")
	o := object{{"operationId", string(service.Name()) + "_" + string(m.Name())}, {"tags", []protoreflect.Name{service.Name()}}}.
		with("summary", strings.TrimSuffix(summary, ".")).with("description", about)
	if len(parameters) > 0 {
		o = o.with("parameters", parameters)
	}
	if rule.GetBody() != "" {
		var schema object
		if rule.GetBody() == "*" {
			d.message(m.Input(), inPath, false)
			schema = ref(nameOf(m.Input()))
		} else {
			schema = d.schema(m.Input().Fields().ByName(protoreflect.Name(rule.GetBody())), false)
		}
		body := object{{"schema", schema}}
		if example, ok := examples.Requests[string(m.Name())]; ok {
			body = body.with("example", example)
		}
		o = o.with("requestBody", object{{"required", true}, {"content", object{{"application/json", body}}}})
	}
	d.message(m.Output(), nil, true)
	answer := object{{"schema", ref(nameOf(m.Output()))}}
	if example, ok := examples.Answers[string(m.Name())]; ok {
		text, err := complete(example, dynamicpb.NewMessage(m.Output()))
		if err != nil {
			return err
		}
		answer = answer.with("example", text)
	}
	o = o.with("responses", object{
		{"200", object{{"description", "Done."}, {"content", object{{"application/json", answer}}}}},
		{"default", object{{"$ref", "#/components/responses/Error"}}},
	})
	d.add(path, verb, o.with("x-grpc", full).with("x-roles", d.roles[full]))
	return nil
}

func (d *document) parameter(f protoreflect.FieldDescriptor, in string, required bool) object {
	schema := d.schema(f, false)
	schema = slices.DeleteFunc(schema, func(m member) bool { return m.name == "description" })
	o := object{{"name", f.Name()}, {"in", in}, {"required", required}, {"schema", schema}}.with("description", d.comments[f.FullName()])
	if example, ok := examples.Parameters[string(f.Name())]; ok {
		o = o.with("example", example)
	}
	return o
}

func (d *document) add(path, verb string, operation object) {
	i := slices.IndexFunc(d.paths, func(m member) bool { return m.name == path })
	if i < 0 {
		i = len(d.paths)
		d.paths = append(d.paths, member{path, object{}})
	}
	methods, _ := d.paths[i].value.(object)
	d.paths[i].value = methods.with(verb, operation)
}

// plain adds a path that only HTTP serves.
func (d *document) plain(path, id, about, kind string) {
	row := http.MethodGet + " " + path
	o := object{
		{"operationId", id},
		{"tags", []string{"Gateway"}},
		{"summary", strings.TrimSuffix(about, ".")},
		{"responses", object{{"200", object{{"description", "Done."}, {"content", object{{kind, object{{"schema", object{{"type", map[bool]string{true: "object", false: "string"}[kind == "application/json"]}}}}}}}}}}},
	}
	if roles := d.roles[row]; len(roles) > 0 {
		o = o.with("x-roles", roles)
	} else {
		o = o.with("security", []object{})
	}
	d.add(path, "get", o)
}

// whole gives the whole document.
func (d *document) whole() (object, error) {
	d.plain("/v1/events", "Gateway_WatchEvents", "Server-sent events: cells (a ListCellsResponse) and decisions (the id of the newest), each when it changes, at most every two seconds.", "text/event-stream")
	d.plain("/healthz", "Gateway_GetHealth", "200 while the process is alive, else 503.", "application/json")
	d.plain("/readyz", "Gateway_GetReadiness", "200 while new requests are welcome, else 503.", "application/json")
	d.plain("/metrics", "Gateway_GetMetrics", "Metrics of the process, for Prometheus.", "text/plain")
	d.plain("/openapi.json", "Gateway_GetOpenAPI", "This description.", "application/json")
	tags := append(d.tags, object{{"name", "Gateway"}, {"description", "What a gateway serves by HTTP alone."}})
	problem := cellgatev1.File_cellgate_v1_error_proto.Messages().ByName("Error")
	d.message(problem, nil, true)
	d.message(cellgatev1.File_cellgate_v1_scheduler_proto.Messages().ByName("NoValidHost"), nil, true)
	failures, err := errorExamples()
	if err != nil {
		return nil, err
	}
	var all object
	for _, name := range slices.Sorted(maps.Keys(d.schemas)) {
		all = all.with(name, d.schemas[name])
	}
	return object{
		{"openapi", "3.1.0"},
		{"info", object{
			{"title", "cellgate"},
			{"version", "v1"},
			{"summary", "Chooses hosts for instances over all cells of a cloud, and claims them."},
			{"description", "The same API is gRPC: x-grpc names the method of each operation. Errors carry google.rpc.ErrorInfo with the domain \"cellgate\" and a reason. x-roles lists the roles that may call an operation, where the gateway asks who calls."},
			{"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}},
		}},
		{"servers", []object{{{"url", "/"}, {"description", "This gateway."}}}},
		{"security", []object{{{"token", []string{}}}, {{"certificate", []string{}}}, {}}},
		{"tags", tags},
		{"paths", d.paths},
		{"components", object{
			{"securitySchemes", object{
				{"token", object{{"type", "http"}, {"scheme", "bearer"}, {"description", "A token that `cellgate token` made."}}},
				{"certificate", object{{"type", "mutualTLS"}, {"description", "A client certificate with a URI cellgate://ROLE/NAME."}}},
			}},
			{"responses", object{{"Error", object{
				{"description", statuses()},
				{"content", object{{"application/json", object{{"schema", ref("Error")}, {"examples", failures}}}}},
			}}}},
			{"schemas", all},
		}},
	}, nil
}

// statuses says which HTTP status each reason has.
func statuses() string {
	by := map[int][]string{http.StatusGatewayTimeout: {"DEADLINE_EXCEEDED"}}
	for _, kind := range fault.Kinds() {
		if kind != fault.Gone {
			by[rpc.HTTPStatus(kind)] = append(by[rpc.HTTPStatus(kind)], string(kind))
		}
	}
	var out []string
	for _, code := range slices.Sorted(maps.Keys(by)) {
		out = append(out, fmt.Sprintf("%d %s", code, strings.Join(by[code], ", ")))
	}
	return "Any other answer. Its HTTP status is that of the reason: " + strings.Join(out, "; ") + "."
}
