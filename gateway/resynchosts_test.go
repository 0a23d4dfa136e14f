package gateway

import (
	"context"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (f *fakeCell) ResyncHosts(ctx context.Context, req *cellv1.ResyncHostsRequest) (*cellv1.ResyncHostsResponse, error) {
	if err := f.enter(ctx, "ResyncHosts", req); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resyncs = append(f.resyncs, req)
	if req.GetHostUuid() == "" {
		return &cellv1.ResyncHostsResponse{Hosts: 2, Within: durationpb.New(1)}, nil
	}
	return &cellv1.ResyncHostsResponse{}, nil
}

// Every replica asks its streams; one that does not answer stands in its row.
func TestResyncGoesToEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		ask := &cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test"}
		resp, err := w.hosts.ResyncHosts(t.Context(), ask)
		if err != nil || len(resp.GetReplicas()) != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		for i, r := range resp.GetReplicas() {
			if r.GetReplica() == "" || r.GetHosts() != 2 || r.GetWithin() == nil || r.GetError() != "" {
				t.Errorf("replica %d: %v", i, r)
			}
			if got := w.cells[i].resyncs; len(got) != 1 || got[0].GetReason() != "a test" || got[0].GetWho() == "" {
				t.Errorf("replica %d was told %v", i, got)
			}
		}
		w.cells[0].hook(hangAll, nil)
		resp, err = w.hosts.ResyncHosts(t.Context(), ask)
		if err != nil || resp.GetReplicas()[0].GetError() == "" || resp.GetReplicas()[1].GetHosts() != 2 {
			t.Errorf("with one that hangs: %v, %v", resp, err)
		}
	})
}

func TestResyncThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		for _, c := range []struct {
			req  *cellgatev1.ResyncHostsRequest
			kind fault.Kind
		}{
			{&cellgatev1.ResyncHostsRequest{Cell: "nope", Reason: "a test"}, fault.NotFound},
			{&cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test", HostUuid: testUUID(0xa, 1)}, fault.NotFound},
			{&cellgatev1.ResyncHostsRequest{Cell: "cell1"}, fault.InvalidRequest},
			{&cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test", HostUuid: "host-1"}, fault.InvalidRequest},
		} {
			resp, err := w.hosts.ResyncHosts(t.Context(), c.req)
			mustFail(t, resp, err, c.kind)
		}
		w.cells[0].hook(hangAll, nil)
		w.cells[1].hook(hangAll, nil)
		resp, err := w.hosts.ResyncHosts(t.Context(), &cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test"})
		mustFail(t, resp, err, fault.CellUnavailable)
	})
}
