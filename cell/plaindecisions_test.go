package cell

import (
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Of decisions only their number and size are bounded: nothing in a decision has a
// rule, and plain may leave it aside.
func TestDecisionsHaveNoRules(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(m protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || strings.HasPrefix(string(m.FullName()), "google.protobuf.") {
			return
		}
		seen[m.FullName()] = true
		if proto.HasExtension(m.Options(), validate.E_Message) {
			t.Errorf("%s has a rule", m.FullName())
		}
		for i := range m.Oneofs().Len() {
			if o := m.Oneofs().Get(i); proto.HasExtension(o.Options(), validate.E_Oneof) {
				t.Errorf("%s has a rule", o.FullName())
			}
		}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if proto.HasExtension(f.Options(), validate.E_Field) {
				t.Errorf("%s has a rule", f.FullName())
			}
			if f.Message() != nil {
				look(f.Message())
			}
		}
	}
	look((&cellgatev1.Decision{}).ProtoReflect().Descriptor())
	if len(seen) < 5 {
		t.Errorf("only %d messages looked at", len(seen))
	}
}

func TestPlainDecisionsAreBounded(t *testing.T) {
	of := func(n, size int) *cellv1.PutDecisionsRequest {
		req := &cellv1.PutDecisionsRequest{}
		for range n {
			req.Decisions = append(req.Decisions, &cellgatev1.Decision{Message: strings.Repeat("x", size)})
		}
		return req
	}
	for _, tt := range []struct {
		n, size int
		sure    bool
	}{{0, 0, false}, {1, 0, true}, {1000, 100, true}, {1001, 0, false}, {1, rpc.MaxMessageBytes, false}, {5, rpc.MaxMessageBytes / 4, false}} {
		if got := plain(of(tt.n, tt.size)); got != tt.sure {
			t.Errorf("%d decisions of %d bytes: %v, want %v", tt.n, tt.size, got, tt.sure)
		}
		if err := rpc.Validate(of(tt.n, 0)); tt.sure && err != nil {
			t.Errorf("%d decisions break a rule: %v", tt.n, err)
		}
	}
}
