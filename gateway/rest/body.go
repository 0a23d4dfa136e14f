package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"cellgate/internal/fault"
	"cellgate/internal/ingress"
	"cellgate/internal/suggest"
)

// body is a request's body. It keeps the error of decoding it, since the generated handlers
// only pass on its text.
type body struct {
	from io.ReadCloser
	// field is the request's field that the body fills; empty if the body is the whole request.
	field string
	bad   *fault.Error
	// ended: the body was read to its end.
	ended bool

	ctx context.Context
	in  *ingress.Ingress
	// size is the longest that the body may be, in bytes.
	size int64
	// releases give back the body's charges.
	releases []func()
}

// charge keeps the release function of a charge until done, and returns the charge's error.
func (b *body) charge(release func(), err error) error {
	if err == nil {
		b.releases = append(b.releases, release)
	}
	return err
}

// done gives back the body's charges; it is called after the answer.
func (b *body) done() {
	for _, release := range b.releases {
		release()
	}
}

// admit waits until the body's text may be decoded; only a few large ones are decoded at once.
func (b *body) admit(text []byte) error {
	values, err := scanJSON(text)
	if err == nil && b.in != nil {
		err = b.charge(b.in.Heavy(b.ctx, int64(len(text)+values*ingress.ElementCost)))
	}
	return err
}

// wholeBody stands for the field in errors about the whole body.
const wholeBody = "body"

func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.from.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *body) Close() error { return b.from.Close() }

// jsonForm reads and writes the API's JSON.
type jsonForm struct{ runtime.JSONPb }

// NewDecoder gives a decoder of one body. An empty body decodes to an empty message.
func (f *jsonForm) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			b = &body{}
		}
		var all bytes.Buffer
		all.Grow(int(b.size) + bytes.MinRead)
		_, err := all.ReadFrom(r)
		text := all.Bytes()
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			b.bad = fault.Invalid(wholeBody, "is larger than %d bytes", large.Limit)
			b.bad.Cause = err
		case err != nil:
			b.bad = fault.Invalid(wholeBody, "could not be read")
			b.bad.Cause = err
		case len(bytes.TrimSpace(text)) == 0:
			return io.EOF
		default:
			m, ok := messageIn(v)
			if !ok {
				return f.Unmarshal(text, v)
			}
			if err := b.admit(text); err != nil {
				if !errors.As(err, &b.bad) {
					return err // the caller is gone
				}
				return b.bad
			}
			if err := f.UnmarshalOptions.Unmarshal(text, m); err != nil {
				b.bad = jsonFault(b.field, text, m, err)
			}
		}
		if b.bad == nil {
			return nil
		}
		return b.bad
	})
}

// messageIn gives the message to decode a body into: v, or the field of a request that v
// points to, which it creates if nil.
func messageIn(v any) (proto.Message, bool) {
	if m, ok := v.(proto.Message); ok {
		return m, true
	}
	field := reflect.ValueOf(v)
	if field.Kind() != reflect.Pointer || field.Elem().Kind() != reflect.Pointer {
		return nil, false
	}
	if field = field.Elem(); field.IsNil() {
		field.Set(reflect.New(field.Type().Elem()))
	}
	m, ok := field.Interface().(proto.Message)
	return m, ok
}

