package rpc

import (
	"fmt"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "cellgate/proto/cellgate/agent/v1"
	_ "cellgate/proto/cellgate/cell/v1"
	_ "cellgate/proto/cellgate/v1"
)

// unbounded lists fields, or messages with all their fields, with what bounds them instead of a
// rule. MaxMessageBytes bounds all of them.
var unbounded = map[string]string{
	"cellgate.cell.v1.TentativePlacement.host_uuid":           "read as a uuid where it is used; a query of many instances has many, and is asked often",
	"cellgate.cell.v1.TentativePlacement.instance_uuid":       "as host_uuid",
	"cellgate.v1.PutFactsRequest.facts":                       "its bytes are checked in the gateway, its depth where it is kept (shard.CanonicalFacts); its size is the message's",
	"cellgate.v1.CapacityShape.nova_request_spec":             "as that of SelectDestinationsRequest",
	"cellgate.v1.InstanceSpec.nova_request_spec":              "as that of SelectDestinationsRequest",
	"cellgate.v1.SelectDestinationsRequest.nova_request_spec": "its depth and the number of its values are checked where it is read (schedule/nova); its size is the message's",
}

// Every list, map, string and byte sequence that a caller can send is bounded in the schema, so
// that the cost of a request is limited.
func TestEveryFieldOfARequestIsBounded(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	used := map[string]bool{}
	n := 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "cellgate.") {
			return true
		}
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for k := range methods.Len() {
				checkMessage(t, methods.Get(k).Input(), seen, used, &n)
			}
		}
		return true
	})
	for name := range unbounded {
		if !used[name] {
			t.Errorf("%s is no longer an exception: take it out of the list", name)
		}
	}
	if n < 100 {
		t.Errorf("%d fields looked at only", n)
	}
}

func checkMessage(t *testing.T, m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool, used map[string]bool, n *int) {
	if seen[m.FullName()] {
		return
	}
	seen[m.FullName()] = true
	if strings.HasPrefix(string(m.FullName()), "google.protobuf.") {
		return
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		*n++
		rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
		if problem := boundOf(f, rules); problem != "" {
			name := string(f.FullName())
			if _, ok := unbounded[name]; !ok {
				name = string(m.FullName())
			}
			if _, ok := unbounded[name]; !ok {
				t.Errorf("%s: %s", f.FullName(), problem)
			}
			used[name] = true
		}
		of := f.Message()
		if f.IsMap() {
			of = f.MapValue().Message()
		}
		if of != nil {
			checkMessage(t, of, seen, used, n)
		}
	}
}

// boundOf returns which bound a field lacks, or "".
func boundOf(f protoreflect.FieldDescriptor, r *validate.FieldRules) string {
	switch {
	case f.IsMap():
		if r.GetMap().GetMaxPairs() == 0 {
			return "has no max_pairs"
		}
		if p := scalarBound(f.MapKey().Kind(), "", r.GetMap().GetKeys()); p != "" {
			return "its keys: " + p
		}
		if p := scalarBound(f.MapValue().Kind(), nameOf(f.MapValue()), r.GetMap().GetValues()); p != "" {
			return "its values: " + p
		}
		return ""
	case f.IsList():
		if r.GetRepeated().GetMaxItems() == 0 {
			return "has no max_items"
		}
		if p := scalarBound(f.Kind(), nameOf(f), r.GetRepeated().GetItems()); p != "" {
			return "its items: " + p
		}
		return ""
	}
	return scalarBound(f.Kind(), nameOf(f), r)
}

func nameOf(f protoreflect.FieldDescriptor) protoreflect.FullName {
	if f.Message() == nil {
		return ""
	}
	return f.Message().FullName()
}

func scalarBound(kind protoreflect.Kind, message protoreflect.FullName, r *validate.FieldRules) string {
	switch s := r.GetString(); {
	case kind == protoreflect.StringKind && s.GetMaxLen() == 0 && s.GetMaxBytes() == 0 && s.GetLen() == 0 && !s.GetUuid() && len(s.GetIn()) == 0:
		return "has neither max_len nor another rule that bounds it"
	case kind == protoreflect.BytesKind && r.GetBytes().GetMaxLen() == 0:
		return "has no max_len"
	case kind == protoreflect.GroupKind:
		return "is a group"
	case message == "google.protobuf.Struct" || message == "google.protobuf.Any" || message == "google.protobuf.Value" || message == "google.protobuf.ListValue":
		return fmt.Sprintf("is a %s, which has no bound", message)
	}
	return ""
}

// The test above can fail.
func TestBoundsAreMissed(t *testing.T) {
	m := (&validate.StringRules{}).ProtoReflect().Descriptor() // a message of others, without rules
	found := 0
	for i := range m.Fields().Len() {
		if boundOf(m.Fields().Get(i), nil) != "" {
			found++
		}
	}
	if found < 8 {
		t.Errorf("%d fields without a bound found", found)
	}
}
