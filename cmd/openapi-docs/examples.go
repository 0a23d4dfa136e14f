package main

import (
	_ "embed" // the examples
	"encoding/json"
	"maps"
	"slices"

	_ "google.golang.org/genproto/googleapis/rpc/errdetails" // a detail of errors
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

//go:embed examples.json
var examplesText []byte

// examples has examples of requests and answers by the names of their methods, of parameters and errors by their
// names. A test reads each as the gateway or its caller does. Answers and errors lack the fields that complete adds.
// There is no page_token, which only an answer gives.
var examples struct {
	Requests, Parameters, Answers, Errors map[string]json.RawMessage
}

func init() {
	if err := json.Unmarshal(examplesText, &examples); err != nil {
		panic(err) // a defect of the file
	}
}

// complete gives the example of a message as the gateway writes it in an answer: with the fields that are zero.
func complete(example json.RawMessage, m proto.Message) (json.RawMessage, error) {
	if err := protojson.Unmarshal(example, m); err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
}

// errorExamples gives the examples of an answer that is an error.
func errorExamples() (object, error) {
	var out object
	for _, name := range slices.Sorted(maps.Keys(examples.Errors)) {
		text, err := complete(examples.Errors[name], &cellgatev1.Error{})
		if err != nil {
			return nil, err
		}
		out = out.with(name, object{{"value", text}})
	}
	return out, nil
}
