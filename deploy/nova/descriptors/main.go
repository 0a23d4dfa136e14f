package main

import (
	"fmt"
	"os"

	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "cellgate/proto/cellgate/v1"
)

// roots are the files the plug-in speaks; what they import comes along.
var roots = []string{
	"cellgate/v1/scheduler.proto", "cellgate/v1/claims.proto",
	"google/rpc/status.proto", "google/rpc/error_details.proto",
}

func main() {
	set, err := schema()
	if err == nil {
		_, err = os.Stdout.Write(set)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// schema gives the marshalled set, dependencies before what imports them.
func schema() ([]byte, error) {
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(path string) error
	add = func(path string) error {
		if seen[path] {
			return nil
		}
		seen[path] = true
		f, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		bare := withoutOptions(protodesc.ToFileDescriptorProto(f))
		for _, d := range bare.GetDependency() {
			if err := add(d); err != nil {
				return err
			}
		}
		set.File = append(set.File, bare)
		return nil
	}
	for _, r := range roots {
		if err := add(r); err != nil {
			return nil, err
		}
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}

// optional are imports that only options need.
var optional = map[string]bool{"buf/validate/validate.proto": true, "google/api/annotations.proto": true}

// withoutOptions drops every option but map_entry, which is part of the schema.
func withoutOptions(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	var kept []string
	for _, d := range f.GetDependency() {
		if !optional[d] {
			kept = append(kept, d)
		}
	}
	f.Dependency = kept
	strip(f.ProtoReflect())
	return f
}

func strip(m protoreflect.Message) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil:
		case fd.Name() == "options":
			entry := false
			if o, ok := v.Message().Interface().(*descriptorpb.MessageOptions); ok {
				entry = o.GetMapEntry()
			}
			m.Clear(fd)
			if entry {
				m.Set(fd, protoreflect.ValueOfMessage((&descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}).ProtoReflect()))
			}
		case fd.IsList():
			for i := range v.List().Len() {
				strip(v.List().Get(i).Message())
			}
		default:
			strip(v.Message())
		}
		return true
	})
}
