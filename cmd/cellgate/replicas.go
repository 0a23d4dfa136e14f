package main

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"cellgate/internal/config"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// replicas are the schedulers of one cell. A call asks one after the other until one serves.
type replicas struct {
	cell    string
	clients []cellv1.CellSchedulerClient
	conns   []*grpc.ClientConn
}

// dialReplicas connects to a cell as a gateway does.
func dialReplicas(tls config.ClientTLS, cell config.GatewayCell) (*replicas, error) {
	dial, err := dialer(tls)
	if err != nil {
		return nil, err
	}
	r := &replicas{cell: cell.Name}
	for _, address := range cell.Replicas {
		conn, err := dial(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", address, err), r.Close())
		}
		r.conns = append(r.conns, conn)
		r.clients = append(r.clients, cellv1.NewCellSchedulerClient(conn))
	}
	return r, nil
}

// Close ends the connections.
func (r *replicas) Close() error {
	var err error
	for _, c := range r.conns {
		err = errors.Join(err, c.Close())
	}
	return err
}

// ofAny asks the replicas in turn, and puts the one that answered first for the next call.
func ofAny[I, O any](ctx context.Context, r *replicas, in I, call func(cellv1.CellSchedulerClient, context.Context, I, ...grpc.CallOption) (O, error)) (out O, err error) {
	err = fault.New(fault.CellUnavailable, "cell %s has no replicas", r.cell)
	for i := range r.clients {
		if out, err = call(r.clients[i], ctx, in); err == nil || fault.KindOf(err) != fault.CellUnavailable || ctx.Err() != nil {
			r.clients[0], r.clients[i] = r.clients[i], r.clients[0]
			return out, err
		}
	}
	return out, err
}

func (r *replicas) ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, _ ...grpc.CallOption) (*cellv1.ImportHostsResponse, error) {
	return ofAny(ctx, r, in, cellv1.CellSchedulerClient.ImportHosts)
}

func (r *replicas) ListHosts(ctx context.Context, in *cellv1.ListHostsRequest, _ ...grpc.CallOption) (*cellv1.ListHostsResponse, error) {
	return ofAny(ctx, r, in, cellv1.CellSchedulerClient.ListHosts)
}

func (r *replicas) ListClaims(ctx context.Context, in *cellv1.ListClaimsRequest, _ ...grpc.CallOption) (*cellv1.ListClaimsResponse, error) {
	return ofAny(ctx, r, in, cellv1.CellSchedulerClient.ListClaims)
}

func (r *replicas) FindUnclaimed(ctx context.Context, in *cellv1.FindUnclaimedRequest, _ ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error) {
	return ofAny(ctx, r, in, cellv1.CellSchedulerClient.FindUnclaimed)
}
