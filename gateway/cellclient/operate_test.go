package cellclient

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// gRPC's own RESOURCE_EXHAUSTED may mean that an answer was too large, so it is not taken for a full queue.
func TestForeignOverloadIsNoRefusal(t *testing.T) {
	if IsShed(rpc.FromStatus(status.Error(codes.ResourceExhausted, "trying to send message larger than max"))) {
		t.Error("taken for a full queue")
	}
	if err := rpc.FromStatus(rpc.ToStatus(fault.New(fault.Overloaded, "full")).Err()); !IsShed(err) {
		t.Errorf("%v is not taken for a full queue", err)
	}
	if Overloaded([]error{nil, fault.New(fault.CellUnavailable, "away")}, "none") != nil {
		t.Error("an outage is taken for overload")
	}
}
