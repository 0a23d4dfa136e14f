package cellclient

import (
	"cmp"
	"context"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// ReplicaStates gives the state of each replica's breaker, and its last error.
func (c *Cell) ReplicaStates() []*cellgatev1.ReplicaState {
	var out []*cellgatev1.ReplicaState
	for _, r := range c.Replicas {
		state, since, err := r.breaker.view()
		s := &cellgatev1.ReplicaState{Address: r.Addr, Breaker: shownStates[state], Since: timestamppb.New(since), Loading: r.loading.Load()}
		if err := cmp.Or(r.wrongCellError(), err); err != nil {
			s.LastError = ReasonOf(err)
		}
		out = append(out, s)
	}
	return out
}

var shownStates = map[gobreaker.State]cellgatev1.BreakerState{
	gobreaker.StateClosed:   cellgatev1.BreakerState_CLOSED,
	gobreaker.StateOpen:     cellgatev1.BreakerState_OPEN,
	gobreaker.StateHalfOpen: cellgatev1.BreakerState_HALF_OPEN,
}

func (r *Replica) ListFindings(ctx context.Context) (*cellv1.ListFindingsResponse, error) {
	if err := r.wrongCellError(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.cell.ClaimBudget)
	defer cancel()
	return r.client.ListFindings(ctx, &cellv1.ListFindingsRequest{})
}

func (r *Replica) ResyncHosts(ctx context.Context, req *cellgatev1.ResyncHostsRequest, who string) (*cellgatev1.ResyncedReplica, error) {
	row := &cellgatev1.ResyncedReplica{Replica: r.Addr}
	ctx, cancel := context.WithTimeout(ctx, r.cell.ClaimBudget)
	defer cancel()
	err := r.wrongCellError()
	var got *cellv1.ResyncHostsResponse
	if err == nil {
		got, err = r.client.ResyncHosts(ctx, &cellv1.ResyncHostsRequest{HostUuid: req.GetHostUuid(), Reason: req.GetReason(), Who: who})
	}
	if err != nil {
		row.Error = ReasonOf(err)
		return row, err
	}
	row.Hosts, row.Within = got.GetHosts(), got.GetWithin()
	return row, nil
}
