package security

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/security/testca"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A part of the process can act in a role. The same header gives the role to nobody else.
func TestAs_OverMemoryAlone_ActsInItsRole(t *testing.T) {
	r := newRig(t, func(r *rig, c *ServerConfig) {
		c.Tokens, c.ClientCertOptional = testca.Put(r.dir, "tokens", nil), true
	})
	inside, err := rpc.Dial("passthrough:///memory", Forward(), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return r.memory.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	forged := metadata.AppendToOutgoingContext(t.Context(), ownHeader, string(Operator))
	r.must("over the network", list(forged, r.conn(ClientConfig{})), fault.Unauthenticated)
	r.must("by a header of REST", list(forged, inside), fault.Unauthenticated)
	r.must("over the network, in a role", list(As(t.Context(), Operator), r.conn(ClientConfig{})), fault.Unauthenticated)
	if err := list(As(forged, Reader), inside); err != nil {
		t.Errorf("in a role: %v", err)
	}
	_, err = cellgatev1.NewCellsClient(inside).ListCells(As(t.Context(), Agent), &cellgatev1.ListCellsRequest{})
	r.must("in a role that may not", err, fault.PermissionDenied)
}
