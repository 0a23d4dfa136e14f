package main

import (
	"context"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"cellgate/internal/config"
	"cellgate/internal/ingress"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
)

// memoryAddress is the address of a cell inside the gateway's process. Without a port, it never equals
// a configured address.
func memoryAddress(cell string) string { return "memory/" + cell }

// addLegacyOnly adds a scheduler in this process, with a shard in memory, for each cell that has none.
// It gives the cells with the addresses of these schedulers, and a function that dials them too.
func (a *assembly) addLegacyOnly(ctx context.Context, g config.Gateway, dial dialFunc) ([]config.GatewayCell, dialFunc, error) {
	inside := map[string]*bufconn.Listener{}
	cells := make([]config.GatewayCell, len(g.Cells))
	for i, c := range g.Cells {
		cells[i] = c
		if !g.LegacyOnly(c.Name) {
			continue
		}
		tls, err := a.addServerTLS("gateway.legacy", config.ServerTLS{}, ingress.Limits{})
		if err != nil {
			return nil, nil, err
		}
		own := config.Default().Cell
		own.Name, own.UUID, own.Data = c.Name, c.UUID, ""
		l := bufconn.Listen(1 << 20)
		if err := a.addCell(ctx, own, l, nil, tls); err != nil {
			return nil, nil, err
		}
		cells[i].Replicas = []string{memoryAddress(c.Name)}
		inside[cells[i].Replicas[0]] = l
	}
	return cells, func(target string) (*grpc.ClientConn, error) {
		l, ok := inside[target]
		if !ok {
			return dial(target)
		}
		return rpc.Dial("passthrough:///"+target, telemetry.DialOption(), grpc.WithContextDialer(
			func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	}, nil
}