// Marshal gives compact JSON: protojson deliberately varies its spaces between builds.
func (f *jsonForm) Marshal(v any) ([]byte, error) {
	text, err := f.JSONPb.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// position matches protojson's position in an error: "(line 1:23): ".
var position = regexp.MustCompile(`\(line (\d+):(\d+)\): `)

// oneofSet matches protojson's error for a second field of a oneof.
var oneofSet = regexp.MustCompile(`oneof (\S+) is already set`)

// ReadJSON decodes a message of the API as from a body; an error names the wrong field and the problem.
func ReadJSON(text []byte, m proto.Message) error {
	if err := protojson.Unmarshal(text, m); err != nil {
		return jsonFault("", text, m, err)
	}
	return nil
}

// jsonFault gives the error of a body that should decode to m, with the path of the wrong field. field is the
// request's field that the body fills; empty if the body is the whole request.
func jsonFault(field string, text []byte, m proto.Message, err error) *fault.Error {
	path, problem, where := jsonProblem(text, err)
	switch {
	case problem == noSuchField:
		problem += meantField(m.ProtoReflect().Descriptor(), path)
	case strings.HasSuffix(problem, noSuchValue):
		problem += meantValue(m.ProtoReflect().Descriptor(), path, problem)
	}
	if m := oneofSet.FindStringSubmatch(problem); m != nil && field == "" && path != "" {
		return oneofFault(path, m[1], where)
	}
	switch {
	case path == "":
		path = cmp.Or(field, wholeBody)
	case field != "":
		path = field + "." + path
	}
	if where != "" {
		problem += " (" + where + ")"
	}
	bad := fault.Invalid(path, "%s", problem)
	bad.Cause = err
	return bad
}

// jsonProblem gives the problem of a JSON text, the path of the wrong field (empty for the
// whole text), and its line and column if they are known.
func jsonProblem(text []byte, err error) (path, problem, where string) {
	_, problem, _ = strings.Cut(err.Error(), "proto:")
	problem = strings.TrimSpace(strings.ReplaceAll(problem, "\u00a0", " "))
	at := position.FindStringSubmatch(problem)
	if at == nil && strings.Contains(problem, "unexpected EOF") {
		last := text[bytes.LastIndexByte(text, '\n')+1:]
		return "", "is not JSON: it ends too early", fmt.Sprintf("line %d, column %d", bytes.Count(text, []byte("\n"))+1, utf8.RuneCount(last)+1)
	}
	if at == nil {
		return "", "is not the JSON that is asked for: " + problem, ""
	}
	line, _ := strconv.Atoi(at[1])
	column, _ := strconv.Atoi(at[2])
	where = fmt.Sprintf("line %d, column %d", line, column)
	problem = strings.Replace(problem, at[0], "", 1)
	problem = strings.TrimPrefix(problem, "syntax error ")
	if !json.Valid(text) {
		return "", "is not JSON: " + problem, where
	}
	if path = fieldAt(text, offsetOf(text, line, column)); path == "" {
		return "", "is not the JSON that is asked for: " + problem, where
	}
	return path, problemText(problem), where
}

// wrongType and unknownField match protojson's errors for a value of another type, and for an unknown field.
var (
	wrongType    = regexp.MustCompile(`^invalid value for (\w+) field \S+: (.+)$`)
	unknownField = regexp.MustCompile(`^unknown field "[^"]*"$`)
)

const (
	noSuchField = "there is no such field"
	noSuchValue = " is none of the values"
)

// shownFields bounds the fields of a message that are listed if none is similar.
const shownFields = 12

// meantField suggests a field that is similar to the last name of a path, or lists the fields of its message. It is
// empty if there are too many.
func meantField(at protoreflect.MessageDescriptor, path string) string {
	at, name := lastOf(at, path)
	if at == nil {
		return ""
	}
	var fields []string
	for k := range at.Fields().Len() {
		fields = append(fields, at.Fields().Get(k).TextName())
	}
	if like := suggest.MeantOf(name, fields, 3); like != "" || len(fields) > shownFields {
		return like
	}
	return "; the fields are " + strings.Join(fields, ", ")
}

// meantValue lists the values of the enum field at a path, and suggests one that is similar to the problem's value.
func meantValue(at protoreflect.MessageDescriptor, path, problem string) string {
	at, name := lastOf(at, path)
	if at == nil {
		return ""
	}
	field := fieldNamed(at, name)
	if field == nil || field.Enum() == nil {
		return ""
	}
	var values []string
	for k := range field.Enum().Values().Len() {
		values = append(values, string(field.Enum().Values().Get(k).Name()))
	}
	value := strings.Trim(strings.TrimSuffix(problem, noSuchValue), `"`)
	return " " + strings.Join(values, ", ") + suggest.MeantOf(strings.ToUpper(value), values, 3)
}

// lastOf gives the last name of a path, and the message that should have that field; nil if the path leads to no
// message.
func lastOf(at protoreflect.MessageDescriptor, path string) (protoreflect.MessageDescriptor, string) {
	names := strings.Split(listIndex.ReplaceAllString(path, ""), ".")
	last := len(names) - 1
	for _, name := range names[:last] {
		field := fieldNamed(at, name)
		if field == nil || field.Message() == nil || field.IsMap() {
			return nil, ""
		}
		at = field.Message()
	}
	return at, names[last]
}

// fieldNamed gives the field with that proto name or JSON name; nil if there is none.
func fieldNamed(at protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	return cmp.Or(at.Fields().ByName(protoreflect.Name(name)), at.Fields().ByJSONName(name))
}

// listIndex matches the index of an element in a path.
var listIndex = regexp.MustCompile(`\[\d+\]`)

// problemText turns protojson's problem with a field into a text that follows the field's name.
func problemText(problem string) string {
	if unknownField.MatchString(problem) {
		return noSuchField
	}
	if strings.Contains(problem, "google.protobuf.Duration") {
		return `must be a duration in seconds such as "300s"`
	}
	m := wrongType.FindStringSubmatch(problem)
	if m == nil {
		return problem
	}
	switch kind, value := m[1], m[2]; kind {
	case "int32", "int64", "uint32", "uint64":
		return value + " is not a whole number of " + strings.TrimLeft(kind, "uint") + " bits"
	case "double", "float":
		return value + " is not a number"
	case "bool":
		return value + " is neither true nor false"
	case "string":
		return value + " is not a text"
	case "enum":
		return value + noSuchValue
	}
	return problem
}

// oneofFault gives the error of a body with two fields of a oneof, the second at path and
// where. It names all fields of the oneof.
func oneofFault(path, oneof, where string) *fault.Error {
	names := []string{path}
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(oneof))
	if o, ok := d.(protoreflect.OneofDescriptor); ok && err == nil {
		above := path[:strings.LastIndexByte(path, '.')+1]
		names = names[:0]
		for i := range o.Fields().Len() {
			names = append(names, above+string(o.Fields().Get(i).Name()))
		}
	}
	e := fault.New(fault.InvalidRequest, "only one of %s may be set; the second is at %s", strings.Join(names, ", "), where)
	for _, name := range names {
		e.Fields = append(e.Fields, fault.Field{Path: name, Problem: "only one of " + strings.Join(names, ", ") + " may be set"})
	}
	return e
}

