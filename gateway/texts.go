package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/limits"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// maxClaimID is the longest claim_id, as the schema has it.
	maxClaimID = 64
	// maxNamedTexts bounds the fields that one error names, maxNamedKey the characters of a key in their paths.
	maxNamedTexts = 32
	maxNamedKey   = 64
)

// takeTexts refuses a request with a text that no shard can store or search for, before any
// other work: a cell would refuse the whole batch that such a text is in.
func takeTexts(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := checkTexts(req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// checkTexts gives an error that names the texts with a NUL, at most maxNamedTexts, or a
// claim_id that no claim can have. It checks the depth of Nova's object first, which bounds
// the walk.
func checkTexts(req any) error {
	if err := checkDepth(req); err != nil {
		return err
	}
	var bad []fault.Field
	if m, ok := req.(proto.Message); ok {
		paths := nulsIn(m.ProtoReflect())
		slices.Sort(paths)
		for _, path := range paths[:min(len(paths), maxNamedTexts)] {
			bad = append(bad, fault.Field{Path: strings.TrimPrefix(path, "."), Problem: "has a NUL character, which no text may have"})
		}
	}
	if r, ok := req.(interface{ GetClaimId() string }); ok && len(bad) == 0 && !visible(r.GetClaimId()) {
		bad = append(bad, fault.Field{Path: "claim_id", Problem: fmt.Sprintf("must be 1 to %d visible ASCII characters", maxClaimID)})
	}
	return fault.InvalidFields(bad)
}

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

// nulsIn gives the paths, below a message, of texts with a NUL; nil for none. It ends soon after it has found
// maxNamedTexts, since a request has room for many texts below a long path.
func nulsIn(m protoreflect.Message) (paths []string) {
	if s, ok := m.Interface().(*structpb.Struct); ok {
		return nulsInObject(s)
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := "." + string(f.Name())
		switch {
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if f.MapKey().Kind() == protoreflect.StringKind && hasNUL(k.String()) {
					paths = append(paths, name+namedKey(k.String()))
				}
				paths = append(paths, below(nulsInValue(f.MapValue(), v), func() string { return name + namedKey(k.String()) })...)
				return len(paths) < maxNamedTexts
			})
		case f.IsList():
			for i := 0; i < v.List().Len() && len(paths) < maxNamedTexts; i++ {
				paths = append(paths, below(nulsInValue(f, v.List().Get(i)), func() string { return fmt.Sprintf("%s[%d]", name, i) })...)
			}
		default:
			paths = append(paths, below(nulsInValue(f, v), func() string { return name })...)
		}
		return len(paths) < maxNamedTexts
	})
	return paths
}

func nulsInValue(f protoreflect.FieldDescriptor, v protoreflect.Value) []string {
	switch f.Kind() {
	case protoreflect.StringKind:
		if hasNUL(v.String()) {
			return []string{""}
		}
	case protoreflect.MessageKind:
		return nulsIn(v.Message())
	}
	return nil
}

// namedKey is the beginning of a key as a part of a path.
func namedKey(key string) string { return fmt.Sprintf("[%.*q]", maxNamedKey, key) }

// below prefixes each of paths with the path at.
func below(paths []string, at func() string) []string {
	for i := range paths {
		paths[i] = at() + paths[i]
	}
	return paths
}

// dataKey is where a versioned object of Nova has its fields; paths leave it out, as
// those of schedule/nova do.
const dataKey = "nova_object.data"

func nulsInObject(s *structpb.Struct) (paths []string) {
	for key, v := range s.GetFields() {
		if len(paths) >= maxNamedTexts {
			break
		}
		at := func() string {
			switch {
			case key == dataKey:
				return ""
			case hasNUL(key) || strings.ContainsAny(key, ".[]\" ") || len(key) > maxNamedKey:
				return namedKey(key)
			}
			return "." + key
		}
		if hasNUL(key) {
			paths = append(paths, at())
		}
		paths = append(paths, below(nulsInNova(v), at)...)
	}
	return paths
}

func nulsInNova(v *structpb.Value) (paths []string) {
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		if hasNUL(v.StringValue) {
			return []string{""}
		}
	case *structpb.Value_StructValue:
		return nulsInObject(v.StructValue)
	case *structpb.Value_ListValue:
		for i, item := range v.ListValue.GetValues() {
			if len(paths) >= maxNamedTexts {
				break
			}
			paths = append(paths, below(nulsInNova(item), func() string { return fmt.Sprintf("[%d]", i) })...)
		}
	}
	return paths
}

// checkDepth refuses a request whose object nests too deep before anything reads
// it; requests without one pass.
func checkDepth(req any) error {
	switch r := req.(type) {
	case interface{ GetNovaRequestSpec() *structpb.Struct }:
		return checkSpecDepth("nova_request_spec", r.GetNovaRequestSpec())
	case *cellgatev1.EstimateCapacityRequest:
		for i, s := range r.GetShapes() {
			if err := checkSpecDepth(fmt.Sprintf("shapes[%d].nova_request_spec", i), s.GetNovaRequestSpec()); err != nil {
				return err
			}
		}
	case *cellgatev1.PlanDrainRequest:
		for i, s := range r.GetSpecs() {
			if err := checkSpecDepth(fmt.Sprintf("specs[%d].nova_request_spec", i), s.GetNovaRequestSpec()); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSpecDepth(path string, spec *structpb.Struct) error {
	if spec == nil || !deeper(spec, limits.NovaDepth) {
		return nil
	}
	return fault.Invalid(path, "nests more than %d lists and objects", limits.NovaDepth)
}

// deeper reports whether an object nests more than most levels, itself being the
// first.
func deeper(s *structpb.Struct, most int) bool {
	if most == 0 {
		return true
	}
	for _, v := range s.GetFields() {
		if valueDeeper(v, most-1) {
			return true
		}
	}
	return false
}

func valueDeeper(v *structpb.Value, most int) bool {
	switch v.GetKind().(type) {
	case *structpb.Value_StructValue:
		return deeper(v.GetStructValue(), most)
	case *structpb.Value_ListValue:
		if most == 0 {
			return true
		}
		for _, item := range v.GetListValue().GetValues() {
			if valueDeeper(item, most-1) {
				return true
			}
		}
	}
	return false
}
