package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/testwait"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// becomes repeats right until it returns true, for testwait.Limit at most.
func becomes(t *testing.T, what string, right func() bool) {
	t.Helper()
	for end := time.Now().Add(testwait.Limit); !right(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", testwait.Limit, what)
		}
	}
}

// A local operation takes room at the host's agent that no report shows. A claim that the cell then
// makes is rejected, cannot be confirmed, and its decision shows why. A later claim is taken up on
// the host by the selection's claim_id.
func TestOperationsOnAHostTakeUpClaims(t *testing.T) {
	onLinux(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "a.sock")
	cell := launch(t, true, cellArgs(t.TempDir())...)
	cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	gw := launch(t, true, "gateway", "--drain-delay", "0s", "--cell", "cell1="+cellAddr, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
	api := gw.await(`msg="gateway starts".* grpc=(\S+)`)[1]
	if _, text, status := typed(t.Context(), "", "agent", "claims", "--socket", socket); status != exitUnreachable || !strings.Contains(text, "no answer from the agent at "+socket) {
		t.Errorf("without an agent: status %d\n%s", status, text)
	}
	p := launch(t, true, "agent", "--config", hostFile(t, dir, cellAddr), "--socket", socket)
	uuid := p.await(`msg="agent starts" host=compute1 host_uuid=(\S+)`)[1]
	p.await(`msg="every host is registered"`)
	var host cellgatev1.GetHostResponse
	cellgate(t, api, exitDone, &host, "hosts", uuid)
	all := int32(0)
	for _, i := range host.GetHost().GetInventories() {
		if i.GetResourceClass() == "VCPU" {
			all = int32(float64(i.GetTotal()-i.GetReserved()) * i.GetAllocationRatio())
		}
	}
	conn, err := rpc.Dial("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	claims := agentv1.NewHostClaimsClient(conn)
	listed := func() map[string]*agentv1.HostClaim {
		t.Helper()
		out, text, status := typed(t.Context(), "", "agent", "claims", "--socket", socket, "-o", "json")
		var m agentv1.ListHostClaimsResponse
		if err := protojson.Unmarshal([]byte(out), &m); err != nil || status != exitDone {
			t.Fatalf("status %d, %v\n%s%s", status, err, out, text)
		}
		byID := map[string]*agentv1.HostClaim{}
		for _, c := range m.GetClaims() {
			byID[c.GetClaimId()] = c
		}
		return byID
	}

	_, err = claims.InstanceClaim(t.Context(), &agentv1.InstanceClaimRequest{ClaimId: "local", InstanceUuid: "x"})
	if fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("a claim of no instance: %v", err)
	}
	local := &agentv1.InstanceClaimRequest{
		ClaimId: "local", InstanceUuid: onHost, Usages: []*agentv1.Usage{{ProviderUuid: uuid, ResourceClass: "VCPU", Amount: all}},
	}
	for range 2 {
		if _, err := claims.InstanceClaim(t.Context(), local); err != nil {
			t.Fatal(err)
		}
	}
	small := []string{"select", "--vcpus", "1", "--memory-mb", "1", "--disk-gb", "0"}
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, small...)
	instance, claim := placed.GetDestinations()[0].GetInstanceUuid(), placed.GetDestinations()[0].GetSelected().GetClaimId()
	becomes(t, "the decision does not show that the host rejected its claim", func() bool {
		out, _, status := typed(t.Context(), "", "decisions", "get", placed.GetDecisionId(), "-o", "wide", "--addr", api)
		return status == exitDone && strings.Contains(out, "REJECTED") && strings.Contains(out, "NO_ROOM: 1 VCPU asked for, 0 of ")
	})
	if _, text, status := typed(t.Context(), "", "claims", "confirm", instance, claim, "--addr", api); status != exitRefused || !strings.Contains(text, "NO_ROOM") {
		t.Errorf("confirmed: status %d\n%s", status, text)
	}
	if l := listed(); len(l) != 2 || l["local"].GetState() != agentv1.HostClaim_HELD || l[claim].GetState() != agentv1.HostClaim_REJECTED {
		t.Errorf("listed: %v", l)
	}
	_, err = claims.InstanceClaim(t.Context(), &agentv1.InstanceClaimRequest{ClaimId: claim, InstanceUuid: instance})
	if fault.KindOf(err) != fault.ClaimRejected {
		t.Errorf("the rejected claim was taken up: %v", err)
	}
	out, _, _ := typed(t.Context(), "", "agent", "claims", "--socket", socket)
	for _, want := range []string{"REJECTED", "NO_ROOM: 1 VCPU asked for", "HELD", "INSTANCE", "2 claims"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}

	if _, err := claims.AbortClaim(t.Context(), &agentv1.AbortClaimRequest{ClaimId: "local"}); err != nil {
		t.Fatal(err)
	}
	cellgate(t, api, exitDone, nil, "claims", "release", instance, claim)
	cellgate(t, api, exitDone, &placed, small...)
	instance, claim = placed.GetDestinations()[0].GetInstanceUuid(), placed.GetDestinations()[0].GetSelected().GetClaimId()
	becomes(t, "the agent does not know the claim", func() bool { return listed()[claim].GetOffered() })
	got, err := claims.InstanceClaim(t.Context(), &agentv1.InstanceClaimRequest{ClaimId: claim, InstanceUuid: instance})
	if err != nil || got.GetClaim().GetState() != agentv1.HostClaim_HELD || len(got.GetClaim().GetUsages()) != 2 {
		t.Errorf("taken up: %v, %v", got, err)
	}
	cellgate(t, api, exitDone, nil, "claims", "confirm", instance, claim)
	p.stop()
	if _, err := claims.ListHostClaims(t.Context(), &agentv1.ListHostClaimsRequest{}); status.Code(err) != codes.Unavailable && fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("after the agent: %v", err)
	}
	if left, err := filepath.Glob(socket); err != nil || len(left) > 0 {
		t.Errorf("the socket is left: %v %v", left, err)
	}
}
