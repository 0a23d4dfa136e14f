package rpc

import (
	"errors"
	"sync"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
)

var validator = sync.OnceValues(func() (protovalidate.Validator, error) { return protovalidate.New() })

// Validate checks a message against the rules in its schema. A violation is an
// InvalidRequest fault that names each field by its path.
func Validate(m proto.Message) error {
	v, err := validator()
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the schema's rules do not compile")
	}
	err = v.Validate(m)
	if err == nil {
		return nil
	}
	var bad *protovalidate.ValidationError
	if !errors.As(err, &bad) {
		return fault.Wrap(fault.Internal, err, "the schema's rules could not be checked")
	}
	fields := make([]fault.Field, 0, len(bad.Violations))
	for _, violation := range bad.Violations {
		path := protovalidate.FieldPathString(violation.Proto.GetField())
		if path == "" {
			path = "request"
		}
		problem := violation.Proto.GetMessage()
		if problem == "" {
			problem = "breaks the rule " + violation.Proto.GetRuleId()
		}
		fields = append(fields, fault.Field{Path: path, Problem: problem})
	}
	return fault.InvalidFields(fields)
}
