package proposing

import (
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Propose answers a query from the version at, called name, or from the one of v that
// the query names. What the consumers that it asks about have already is left to the
// caller; they are given as canonical text.
func (s *Shapes) Propose(v *Versions, at Version, name string, in *cellv1.Query) (out *cellv1.Proposal, consumers []string, err error) {
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
	found, err := s.rank(asked, at, q)
	if err != nil {
		return nil, nil, err
	}
	out = proposalOf(found, in.GetColumns())
	out.TableVersion, out.Cut = name, at.Part != nil && at.Part.More
	return out, consumers, nil
}

// rank asks a version. What is remembered of a shape is about the whole table.
func (s *Shapes) rank(asked *Shape, at Version, q *schedule.Query) (*schedule.Proposal, error) {
	if at.Part == nil {
		found, err := s.memories.propose(asked, at.Table, q)
		if err != nil {
			return nil, fault.New(fault.InvalidRequest, "%v", err)
		}
		return found, nil
	}
	return at.Rank(q)
}
