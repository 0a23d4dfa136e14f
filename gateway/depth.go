package gateway

import (
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"cellgate/internal/fault"
	"cellgate/internal/limits"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

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
