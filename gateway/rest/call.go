package rest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
	"cellgate/internal/security"
	"cellgate/internal/suggest"
)

// calls are the calls of the REST API.
type calls []call

type call struct {
	method, path string
	// rpc is the method's full proto name, full its gRPC name: /service/method.
	rpc, full string
	// paths matches the paths of the call.
	paths *regexp.Regexp
	// body is the field that the body fills; empty if the body is the whole request, or there
	// is none.
	body string
	// query are the call's query parameters, by name: the fields of its request that are
	// neither in the path nor the body.
	query map[string]protoreflect.FieldDescriptor
}

// pathParameter is {name} in a path.
var pathParameter = regexp.MustCompile(`\\\{[^/]*?\\\}`)

// callsOf reads the services of proto files.
func callsOf(files ...protoreflect.FileDescriptor) calls {
	var out calls
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for k := range methods.Len() {
				rule, ok := proto.GetExtension(methods.Get(k).Options(), annotations.E_Http).(*annotations.HttpRule)
				if !ok || rule == nil {
					continue
				}
				c := call{rpc: string(methods.Get(k).FullName()), query: map[string]protoreflect.FieldDescriptor{}}
				c.full = "/" + string(file.Services().Get(i).FullName()) + "/" + string(methods.Get(k).Name())
				c.method, c.path = verbOf(rule)
				if rule.GetBody() != "*" {
					c.body = rule.GetBody()
				}
				c.paths = regexp.MustCompile("^" + pathParameter.ReplaceAllLiteralString(regexp.QuoteMeta(c.path), "[^/]+") + "$")
				fields := methods.Get(k).Input().Fields()
				for f := range fields.Len() {
					name := string(fields.Get(f).Name())
					if rule.GetBody() != "*" && name != rule.GetBody() && !strings.Contains(c.path, "{"+name+"}") {
						c.query[name] = fields.Get(f)
					}
				}
				out = append(out, c)
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

// check refuses a call before anything of its body is read: first by the caller's role, then
// by the names and values of its parameters. grpc-gateway would ignore an unknown name, so
// that a misspelt filter filters nothing, and would answer a bad value with the error of a Go
// library. Then check charges the body to its caller, and the gateway admits the call or
// refuses it.
func (a *api) check(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		path := strings.ReplaceAll(pattern.String(), "=*}", "}")
		i := slices.IndexFunc(a.calls, func(c call) bool { return c.method == r.Method && c.path == path })
		if i < 0 {
			next(w, r, params)
			return
		}
		refuse := func(err error) {
			kind := fault.KindOf(err)
			a.Telemetry.Unread(a.calls[i].rpc, string(kind))
			writeFault(w, rpc.HTTPStatus(kind), err)
		}
		if err := security.MayCall(r, strings.TrimPrefix(a.calls[i].full, "/")); err != nil {
			refuse(err)
			return
		}
		if err := fault.InvalidFields(a.calls[i].problems(r.URL.RawQuery, params)); err != nil {
			refuse(err)
			return
		}
		if b, ok := r.Body.(*body); ok {
			b.field = a.calls[i].body
			if b.size > ingress.Window {
				if err := b.charge(b.in.Body(security.Caller(r), b.size)); err != nil {
					refuse(err)
					return
				}
			}
		}
		if noTime.MatchString(r.Header.Get(timeoutHeader)) {
			ctx, cancel := context.WithDeadline(r.Context(), time.Now())
			defer cancel()
			r = r.WithContext(ctx)
		}
		r, leave, err := a.Admit(r, a.calls[i].full)
		if err != nil {
			refuse(err)
			return
		}
		defer leave()
		next(w, r, params)
	}
}

// noTime matches a timeout of zero. grpc-gateway takes it as no timeout, but here the
// deadline has passed at once.
var noTime = regexp.MustCompile("^0+[HMSmun]$")

// problems gives the errors in the parameters of the query and the path.
func (c call) problems(query string, path map[string]string) []fault.Field {
	var bad []fault.Field
	refuse := func(name, format string, args ...any) {
		bad = append(bad, fault.Field{Path: name, Problem: fmt.Sprintf(format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(path)) {
		if !utf8.ValidString(path[name]) {
			refuse(name, "is not UTF-8")
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		refuse("query", "%q is not a query: a \"%%\" is not followed by two hexadecimal digits, or there is a \";\"", query)
		return bad
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, ok := c.query[name]
		switch {
		case !ok && len(c.query) == 0:
			refuse(name, "is unknown; there are no query parameters here")
		case !ok:
			known := slices.Sorted(maps.Keys(c.query))
			if like := suggest.Nearest(name, known, 3); like != "" {
				refuse(name, "is unknown%s", suggest.Meant(like))
				break
			}
			refuse(name, "is unknown; the query parameters are %s", strings.Join(known, ", "))
		case len(values[name]) > 1:
			refuse(name, "is there %d times; it may be there once", len(values[name]))
		case !utf8.ValidString(values[name][0]):
			refuse(name, "is not UTF-8")
		case field.Kind() == protoreflect.BoolKind:
			if v := values[name][0]; v != "true" && v != "false" {
				refuse(name, "%q is neither true nor false", v)
			}
		case field.Kind() == protoreflect.EnumKind:
			if field.Enum().Values().ByName(protoreflect.Name(values[name][0])) == nil {
				refuse(name, "%q is none of %s", values[name][0], strings.Join(valueNames(field.Enum()), ", "))
			}
		case field.Kind() == protoreflect.Int32Kind, field.Kind() == protoreflect.Int64Kind:
			size := 32
			if field.Kind() == protoreflect.Int64Kind {
				size = 64
			}
			if _, err := strconv.ParseInt(values[name][0], 10, size); err != nil {
				refuse(name, "%q is not a whole number of %d bits", values[name][0], size)
			}
		case field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Timestamp":
			if t, err := time.Parse(time.RFC3339Nano, values[name][0]); err != nil || !timestamppb.New(t).IsValid() {
				refuse(name, "%q is not a time as 2006-01-02T15:04:05Z", values[name][0])
			}
		}
	}
	return bad
}

// valueNames gives the names of an enum's values, without the first, which stands for none.
func valueNames(enum protoreflect.EnumDescriptor) (names []string) {
	for i := 1; i < enum.Values().Len(); i++ {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return names
}

// routingKind gives the kind of handleRouting's error.
func routingKind(code int) fault.Kind {
	if code == http.StatusMethodNotAllowed || code == http.StatusBadRequest {
		return fault.InvalidRequest
	}
	return fault.NotFound
}

// handleRouting answers requests for paths and methods that the API does not have.
func (a *api) handleRouting(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	a.Telemetry.Unread("", string(routingKind(code)))
	switch code {
	case http.StatusMethodNotAllowed:
		var allowed []string
		for _, c := range a.calls {
			if c.paths.MatchString(r.URL.Path) {
				allowed = append(allowed, c.method)
			}
		}
		methods := strings.Join(slices.Compact(slices.Sorted(slices.Values(allowed))), ", ")
		w.Header().Set("Allow", methods)
		writeFault(w, code, fault.New(fault.InvalidRequest, "%s does not take %s; it takes %s", r.URL.Path, r.Method, methods))
	case http.StatusBadRequest:
		writeFault(w, code, fault.New(fault.InvalidRequest, "%q is not a path", r.URL.Path))
	default:
		writeFault(w, http.StatusNotFound, fault.New(fault.NotFound, "there is nothing at %s", r.URL.Path))
	}
}
