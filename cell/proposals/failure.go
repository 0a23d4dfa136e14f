package proposals

import (
	"errors"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// FailureOf converts an error to the failure of one item of a batch.
func FailureOf(err error) *cellv1.Failure {
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind == fault.Internal {
		return &cellv1.Failure{Reason: string(fault.Internal), Message: "internal error"}
	}
	return &cellv1.Failure{Reason: string(f.Kind), Message: f.Message}
}