// offsetOf gives the byte offset of a line and column, both from 1, columns in runes.
func offsetOf(text []byte, line, column int) int64 {
	offset := 0
	for ; line > 1; line-- {
		offset += bytes.IndexByte(text[offset:], '\n') + 1
	}
	for ; column > 1 && offset < len(text); column-- {
		_, size := utf8.DecodeRune(text[offset:])
		offset += size
	}
	return int64(offset)
}

// fieldAt gives the path of the field whose name or value is at a byte of a JSON
// text: request_spec.flavor.vcpus, instance_uuids[3].
func fieldAt(text []byte, offset int64) string {
	type level struct {
		name  string // of the field, in an object
		index int    // of the element, in a list
		list  bool
		value bool // an object's value comes next
	}
	var levels []level
	path := func() string {
		var s strings.Builder
		for _, l := range levels {
			switch {
			case l.list:
				fmt.Fprintf(&s, "[%d]", l.index)
			case l.name != "":
				if s.Len() > 0 {
					s.WriteByte('.')
				}
				s.WriteString(l.name)
			}
		}
		return s.String()
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // accepts numbers that no Go type holds
	for {
		t, err := d.Token()
		if err != nil {
			return ""
		}
		top := len(levels) - 1
		key, isText := t.(string)
		if top >= 0 && !levels[top].list && !levels[top].value && isText {
			levels[top].name = key
		}
		if d.InputOffset() > offset {
			return path()
		}
		switch {
		case t == json.Delim('{') || t == json.Delim('['):
			levels = append(levels, level{list: t == json.Delim('[')})
			continue
		case t == json.Delim('}') || t == json.Delim(']'):
			levels = levels[:top]
		case top >= 0 && !levels[top].list && !levels[top].value:
			levels[top].value = true
			continue
		}
		// A value ended.
		if top = len(levels) - 1; top >= 0 {
			levels[top].value, levels[top].index = false, levels[top].index+1
		}
	}
}
