package rpc

import (
	"errors"
	"strings"
	"sync"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/fault"
)

var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// Validate checks a message against the rules in its schema. A violation is an
// InvalidRequest fault that names each field by its path.
func Validate(m proto.Message) error { return check(m) }

// ValidateUnless is Validate, but skips the fields for which isSound returns true: the caller knows
// that they keep their rules. isSound gets the message, and the descriptor of the field or of the
// message itself.
func ValidateUnless(m proto.Message, isSound func(of protoreflect.Message, field protoreflect.Descriptor) bool) error {
	return check(m, protovalidate.WithFilter(protovalidate.FilterFunc(func(of protoreflect.Message, field protoreflect.Descriptor) bool {
		return !isSound(of, field)
	})))
}

// manyViolations is the size, in bytes, above which a message is only checked until its first violation: half a million
// of them take seconds, and half a gigabyte.
const manyViolations = 16 << 10

func check(m proto.Message, options ...protovalidate.ValidationOption) error {
	v, err := validator()
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the schema's rules do not compile")
	}
	if proto.Size(m) > manyViolations {
		options = append(options, protovalidate.WithFailFast())
	}
	err = v.Validate(m, options...)
	if err == nil {
		return nil
	}
	var bad *protovalidate.ValidationError
	if !errors.As(err, &bad) {
		return fault.Wrap(fault.Internal, err, "the schema's rules could not be checked")
	}
	fields := make([]fault.Field, 0, len(bad.Violations))
	for _, violation := range bad.Violations {
		if members := oneofMembers(m, violation.Proto.GetField()); len(members) > 0 {
			for _, path := range members {
				fields = append(fields, fault.Field{Path: path, Problem: "one of " + strings.Join(members, ", ") + " is needed"})
			}
			continue
		}
		path := protovalidate.FieldPathString(violation.Proto.GetField())
		if path == "" {
			path = "request"
		}
		fields = append(fields, fault.Field{Path: path, Problem: problemOf(violation)})
	}
	return fault.InvalidFields(fields)
}

// oneofMembers returns the paths of a oneof's fields if the path leads to a oneof, which no client can
// set itself.
func oneofMembers(m proto.Message, path *validate.FieldPath) []string {
	at := m.ProtoReflect().Descriptor()
	elements := path.GetElements()
	for i, e := range elements {
		name := protoreflect.Name(e.GetFieldName())
		if field := at.Fields().ByName(name); field != nil {
			if field.IsMap() {
				field = field.MapValue()
			}
			if at = field.Message(); at == nil {
				return nil
			}
			continue
		}
		oneof := at.Oneofs().ByName(name)
		if oneof == nil || i != len(elements)-1 {
			return nil
		}
		above := strings.TrimSuffix(protovalidate.FieldPathString(path), string(name))
		var members []string
		for k := range oneof.Fields().Len() {
			members = append(members, above+string(oneof.Fields().Get(k).Name()))
		}
		return members
	}
	return nil
}

// IsUUID reports whether text is 8-4-4-4-12 hexadecimal digits, as in the schema's rule uuid.
func IsUUID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }
