package hoststate

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// ShallowCopy returns a copy that shares lists and messages with the state.
func ShallowCopy(in *agentv1.FullState) *agentv1.FullState {
	out := &agentv1.FullState{}
	to := out.ProtoReflect()
	in.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(field, v)
		return true
	})
	return out
}
