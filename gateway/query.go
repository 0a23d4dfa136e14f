package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// queryFields says by "METHOD path" which query parameters a call takes: the
// fields of its request that are not in the path; none when there is a body.
type queryFields map[string][]string

// queryFieldsOf reads the services of a proto file.
func queryFieldsOf(files ...protoreflect.FileDescriptor) queryFields {
	out := queryFields{}
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				rule, ok := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule == nil {
					continue
				}
				method, path := verbOf(rule)
				names := []string{}
				fields := methods.Get(k).Input().Fields()
				for f := range fields.Len() {
					name := string(fields.Get(f).Name())
					if rule.GetBody() == "" && !strings.Contains(path, "{"+name+"}") {
						names = append(names, name)
					}
				}
				out[method+" "+path] = names
			}
		}
	}
	return out
}

func verbOf(rule *annotations.HttpRule) (method, path string) {
	switch {
	case rule.GetGet() != "":
		return http.MethodGet, rule.GetGet()
	case rule.GetPost() != "":
		return http.MethodPost, rule.GetPost()
	case rule.GetPut() != "":
		return http.MethodPut, rule.GetPut()
	case rule.GetPatch() != "":
		return http.MethodPatch, rule.GetPatch()
	default:
		return http.MethodDelete, rule.GetDelete()
	}
}

// check refuses a call with a query parameter that it does not take: grpc-gateway
// would read over it, and a filter with a typing error would filter nothing.
func (q queryFields) check(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		path := strings.ReplaceAll(pattern.String(), "=*}", "}")
		known, ok := q[r.Method+" "+path]
		var bad []fault.Field
		for _, key := range slices.Sorted(maps.Keys(r.URL.Query())) {
			if name, _, _ := strings.Cut(key, "."); ok && !slices.Contains(known, name) {
				bad = append(bad, fault.Field{Path: key, Problem: fmt.Sprintf("unknown query parameter; there are: %s", orNone(known))})
			}
		}
		if len(bad) > 0 {
			writeFault(w, rpc.HTTPStatus(fault.InvalidRequest), fault.InvalidFields(bad))
			return
		}
		next(w, r, params)
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
