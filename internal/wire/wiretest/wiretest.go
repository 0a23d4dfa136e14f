package wiretest

import (
	"fmt"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Query encodes a query and its placement, for a table version ("" means the newest) and about
// consumers.
func Query(q *schedule.Query, version string, consumers []string) *cellv1.Query {
	out := wire.EncodeQuery(q, wire.EncodePlacement(q.Request, q.Rules))
	out.TableVersion, out.ConsumerUuids = version, consumers
	return out
}

// Proposal decodes an answer. If the answer is a failure, it returns an error.
func Proposal(p *cellv1.Proposal) (*schedule.Proposal, error) {
	if f := p.GetFailure(); f != nil {
		return nil, fmt.Errorf("%s: %s", f.GetReason(), f.GetMessage())
	}
	return wire.DecodeProposal(p)
}

// Hosts lists the uuids of a proposal's candidates, best first. It panics if they are
// malformed.
func Hosts(p *cellv1.Proposal) []string {
	decoded, err := wire.DecodeProposal(p)
	if err != nil {
		panic(err)
	}
	var out []string
	for _, c := range decoded.Candidates {
		out = append(out, c.Host.String())
	}
	return out
}
