package selection

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/rules"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hostID(n int) schedule.ID {
	id, err := schedule.ParseID(hostUUID(n))
	if err != nil {
		panic(err)
	}
	return id
}

func hostUUID(n int) string { return fmt.Sprintf("0000000a-0000-4000-8000-%012x", n) }

// newService serves requests by rules, over one cell that nobody calls.
func newService(t *testing.T, by rules.Config) *Service {
	t.Helper()
	made, err := rules.Compile(by)
	if err != nil {
		t.Fatal(err)
	}
	cells, err := cellclient.New([]cellclient.CellConfig{{Name: "cell1", Replicas: []string{"cell1"}}}, cellclient.Config{}, cellclient.Deps{
		Dial: func(target string) (*grpc.ClientConn, error) { return rpc.Dial("passthrough:///" + target) }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cells.Close)
	return New(Config{}, Deps{Cells: cells, Rules: made, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

// request is a request for n instances of 2 VCPU and 4 GiB.
func request(n int) *cellgatev1.SelectDestinationsRequest {
	r := &cellgatev1.SelectDestinationsRequest{Spec: &cellgatev1.SelectDestinationsRequest_RequestSpec{RequestSpec: &cellgatev1.RequestSpec{
		Flavor: &cellgatev1.Flavor{Name: "small", Vcpus: 2, MemoryMb: 4096, RootGb: 10}, ProjectId: "p1", UserId: "u1",
	}}}
	for i := range n {
		r.InstanceUuids = append(r.InstanceUuids, hostUUID(i))
	}
	return r
}
