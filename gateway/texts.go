package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// maxText is the longest project, user or flavor id, in characters, as the schema
	// has it for the typed form.
	maxText = 255
	// maxClaimID is the longest claim_id, as the schema has it.
	maxClaimID = 64
	// maxGuest is shard.MaxGuest, and maxGuestDevices how many requests for devices a
	// claim takes (cell.v1.Guest).
	maxGuest, maxGuestDevices = 1 << 16, 256
	// maxNamedTexts bounds the fields that one error names.
	maxNamedTexts = 32
)

// takeTexts refuses a request with a text that no shard can keep, or look for, before
// anything is done: cells refuse such a text with all that was sent beside it.
func takeTexts(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := checkTexts(req); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

// checkTexts names every text with a NUL, and a claim_id that can be none. The object
// of Nova nests no deeper than maxDepth by then, or is not looked at.
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

// nulsIn gives the paths, below a message, of the texts with a NUL; nil for none.
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
					paths = append(paths, name+fmt.Sprintf("[%q]", k.String()))
				}
				paths = append(paths, below(nulsInValue(f.MapValue(), v), func() string { return name + fmt.Sprintf("[%q]", k.String()) })...)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				paths = append(paths, below(nulsInValue(f, v.List().Get(i)), func() string { return fmt.Sprintf("%s[%d]", name, i) })...)
			}
		default:
			paths = append(paths, below(nulsInValue(f, v), func() string { return name })...)
		}
		return true
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

// below puts what leads to them before paths.
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
		at := func() string {
			switch {
			case key == dataKey:
				return ""
			case hasNUL(key) || strings.ContainsAny(key, ".[]\" "):
				return fmt.Sprintf("[%q]", key)
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
			paths = append(paths, below(nulsInNova(item), func() string { return fmt.Sprintf("[%d]", i) })...)
		}
	}
	return paths
}

// checkKept refuses what a claim could not keep of the request. The schema bounds the
// typed form's texts; Nova's object has no schema.
func (s *selection) checkKept() error {
	var bad []fault.Field
	short := func(path, text string) {
		if n := utf8.RuneCountInString(text); n > maxText {
			bad = append(bad, fault.Field{Path: s.form() + path, Problem: fmt.Sprintf("has %d characters, the most is %d", n, maxText)})
		}
	}
	short(".project_id", s.project)
	short(".user_id", s.user)
	if n := s.request.Nova; n != nil {
		short(".flavor.flavorid", n.Flavor.ID)
		bad = append(bad, s.guestProblems(n)...)
	}
	return fault.InvalidFields(bad)
}

// guestProblems says what of a guest is more than a claim keeps (cell.guest).
func (s *selection) guestProblems(n *schedule.NovaRequest) (bad []fault.Field) {
	if n.Image == nil && n.NUMA == nil && len(n.PCI) == 0 {
		return nil
	}
	g := guestOf(s.request, s.rules)
	if size := proto.Size(&cellv1.NovaImage{Properties: g.GetImage().GetProperties()}); size > maxGuest {
		bad = append(bad, fault.Field{Path: s.form() + ".image.properties", Problem: fmt.Sprintf("have %d bytes, the most that a claim keeps is %d", size, maxGuest)})
	}
	if devices := len(g.GetPciRequests()); devices > maxGuestDevices {
		bad = append(bad, fault.Field{Path: s.form() + ".pci_requests", Problem: fmt.Sprintf("are %d, the most is %d", devices, maxGuestDevices)})
	}
	if g.GetNuma() == nil && len(g.GetPciRequests()) == 0 {
		return bad
	}
	check := schedule.GuestCheck{Nova: n, NUMA: g.GetJudgeNuma(), PCI: g.GetJudgePci()}
	if size := len(check.Encode()); size > maxGuest {
		bad = append(bad, fault.Field{Path: s.form(), Problem: fmt.Sprintf("numa_topology, pci_requests and networks have %d bytes, the most that a claim keeps is %d", size, maxGuest)})
	}
	return bad
}
