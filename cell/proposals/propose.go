package proposals

import (
	"context"
	"errors"

	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Propose answers a query from the version that the query names, or else from at, whose name is name.
// It does not look up the claims of the query's consumers: it returns the consumers as canonical uuids.
// Propose returns the context's error once ctx is done.
func (s *Shapes) Propose(ctx context.Context, v *Versions, at Version, name string, in *cellv1.Query) (out *cellv1.Proposal, consumers []string, err error) {
	q, asked, consumers, err := s.QueryOf(in)
	if err != nil {
		return nil, nil, err
	}
	if in.GetTableVersion() != "" {
		name = in.GetTableVersion()
		if at, err = v.At(name); err != nil {
			return nil, nil, err
		}
	}
	q.Stop = func() bool { return ctx.Err() != nil }
	found, err := s.rank(asked, at, q)
	if errors.Is(err, schedule.ErrStopped) {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		return nil, nil, err
	}
	out = wire.EncodeProposal(found)
	out.TableVersion, out.Truncated = name, at.Part != nil && at.Part.More
	return out, consumers, nil
}

// rank queries a version. Caches of a shape hold results for the whole table only.
func (s *Shapes) rank(asked *Shape, at Version, q *schedule.Query) (*schedule.Proposal, error) {
	if at.Part == nil {
		found, err := s.memories.propose(asked, at.Table, q)
		if err != nil {
			return nil, QueryFailure(err)
		}
		return found, nil
	}
	return at.Rank(q)
}

// QueryFailure converts an error of package schedule: unless the query was stopped, it is invalid.
func QueryFailure(err error) error {
	if errors.Is(err, schedule.ErrStopped) {
		return err
	}
	if errors.Is(err, schedule.ErrCostly) {
		return fault.New(fault.InvalidRequest, "placement.expressions: costs more than %d of CEL's steps over the hosts of a cell: ask less of a host, or of fewer hosts", schedule.ExpressionBudget)
	}
	return fault.New(fault.InvalidRequest, "%v", err)
}
