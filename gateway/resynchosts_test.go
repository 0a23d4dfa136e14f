package gateway

import (
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Every replica asks its agents. The row of a replica that does not answer has the error.
func TestResyncGoesToEveryReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := twoReplicas(t, nil)
		for _, c := range w.cells {
			c.agent(c.hosts[0], agentv1.Verdict_REASON_UNSPECIFIED)
		}
		ask := &cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test"}
		resp, err := w.hosts.ResyncHosts(t.Context(), ask)
		if err != nil || len(resp.GetReplicas()) != 2 {
			t.Fatalf("%v, %v", resp, err)
		}
		for i, r := range resp.GetReplicas() {
			if r.GetReplica() == "" || r.GetHosts() != 1 || r.GetWithin() == nil || r.GetError() != "" {
				t.Errorf("replica %d: %v", i, r)
			}
			if got := got[*cellv1.ResyncHostsRequest](w.cells[i]); len(got) != 1 || got[0].GetReason() != "a test" || got[0].GetWho() == "" {
				t.Errorf("replica %d got %v", i, got)
			}
		}
		w.cells[0].hook(hangAll, nil)
		resp, err = w.hosts.ResyncHosts(t.Context(), ask)
		if err != nil || resp.GetReplicas()[0].GetError() == "" || resp.GetReplicas()[1].GetHosts() != 1 {
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
			{&cellgatev1.ResyncHostsRequest{Cell: "cell1", Reason: "a test", HostUuid: "host-1"}, fault.NotFound},
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
