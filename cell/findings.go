package cell

import (
	"context"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// ListFindings returns the findings of this replica.
func (s *scheduler) ListFindings(context.Context, *cellv1.ListFindingsRequest) (*cellv1.ListFindingsResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	return s.reconcile.List(), nil
}
