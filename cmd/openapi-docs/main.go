package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "openapi-docs DESCRIPTORS OUT")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi-docs:", err)
		os.Exit(1)
	}
}

func write(descriptors, out string) error {
	text, err := os.ReadFile(descriptors)
	if err != nil {
		return err
	}
	var files descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(text, &files); err != nil {
		return fmt.Errorf("%s: %w", descriptors, err)
	}
	d := newDocument(commentsOf(&files))
	for _, file := range []protoreflect.FileDescriptor{
		cellgatev1.File_cellgate_v1_scheduler_proto,
		cellgatev1.File_cellgate_v1_claims_proto,
		cellgatev1.File_cellgate_v1_capacity_proto,
		cellgatev1.File_cellgate_v1_cells_proto,
		cellgatev1.File_cellgate_v1_hosts_proto,
	} {
		if err := d.describe(file); err != nil {
			return err
		}
	}
	whole, err := d.whole()
	if err != nil {
		return err
	}
	if text, err = json.Marshal(whole); err != nil {
		return err
	}
	var lines bytes.Buffer
	if err := json.Indent(&lines, text, "", " "); err != nil {
		return err
	}
	lines.WriteByte('\n')
	return os.WriteFile(out, lines.Bytes(), 0o644)
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// with adds a member, unless its value is an empty text.
func (o object) with(name string, value any) object {
	if value == "" {
		return o
	}
	return append(o, member{name, value})
}
